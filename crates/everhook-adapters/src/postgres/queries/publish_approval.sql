-- Notes that the event of a decision is durable, and forgets the call.
-- Index: the primary key. Lock: the row.
UPDATE approvals SET unpublished = NULL, call = NULL WHERE id = $1 AND unpublished = $2;
