-- Where do the next few events end that could not be forwarded? NULL: there are none.
-- Index: the primary key. Lock: none.
SELECT max(position) AS last FROM (SELECT position FROM unforwarded WHERE position > ?1 ORDER BY position LIMIT ?2);
