-- Which changes of one thing are there between two ids, by the filters, newest first (a page backward: oldest first)?
-- Index: audit_log_by_resource. Lock: none. Pairs are compared, so that no plan walks the whole log.
SELECT organization_id, id, at, actor_id, actor_name, action, resource_id, before, after, is_cut FROM audit_log
WHERE organization_id = $1 AND resource_id = $8 AND (resource_id, id) > ($8, $2) AND (resource_id, id) < ($8, $3)
    AND ($5::text IS NULL OR ($5 = 'key' AND actor_id = $6) OR ($5 = 'server' AND actor_id IS NULL))
    AND ($7::text IS NULL OR action = $7)
    AND at >= $9 AND at < $10
ORDER BY id DESC
LIMIT $4;
