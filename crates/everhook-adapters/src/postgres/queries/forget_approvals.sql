-- Removes some approvals that were decided long ago and have nothing left to be published.
-- Index: approvals_decided, then the primary key. Lock: the rows.
DELETE FROM approvals WHERE id = ANY (ARRAY(SELECT id FROM approvals WHERE decided_at < $1 AND unpublished IS NULL ORDER BY decided_at LIMIT $2));
