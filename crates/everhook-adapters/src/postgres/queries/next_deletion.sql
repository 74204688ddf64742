-- What is to be deleted next? Applications come first: those of organizations become such.
-- Index: deletions_by_kind. Lock: the row, until the commit.
SELECT id, kind, organization_id, reached FROM deletions ORDER BY kind, id LIMIT 1 FOR UPDATE;
