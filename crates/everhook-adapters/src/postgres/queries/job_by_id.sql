-- What is kept of a job?
-- Index: the primary key. Lock: none, a snapshot.
SELECT id, organization_id, application_id, lane_id, delivery_id, tokens, begun_at, outcome, answer, answer_hash, answered_at, found_by,
    progress, progress_message, progress_at
FROM jobs WHERE id = $1;
