-- Keeps a new operation, with nothing selected yet unless that is said.
-- Index: the primary key, operations_by_organization, operations_by_application, operations_with_work. Lock: the write lock.
INSERT INTO operations (
    id, organization_id, application_id, kind, status, selection, phase, selected_until, total, done, failed, skipped, rate_per_second,
    priority, start_at, created_at
)
VALUES (?1, ?2, ?10, ?3, 'pending', ?4, ?12, ?5, ?11, 0, 0, 0, ?6, ?7, ?8, ?9);
