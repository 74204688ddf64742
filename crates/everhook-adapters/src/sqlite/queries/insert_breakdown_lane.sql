-- Makes the number under which a part of an organization is counted.
-- Index: the primary key, lanes_by_id. Lock: the write lock.
INSERT INTO lanes (lane, id, kind, organization_id, application_id) VALUES ((SELECT coalesce(max(lane), 0) + 1 FROM lanes), ?1, ?2, ?3, ?3);
