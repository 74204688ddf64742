-- Where are the tables? In a schema that no other role may use, and every connection of a node looks nowhere else.
-- Index: none. Lock: the name, until the commit; somebody else who makes it at this moment is waited for, and then it is there.
CREATE SCHEMA IF NOT EXISTS everhook;
