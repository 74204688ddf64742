-- Makes the number under which a part of an organization is counted, unless somebody else just did.
-- Index: the primary key, lanes_by_id. Lock: the new row, until the commit.
INSERT INTO lanes (id, kind, organization_id, application_id) VALUES ($1, $2, $3, $3) ON CONFLICT (id) DO NOTHING;
