-- How many dead letters wait for a person, of the organizations that have the most? Notifications are left out.
-- Index: dead_letters_of_applications, all of it, then primary keys. Lock: none.
SELECT p.organization_id, count(*) AS count
FROM dead_letters d JOIN applications p ON p.id = d.application_id
WHERE d.status = 'dead' AND d.kind <> 'channel'
GROUP BY p.organization_id ORDER BY count(*) DESC, p.organization_id LIMIT $1;
