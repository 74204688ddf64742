-- Tells this database from every other, on whatever server: what nodes that share it can call it elsewhere.
-- Index: pg_database by name. Lock: none.
SELECT to_hex(s.system_identifier) || '-' || d.oid AS name
FROM pg_control_system() s, pg_database d
WHERE d.datname = current_database();
