-- Which of the next events are sealed with another key, also of those that were set aside?
-- Index: the primary keys. Lock: none.
SELECT position, id, body, received_headers, bytes FROM spooled_events WHERE position > ?1 AND encoding >= 2 AND substr(body, 2, 4) <> ?2
UNION ALL
SELECT position, id, body, received_headers, bytes FROM unforwarded WHERE position > ?1 AND encoding >= 2 AND substr(body, 2, 4) <> ?2
ORDER BY position LIMIT ?3;
