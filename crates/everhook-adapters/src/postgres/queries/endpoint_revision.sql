-- What shaped an endpoint's requests under this revision?
-- Index: the primary keys. Lock: none.
SELECT r.url, r.headers, r.secret, r.previous_secret, r.previous_secret_until, r.signature_style, r.payload_style
FROM endpoint_revisions r JOIN endpoints e ON e.id = r.endpoint_id
WHERE e.organization_id = $1 AND r.endpoint_id = $2 AND r.number = $3;
