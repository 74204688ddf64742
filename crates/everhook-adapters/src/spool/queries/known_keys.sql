-- Which keys are known?
-- Index: none, all rows are read, once when the file is opened. Lock: none.
SELECT hash, id, organization_id, application_id, name, prefix, scopes, created_at, expires_at FROM known_keys;
