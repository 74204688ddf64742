-- Which applications are known?
-- Index: none, all rows are read, once when the file is opened. Lock: none.
SELECT id, organization_id, uid, is_default FROM known_applications;
