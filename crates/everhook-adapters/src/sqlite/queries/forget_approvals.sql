-- Removes some approvals that were decided long ago and have nothing left to be published.
-- Index: approvals_decided, then the primary key. Lock: the write lock.
DELETE FROM approvals WHERE id IN (SELECT id FROM approvals WHERE decided_at < ?1 AND unpublished IS NULL ORDER BY decided_at LIMIT ?2);
