-- Keeps a decision, if there is none yet. The call goes if no event is to be published for it.
-- Index: the primary key. Lock: the write lock.
UPDATE approvals SET status = ?3, decided_at = ?4, actor_id = ?5, actor_name = ?6, reason = ?7, data = ?8, job_id = ?9,
    unpublished = ?10, call = CASE WHEN ?10 IS NULL THEN NULL ELSE call END
WHERE id = ?1 AND organization_id = ?2 AND status = 'pending';
