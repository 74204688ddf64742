-- Which organization has this uid?
-- Index: the unique key (uid). Lock: none, a snapshot.
SELECT id, uid, name, created_at, limits, admin_emails FROM organizations WHERE uid = ?1;
