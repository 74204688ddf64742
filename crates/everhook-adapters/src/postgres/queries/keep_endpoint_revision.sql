-- Keeps what shapes an endpoint's requests under its revision's number, unless that was done with an earlier change.
-- Index: the primary keys. Lock: none but the new row.
INSERT INTO endpoint_revisions (
    endpoint_id, number, url, headers, secret, previous_secret, previous_secret_until, signature_style, payload_style, made_at
)
SELECT id, revision, url, headers, secret, previous_secret, previous_secret_until, signature_style, payload_style, updated_at
FROM endpoints
WHERE id = $1
ON CONFLICT DO NOTHING;
