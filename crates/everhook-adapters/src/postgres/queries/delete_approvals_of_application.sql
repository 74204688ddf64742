-- Removes some approvals of an application that was deleted.
-- Index: approvals_by_application, then the primary key. Lock: the rows.
DELETE FROM approvals WHERE id = ANY (ARRAY(SELECT id FROM approvals WHERE application_id = $1 ORDER BY id LIMIT $2));
