-- What is to be deleted next? Applications come first: those of organizations become such.
-- Index: deletions_by_kind. Lock: the write lock, taken by the caller.
SELECT id, kind, organization_id, reached FROM deletions ORDER BY kind, id LIMIT 1;
