-- Which event does this id stand for, that is no event's own?
-- Index: the primary key. Lock: none.
SELECT event_id FROM event_aliases WHERE alias = $1;
