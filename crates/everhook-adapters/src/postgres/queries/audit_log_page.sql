-- Which changes of an organization are there between two ids, by the filters, newest first (a page backward: oldest first)?
-- Index: the primary key. Lock: none.
SELECT organization_id, id, at, actor_id, actor_name, action, resource_id, before, after, is_cut FROM audit_log
WHERE organization_id = $1 AND id > $2 AND id < $3
    AND ($5::text IS NULL OR ($5 = 'key' AND actor_id = $6) OR ($5 = 'server' AND actor_id IS NULL))
    AND ($7::text IS NULL OR action = $7)
    AND ($8::uuid IS NULL OR resource_id = $8)
    AND at >= $9 AND at < $10
ORDER BY id DESC
LIMIT $4;
