-- Throws the dead letters of events away, those that are dead. They stay in history.
-- Index: dead_letters_event_endpoint, the primary key. Lock: the rows, in the order of their ids, until the commit.
WITH dead AS (
    SELECT id FROM dead_letters WHERE event_id = ANY($1) AND status = 'dead' ORDER BY id FOR NO KEY UPDATE
)
UPDATE dead_letters SET status = 'discarded' WHERE id = ANY (ARRAY(SELECT id FROM dead)) AND status = 'dead';
