-- How many operations of an organization have not ended?
-- Index: operations_with_work, which `IS TRUE` keeps to: all operations ever are in the other. Lock: the organization, taken by the caller.
SELECT count(*) AS open FROM operations WHERE phase <> 'over' AND phase <> 'clearing' AND (organization_id = $1) IS TRUE;
