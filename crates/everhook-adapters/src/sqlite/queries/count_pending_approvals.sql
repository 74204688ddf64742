-- How many calls of an application wait for people?
-- Index: approvals_by_application_and_status. Lock: none.
SELECT count(*) AS waiting FROM approvals WHERE application_id = ?1 AND status = 'pending';
