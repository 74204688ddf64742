-- On which channel do nodes hint each other?
-- Index: the primary key. Lock: none.
SELECT hint_channel FROM installation WHERE singleton;
