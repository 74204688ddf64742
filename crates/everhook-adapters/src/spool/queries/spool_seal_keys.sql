-- Which keys are the events sealed with that wait, and those that were set aside?
-- Index: none; every event is looked at. Lock: none.
SELECT substr(body, 2, 4) AS key FROM spooled_events WHERE encoding >= 2
UNION
SELECT substr(body, 2, 4) FROM unforwarded WHERE encoding >= 2;
