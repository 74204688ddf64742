-- Keeps a job as it stands after an attempt was begun.
-- Index: the primary key, jobs_by_age. Lock: the write lock.
INSERT INTO jobs (id, organization_id, application_id, lane_id, delivery_id, tokens, begun_at, outcome, answer, answer_hash, answered_at, found_by,
    progress, progress_message, progress_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
ON CONFLICT (id) DO UPDATE SET delivery_id = excluded.delivery_id, tokens = excluded.tokens, begun_at = excluded.begun_at,
    outcome = excluded.outcome, answer = excluded.answer, answer_hash = excluded.answer_hash, answered_at = excluded.answered_at,
    found_by = excluded.found_by, progress = excluded.progress, progress_message = excluded.progress_message, progress_at = excluded.progress_at;
