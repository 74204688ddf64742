-- Gives the statements of this transaction more time than a read for people has.
-- Index: none. Lock: none.
SET LOCAL statement_timeout = '60s';
