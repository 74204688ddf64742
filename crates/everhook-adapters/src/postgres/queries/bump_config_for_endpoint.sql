-- Makes a new version of an application's configuration, which has so many bytes more or fewer, because of one endpoint. That keeps the version at which
-- it changed.
-- Index: the primary keys. Lock: the rows, until the commit.
WITH bumped AS (
    UPDATE application_counters SET config_version = config_version + 1, config_bytes = config_bytes + $3 WHERE application_id = $1 RETURNING config_version
)
UPDATE endpoints SET changed_version = bumped.config_version FROM bumped WHERE endpoints.id = $2;
