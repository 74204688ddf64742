-- Under which number do attempts name a node and its version? It is given to them now if they have none.
-- Index: the unique key (name, user_agent). Lock: the row.
INSERT INTO nodes (name, user_agent) VALUES ($1, $2) ON CONFLICT (name, user_agent) DO UPDATE SET name = excluded.name RETURNING number;
