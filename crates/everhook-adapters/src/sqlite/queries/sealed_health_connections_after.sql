-- What is sealed of the next connections to health providers, and for whom?
-- Index: the primary key. Lock: none.
SELECT id, organization_id, provider, external_user_id, access_token, refresh_token FROM health_connections WHERE id > ?1 ORDER BY id LIMIT ?2;
