-- When is the next parked delivery out of time, and when is a release looked at again?
-- Index: parked_by_expiry, releases_to_resume. Lock: none, a snapshot.
SELECT
    (SELECT expires_at FROM deliveries WHERE expires_at IS NOT NULL ORDER BY expires_at LIMIT 1) AS expires_at,
    (SELECT look_at FROM releases WHERE look_at IS NOT NULL ORDER BY look_at LIMIT 1) AS look_at;
