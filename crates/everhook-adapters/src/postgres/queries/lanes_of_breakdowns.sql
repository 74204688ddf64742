-- Under which numbers are these parts of organizations counted, if anything was?
-- Index: lanes_by_id. Lock: none.
SELECT id, lane FROM lanes WHERE id = ANY($1);
