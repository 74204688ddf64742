-- How many operations of an organization have not ended?
-- Index: operations_with_work. Lock: the write lock, taken by the caller.
SELECT count(*) FROM operations INDEXED BY operations_with_work WHERE phase <> 'over' AND phase <> 'clearing' AND organization_id = ?1;
