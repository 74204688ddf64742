-- How do an organization's dead letters come back by themselves?
-- Index: the primary key. Lock: none.
SELECT organization_id, enabled, after, requests_per_second, max_tries FROM auto_replays WHERE organization_id = $1;
