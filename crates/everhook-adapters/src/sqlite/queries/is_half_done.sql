-- Is there work that the next start of a server would complete?
-- Index: the primary keys. Lock: none.
SELECT EXISTS (SELECT 1 FROM unfinished_fanouts) OR EXISTS (SELECT 1 FROM unfinished_erasures);
