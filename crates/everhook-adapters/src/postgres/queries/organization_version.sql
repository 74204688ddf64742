-- Where does the configuration of an organization stand?
-- Index: the primary key. Lock: none.
SELECT config_version FROM organizations WHERE id = $1;
