-- Throws the dead letters of events and endpoints away, those that are dead. They stay in history.
-- Index: dead_letters_event_endpoint, the primary key. Lock: the rows, in the order of their ids, until the commit.
WITH dead AS (
    SELECT l.id
    FROM unnest($1::uuid[], $2::uuid[]) AS i (event_id, endpoint_id)
        JOIN dead_letters l ON l.event_id = i.event_id AND l.endpoint_id = i.endpoint_id
    WHERE l.status = 'dead'
    ORDER BY l.id
    FOR NO KEY UPDATE OF l
)
UPDATE dead_letters SET status = 'discarded' WHERE id = ANY (ARRAY(SELECT id FROM dead)) AND status = 'dead';
