-- Which key are secrets sealed with? The first that is named.
-- Index: the primary key. Lock: the writer's.
INSERT INTO sealing (singleton, key_id) VALUES (1, ?1) ON CONFLICT (singleton) DO UPDATE SET key_id = sealing.key_id RETURNING key_id;
