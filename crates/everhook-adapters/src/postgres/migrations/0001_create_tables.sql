-- The tables of the shared store.
--
-- Conventions: ids are UUIDv7, so that rows of a table append; instants and lengths of time are microseconds, as numbers, because time comes from
-- the node and never from here. Names are those of the embedded store. No foreign keys on the line: a look-up per row and reference is what it
-- cannot afford, and what it refers to is never deleted before it.
--
-- A delivery's life writes little (decision 0024): one row of `open_deliveries` while it is open, one of `deliveries` when it has ended, one of
-- `attempts` for each attempt. `open_deliveries` stays as small as what is open, and its dead rows are reclaimed soon; the other two only grow at
-- their end, and are dropped by the partition. Both are known by their lane first: a lane's list is read from the primary key, and whoever
-- knows only an id looks for it in the lanes of its organization.

CREATE TABLE organizations (
    id uuid PRIMARY KEY,
    uid text COLLATE "C" UNIQUE,
    name text NOT NULL,
    created_at bigint NOT NULL,
    -- A JSON object of numbers, each absent if there is no limit.
    limits text NOT NULL DEFAULT '{}',
    -- A JSON array of addresses. Each has a row in `channels`.
    admin_emails text NOT NULL DEFAULT '[]',
    -- Whose nodes send for it, and how often that was changed.
    worker_pool text COLLATE "C" NOT NULL DEFAULT 'default',
    moves bigint NOT NULL DEFAULT 0,
    -- Rises with every change to the organization, its event types or its retry schedules: a part of every application's version, so that such a
    -- change writes one row, however many applications there are.
    config_version bigint NOT NULL DEFAULT 0,
    -- How many endpoints it has that are not deleted, and how many applications beside the built-in ones: what limits are held against.
    endpoint_count bigint NOT NULL DEFAULT 0,
    application_count bigint NOT NULL DEFAULT 0,
    -- From when on nobody finds it. The row stays for what is found by it: lanes that are not empty yet, and the audit log.
    deleted_at bigint,
    CHECK (deleted_at IS NULL OR uid IS NULL)
);

-- Which pools is anybody in? One look-up a pool.
CREATE INDEX organizations_by_pool ON organizations (worker_pool);

CREATE TABLE applications (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    uid text COLLATE "C",
    name text COLLATE "C" NOT NULL,
    kind text NOT NULL CHECK (kind IN ('default', 'operational', 'custom')),
    strict_event_types boolean NOT NULL DEFAULT false,
    -- Who gets the alerts about it, unless its manifest names somebody.
    owner_email text COLLATE "C" CHECK (length(owner_email) BETWEEN 3 AND 254),
    -- Where its app is, unless its manifest says it.
    base_url text CHECK (length(base_url) BETWEEN 1 AND 1000),
    -- Where the health of its app is checked, behind the base URL, unless its manifest says it; NULL if it is not.
    health_path text CHECK (length(health_path) BETWEEN 1 AND 1024),
    created_at bigint NOT NULL,
    CONSTRAINT applications_name UNIQUE (organization_id, name),
    CONSTRAINT applications_uid UNIQUE (organization_id, uid)
);

CREATE INDEX applications_by_organization ON applications (organization_id, id);
CREATE INDEX applications_by_owner ON applications (organization_id, owner_email) WHERE owner_email IS NOT NULL;

-- Organizations and applications that were deleted and have endpoints, or applications, that are not yet. Worked off a little at a time, over restarts.
CREATE TABLE deletions (
    id uuid PRIMARY KEY,
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('application', 'organization')),
    organization_id uuid NOT NULL,
    -- The last endpoint that was deleted.
    reached uuid NOT NULL
);

CREATE INDEX deletions_by_kind ON deletions (kind, id);

-- Two numbers that every publish reads, and one that it raises. Whoever writes events of an application holds its row until the commit, so that
-- sequence numbers are given in the order of commits. Half of each page stays free: the row is rewritten in place.
CREATE TABLE application_counters (
    application_id uuid PRIMARY KEY,
    -- Rises with every change to the application or one of its endpoints.
    config_version bigint NOT NULL DEFAULT 1,
    -- The sequence number of the next event.
    next_sequence bigint NOT NULL DEFAULT 1,
    -- The highest `changed_version` of a deleted endpoint whose row was removed: what changed since an earlier version is no longer known.
    purged_version bigint NOT NULL DEFAULT 0,
    -- What its endpoints have of `config_bytes` together, the deleted not counted.
    config_bytes bigint NOT NULL DEFAULT 0 CHECK (config_bytes >= 0)
) WITH (fillfactor = 50);

CREATE TABLE schedules (
    version bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    definition text NOT NULL,
    -- When it was noticed that no endpoint and no schedule has it. Deliveries that were made before keep it.
    unused_since bigint,
    -- Unique by its hash: the longest definitions do not fit an ordered index.
    CONSTRAINT schedules_definition EXCLUDE USING hash (definition WITH =)
);

CREATE TABLE retry_schedules (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    -- The row of `schedules` that says what it means now. Deliveries keep the number, so that a change needs no care for them.
    version bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    CONSTRAINT retry_schedules_name UNIQUE (organization_id, name)
);

CREATE INDEX retry_schedules_by_version ON retry_schedules (version);
CREATE INDEX retry_schedules_by_organization ON retry_schedules (organization_id, id);

CREATE TABLE event_types (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    description text,
    -- JSON, byte for byte, both.
    schema text,
    example text,
    archived boolean NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    CONSTRAINT event_types_name UNIQUE (organization_id, name)
);

CREATE INDEX event_types_by_organization ON event_types (organization_id, id);

-- Where deliveries wait for one destination. What the destination is, and what is its own, is kept in the table of its kind.
CREATE TABLE lanes (
    -- What deliveries name it by: a number takes half the room of an id. Never given again.
    lane bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The destination's id.
    id uuid NOT NULL,
    -- Those of applications and organizations have no deliveries: what happens in all of their lanes is counted under their number as well.
    -- The last three are parts of an organization, in the same way.
    kind text NOT NULL CHECK (
        kind IN ('endpoint', 'processor', 'capability', 'channel', 'application', 'organization', 'event_type', 'retry_schedule', 'source')
    ),
    organization_id uuid NOT NULL,
    -- Those of an organization and of its parts name the organization.
    application_id uuid NOT NULL,
    -- Deliveries of this position or a later one wait until those made before the ordering was changed have ended.
    order_barrier bigint,
    -- The version of the retry schedule that new deliveries to a capability keep: of jobs, or of what their callers are told.
    job_schedule bigint CHECK (job_schedule IS NULL OR kind = 'capability')
);

CREATE UNIQUE INDEX lanes_by_id ON lanes (id);
CREATE INDEX lanes_by_organization ON lanes (organization_id, id);
CREATE INDEX lanes_by_application ON lanes (application_id, id);
CREATE INDEX lanes_of_capabilities ON lanes (organization_id, id) WHERE kind = 'capability';
CREATE INDEX lanes_by_version ON lanes (job_schedule) WHERE job_schedule IS NOT NULL;
CREATE INDEX lanes_of_breakdowns ON lanes (organization_id, kind) WHERE kind IN ('event_type', 'retry_schedule', 'source');
CREATE INDEX lanes_of_processors ON lanes (lane) WHERE kind = 'processor';
CREATE INDEX lanes_with_barrier ON lanes (lane) WHERE order_barrier IS NOT NULL;

-- How people are told what happens in an organization's application `operational`. The lane of one that was removed stays until nothing names it.
CREATE TABLE channels (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('email', 'slack', 'pagerduty', 'teams', 'webhook')),
    -- What it is addressed by: its name, or the e-mail address.
    name text COLLATE "C" NOT NULL,
    -- The version that new deliveries keep.
    retry_schedule bigint NOT NULL,
    -- Where it leads and what signs its requests, sealed. This and what follows is absent where an e-mail address is all there is to know.
    credentials bytea,
    -- A JSON array of patterns.
    event_types text,
    min_severity text CHECK (min_severity IN ('info', 'warning', 'critical')),
    enabled boolean NOT NULL DEFAULT true,
    created_at bigint,
    updated_at bigint,
    -- Whether an e-mail address is an administrator's; otherwise it is an owner's of applications.
    is_admin boolean NOT NULL DEFAULT false CHECK (NOT is_admin OR kind = 'email'),
    CONSTRAINT channels_name UNIQUE (organization_id, name),
    CHECK ((kind = 'email') = (credentials IS NULL) AND (kind = 'email') = (event_types IS NULL)),
    CHECK ((kind = 'email') = (created_at IS NULL) AND (kind = 'email') = (updated_at IS NULL)),
    CHECK (kind <> 'email' OR (enabled AND min_severity IS NULL))
);

CREATE INDEX channels_by_version ON channels (retry_schedule);

CREATE TABLE endpoints (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    application_id uuid NOT NULL,
    uid text COLLATE "C",
    name text,
    description text,
    url text NOT NULL,
    -- A JSON array of patterns.
    event_types text NOT NULL,
    -- What it asks of events beside their type: a JSON object of texts, and a filter as it was written.
    labels text NOT NULL DEFAULT '{}',
    filter text,
    verify_url boolean NOT NULL DEFAULT false,
    secret bytea NOT NULL,
    previous_secret bytea,
    previous_secret_until bigint,
    signature_style text NOT NULL CHECK (signature_style IN ('timestamped', 'sha256', 'hex')),
    payload_style text NOT NULL CHECK (payload_style IN ('envelope', 'raw')),
    -- A JSON array of [name, value], each value sealed as the secret is.
    headers text NOT NULL,
    metadata text,
    -- The version that it was written with; the one in force is its schedule's, if it follows one.
    retry_schedule bigint NOT NULL,
    retry_schedule_id uuid,
    timeout bigint,
    timeout_growth_factor double precision NOT NULL,
    max_concurrency bigint NOT NULL,
    ordering text NOT NULL CHECK (ordering IN ('none', 'per_event_type', 'per_key', 'strict')),
    rate_limit_per_minute bigint,
    rate_limit_burst bigint,
    -- JSON.
    circuit_breaker text NOT NULL,
    paused_at bigint,
    -- How fast what gathered during a pause is sent.
    drain_per_second bigint,
    state text NOT NULL CHECK (state IN ('enabled', 'disabled', 'deleted')),
    disabled_at bigint,
    disabled_reason text CHECK (disabled_reason IN ('by_owner', 'gone', 'failing')),
    deleted_at bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    -- The application's `config_version` at which it last changed.
    changed_version bigint NOT NULL DEFAULT 0,
    -- How many bytes of configuration it has.
    config_bytes bigint NOT NULL DEFAULT 0 CHECK (config_bytes >= 0),
    -- Its lane.
    lane bigint NOT NULL,
    -- The revision that its URL, secrets, styles and headers are kept under.
    revision bigint NOT NULL CHECK (revision > 0),
    CHECK ((rate_limit_per_minute IS NULL) = (rate_limit_burst IS NULL)),
    CHECK ((previous_secret IS NULL) = (previous_secret_until IS NULL)),
    CHECK ((state = 'disabled') = (disabled_at IS NOT NULL) AND (state = 'disabled') = (disabled_reason IS NOT NULL)),
    CHECK ((state = 'deleted') = (deleted_at IS NOT NULL))
);

CREATE INDEX endpoints_by_version ON endpoints (retry_schedule);
CREATE INDEX endpoints_by_organization ON endpoints (organization_id, id);
CREATE INDEX endpoints_by_application ON endpoints (application_id, id);
-- How many are disabled? They are few.
CREATE INDEX disabled_endpoints ON endpoints (organization_id) WHERE state = 'disabled';
-- Which endpoints of an application changed since a version? Read in this order, whole or in part.
CREATE INDEX endpoints_by_change ON endpoints (application_id, changed_version, id);
CREATE INDEX endpoints_by_schedule ON endpoints (retry_schedule_id, id) WHERE retry_schedule_id IS NOT NULL;
-- A deleted endpoint's name can be given again.
CREATE UNIQUE INDEX endpoints_by_uid ON endpoints (organization_id, uid) WHERE uid IS NOT NULL AND state <> 'deleted';

-- What shaped an endpoint's requests, once for each change of it and in the transaction of that change, so that an attempt names it by a number
-- and can be shown as it was sent. Rows do not change. The secrets are sealed as the endpoint's own are, and stay here after they were replaced:
-- for as long as attempts that were signed with them. Such attempts were begun before the next revision's `made_at`, or a moment later.
CREATE TABLE endpoint_revisions (
    endpoint_id uuid NOT NULL,
    number bigint NOT NULL CHECK (number > 0),
    url text NOT NULL,
    headers text NOT NULL,
    secret bytea NOT NULL,
    previous_secret bytea,
    previous_secret_until bigint,
    signature_style text NOT NULL,
    payload_style text NOT NULL,
    made_at bigint NOT NULL,
    PRIMARY KEY (endpoint_id, number)
);

-- Where webhooks of other providers come in.
CREATE TABLE sources (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    application_id uuid NOT NULL,
    name text COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    kind text NOT NULL,
    -- The recipe's fields as they were written, a JSON object of texts; empty unless the kind asks for them.
    recipe text NOT NULL,
    -- Sealed, the newest first: a JSON array of base64.
    secrets text NOT NULL,
    verify_token bytea,
    -- What else it says: a JSON object.
    settings text NOT NULL,
    -- The built-in code that handles its events, and the version of the retry schedule that new deliveries to it keep.
    processor text CHECK (processor IN ('health')),
    processor_schedule bigint,
    paused_at bigint,
    paused_mode text CHECK (paused_mode IN ('hold', 'refuse')),
    -- Until when the key of a handshake is taken.
    awaiting_handshake_until bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    CHECK ((paused_at IS NULL) = (paused_mode IS NULL)),
    CHECK ((processor IS NULL) = (processor_schedule IS NULL)),
    CONSTRAINT sources_name UNIQUE (organization_id, name)
);

CREATE INDEX sources_by_organization ON sources (organization_id, id);
CREATE INDEX sources_with_processor ON sources (organization_id, id) WHERE processor IS NOT NULL;
CREATE INDEX sources_by_version ON sources (processor_schedule) WHERE processor_schedule IS NOT NULL;

-- What happened at a source last. In a table of its own, because it changes with requests: at most a row for each source.
CREATE TABLE source_activity (
    source_id uuid PRIMARY KEY,
    accepted_at bigint,
    refused_at bigint,
    -- Why: a word.
    refusal text,
    handshake_at bigint,
    CHECK ((refused_at IS NULL) = (refusal IS NULL))
) WITH (fillfactor = 50);

-- What is known of the limits of health providers, for all organizations and nodes together: at most a row for each provider.
CREATE TABLE provider_rates (
    provider text PRIMARY KEY CHECK (provider IN ('garmin', 'strava')),
    -- Raised by each change: who read an older row writes nothing.
    revision bigint NOT NULL,
    -- Windows since the epoch, requests in them, and how many there may be.
    quarter_number bigint NOT NULL,
    quarter_used bigint NOT NULL CHECK (quarter_used >= 0),
    quarter_limit bigint NOT NULL CHECK (quarter_limit > 0),
    day_number bigint NOT NULL,
    day_used bigint NOT NULL CHECK (day_used >= 0),
    day_limit bigint NOT NULL CHECK (day_limit > 0)
) WITH (fillfactor = 50);

-- Which profile a user of a health provider is, and what reaches the provider for them.
CREATE TABLE health_connections (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    provider text NOT NULL CHECK (provider IN ('garmin', 'strava')),
    -- The user, by the provider's name.
    external_user_id text COLLATE "C" NOT NULL CHECK (length(external_user_id) BETWEEN 1 AND 256),
    profile_id text COLLATE "C" NOT NULL CHECK (length(profile_id) BETWEEN 1 AND 128),
    -- Sealed.
    access_token bytea,
    refresh_token bytea,
    token_expires_at bigint,
    -- A JSON array of names; NULL until the provider said what they are.
    permissions text,
    is_connected boolean NOT NULL,
    -- Since when the provider does not renew the tokens: the user has to connect again.
    reauthorization_needed_since bigint,
    -- Who refreshes the tokens of the user, and until when nobody else does. Kept with the user's first connection.
    refreshing_by uuid,
    refreshing_until bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    CHECK ((refreshing_by IS NULL) = (refreshing_until IS NULL)),
    CHECK (access_token IS NOT NULL OR (refresh_token IS NULL AND token_expires_at IS NULL AND reauthorization_needed_since IS NULL)),
    CHECK (is_connected OR access_token IS NULL),
    CONSTRAINT health_connections_user UNIQUE (organization_id, provider, external_user_id, profile_id)
);

CREATE INDEX health_connections_by_organization ON health_connections (organization_id, id);
CREATE INDEX health_connections_by_profile ON health_connections (organization_id, profile_id, id);

-- What was measured, a row each. Rows are found by the provider's record, else by the hash of what they are of.
CREATE TABLE health_metrics (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    profile_id text COLLATE "C" NOT NULL CHECK (length(profile_id) BETWEEN 1 AND 128),
    provider text NOT NULL CHECK (provider IN ('garmin', 'strava')),
    metric_type text NOT NULL CHECK (metric_type IN ('sleep', 'spo2', 'stress', 'vo2max', 'steps', 'resting_hr', 'calories', 'distance', 'activity')),
    sport text CHECK (sport IN ('running', 'cycling')),
    start_at bigint NOT NULL,
    end_at bigint NOT NULL,
    value double precision,
    -- A JSON object.
    details text,
    record_id text COLLATE "C",
    -- What the provider sent: sealed, and compressed where that pays. How is said by the same numbers as for events.
    raw_encoding bigint,
    raw bytea,
    dedupe_hash bytea NOT NULL CHECK (length(dedupe_hash) = 32),
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    CHECK (end_at >= start_at),
    CHECK (sport IS NULL OR metric_type = 'vo2max'),
    CHECK ((raw IS NULL) = (raw_encoding IS NULL))
);

CREATE UNIQUE INDEX health_metrics_by_hash ON health_metrics (organization_id, dedupe_hash);
CREATE UNIQUE INDEX health_metrics_by_record ON health_metrics (organization_id, profile_id, provider, metric_type, record_id)
    WHERE record_id IS NOT NULL;
CREATE INDEX health_metrics_by_organization ON health_metrics (organization_id, id);
CREATE INDEX health_metrics_by_profile ON health_metrics (organization_id, profile_id, id);

-- What an application answers when it is called: the document as its owner wrote it.
CREATE TABLE manifests (
    application_id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    -- Rises by one with each change.
    version bigint NOT NULL CHECK (version >= 1),
    document text NOT NULL,
    updated_at bigint NOT NULL,
    -- Who gets the alerts about the application, if the manifest says it.
    owner_email text COLLATE "C" CHECK (length(owner_email) BETWEEN 3 AND 254)
);

CREATE INDEX manifests_by_organization ON manifests (organization_id);
CREATE INDEX manifests_by_owner ON manifests (organization_id, owner_email) WHERE owner_email IS NOT NULL;

-- The health checks of apps: when each is due, and what the last one found.
CREATE TABLE app_checks (
    application_id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    -- The health page.
    url text NOT NULL,
    next_at bigint NOT NULL,
    -- What the last check found; NULL if there was none yet. How long it took is in microseconds.
    status text CHECK (status IN ('healthy', 'degraded', 'unhealthy')),
    checked_at bigint,
    took bigint,
    -- The checks in a row that failed, and when the first of them ended.
    failures bigint NOT NULL DEFAULT 0 CHECK (failures >= 0),
    failing_since bigint,
    detail text,
    -- What the app says about its parts: a JSON object.
    checks text CHECK (length(checks) <= 4096),
    CHECK ((status IS NULL) = (checked_at IS NULL) AND (status IS NULL) = (took IS NULL) AND (status IS NULL) = (detail IS NULL)),
    CHECK ((failures = 0) = (failing_since IS NULL))
);

CREATE INDEX app_checks_by_turn ON app_checks (next_at);
CREATE INDEX app_checks_by_organization ON app_checks (organization_id);
-- Those that alert rules are about.
CREATE INDEX failing_apps ON app_checks (application_id) WHERE failures > 0;

-- What signs the requests to an application. Sealed.
CREATE TABLE application_secrets (
    application_id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    secret bytea NOT NULL,
    previous_secret bytea,
    previous_secret_until bigint,
    CHECK ((previous_secret IS NULL) = (previous_secret_until IS NULL))
);

CREATE INDEX application_secrets_by_organization ON application_secrets (organization_id);

-- Answers of apps that later calls may be answered with. Sealed. Nothing depends on them: they expire, and the oldest of a capability that has too many go.
CREATE TABLE cached_answers (
    lane_id uuid NOT NULL,
    hash bytea NOT NULL CHECK (length(hash) = 32),
    data bytea NOT NULL,
    stored_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    UNIQUE (lane_id, hash)
);

CREATE INDEX cached_answers_by_age ON cached_answers (lane_id, stored_at);
CREATE INDEX cached_answers_by_expiry ON cached_answers (expires_at);

-- What is kept of jobs beside their events: made when the app is first asked. Goes with its event, or some time after it.
CREATE TABLE jobs (
    -- The event's.
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    application_id uuid NOT NULL,
    -- The capability's lane.
    lane_id uuid NOT NULL,
    -- The delivery that asks the app, or asked it last. A contract test of an app has none, and names itself.
    delivery_id uuid NOT NULL,
    -- SHA-256 of the tokens that the app was given, the newest last.
    tokens bytea NOT NULL CHECK (length(tokens) % 32 = 0 AND length(tokens) <= 320),
    -- When the app was last asked.
    begun_at bigint NOT NULL,
    -- What the app said: the result or the error, sealed; the SHA-256 of what came; when; and which attempt found it.
    outcome text CHECK (outcome IN ('completed', 'failed', 'retry')),
    answer bytea,
    answer_hash bytea CHECK (length(answer_hash) = 32),
    answered_at bigint,
    found_by integer,
    -- How far it said that it is since then, in percent and in words, and when.
    progress smallint CHECK (progress BETWEEN 0 AND 100),
    progress_message text,
    progress_at bigint,
    CHECK ((progress IS NULL) = (progress_at IS NULL) AND (progress IS NOT NULL OR progress_message IS NULL)),
    CHECK ((outcome IS NULL) = (answer IS NULL) AND (outcome IS NULL) = (answer_hash IS NULL) AND (outcome IS NULL) = (answered_at IS NULL)),
    CHECK (found_by IS NULL OR outcome IS NOT NULL)
);

CREATE INDEX jobs_by_age ON jobs (begun_at);

-- Calls that a person decides about. They go some time after they were decided, and with their application.
CREATE TABLE approvals (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    application_id uuid NOT NULL,
    capability text NOT NULL,
    -- The capability's lane.
    lane_id uuid NOT NULL,
    request_id uuid NOT NULL,
    -- Why the app's answer was not used.
    cause text NOT NULL,
    -- The call, sealed. NULL once nothing needs it.
    call bytea,
    requested_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    status text NOT NULL CHECK (status IN ('pending', 'approved', 'rejected', 'expired')),
    decided_at bigint,
    -- The key that decided; NULL: Everhook itself.
    actor_id uuid,
    actor_name text,
    reason text,
    -- What a person gave as the answer, sealed.
    data bytea,
    -- The job that it became.
    job_id uuid,
    -- The event that follows from the decision and is not published yet: the job, or the message to the caller.
    unpublished uuid,
    CHECK ((status = 'pending') = (decided_at IS NULL)),
    CHECK (status <> 'pending' OR (call IS NOT NULL AND unpublished IS NULL)),
    CHECK ((actor_id IS NULL) = (actor_name IS NULL) AND (actor_id IS NULL OR decided_at IS NOT NULL)),
    CHECK ((status = 'approved') = (data IS NOT NULL OR job_id IS NOT NULL) AND (data IS NULL OR job_id IS NULL)),
    CHECK (unpublished IS NULL OR call IS NOT NULL)
);

CREATE INDEX approvals_by_organization ON approvals (organization_id, id);
CREATE INDEX approvals_by_status ON approvals (organization_id, status, id);
CREATE INDEX approvals_by_application ON approvals (application_id, id);
CREATE INDEX approvals_by_application_and_status ON approvals (application_id, status, id);
CREATE INDEX approvals_unpublished ON approvals (id) WHERE unpublished IS NOT NULL;
CREATE INDEX approvals_expiring ON approvals (expires_at, id) WHERE decided_at IS NULL;
CREATE INDEX approvals_decided ON approvals (decided_at) WHERE decided_at IS NOT NULL;

-- Draws that were made instead of an app's answer, with everything that is needed to make them again.
CREATE TABLE draws (
    request_id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    application_id uuid NOT NULL,
    capability text NOT NULL,
    drawn_at bigint NOT NULL,
    seed bytea NOT NULL CHECK (length(seed) = 32),
    list_hash bytea NOT NULL CHECK (length(list_hash) = 32),
    list_length bigint NOT NULL,
    -- How many were picked; which ones follows from the seed, the length and this number.
    picked bigint NOT NULL CHECK (picked >= 0)
);

CREATE INDEX draws_by_age ON draws (drawn_at);

CREATE TABLE api_keys (
    hash bytea PRIMARY KEY CHECK (length(hash) = 32),
    id uuid NOT NULL UNIQUE,
    organization_id uuid NOT NULL,
    -- The only application that it reaches; NULL: all of its organization's. No admin key has one: it would reach other organizations.
    application_id uuid,
    name text NOT NULL,
    -- The first characters of the key, for people.
    prefix text NOT NULL CHECK (length(prefix) BETWEEN 1 AND 16),
    scopes bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    CHECK (application_id IS NULL OR scopes & 8 = 0)
);

CREATE INDEX api_keys_by_organization ON api_keys (organization_id, id);

-- When a key was last used, to the minute. In a table of its own, so that the record of a key is written once.
CREATE TABLE api_key_uses (
    api_key_id uuid PRIMARY KEY,
    last_used_at bigint NOT NULL
) WITH (fillfactor = 50);

-- Partitioned by id, which begins with the time: a look-up by id reads one partition, and what is old is dropped with its partition. What must
-- outlive its day is `kept`: that moves it to a partition beside those of the days, where every look-up finds it as well (decision 0031).
CREATE TABLE events (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    application_id uuid NOT NULL,
    event_type text COLLATE "C" NOT NULL,
    timestamp bigint NOT NULL,
    -- NULL: made by us, and equal to the id's text.
    idempotency_key text,
    source text,
    priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 2),
    kept boolean NOT NULL DEFAULT false,
    sequence_number bigint NOT NULL,
    traceparent text,
    -- How many deliveries were made when it was published, and the stretch of ids that holds them.
    deliveries integer NOT NULL,
    first_delivery_id uuid,
    last_delivery_id uuid,
    created_at bigint NOT NULL,
    -- How the body is kept. 0: as published. 1: compressed with zstd. 2 and 3: the same, and sealed after that.
    encoding smallint NOT NULL CHECK (encoding BETWEEN 0 AND 3),
    body bytea,
    -- What few publishers say: a JSON object of texts, and a JSON array of [name, value].
    labels text,
    headers text,
    -- What it is about, for endpoints that are ordered by that.
    ordering_key text,
    -- When its data was erased. The row stays, and so does its idempotency key: publishing it again must not bring the data back.
    erased_at bigint,
    -- What its data is. NULL: JSON.
    content_type text,
    -- How an event of a source came in: the source, whom it is about by the provider's name for them, the event that said the same before, and the kept
    -- headers of the request as a JSON array of [name, value], sealed if the body is. NULL: it is of no source.
    source_id uuid,
    external_user_id text COLLATE "C",
    duplicate_of uuid,
    received_headers bytea,
    CHECK (CASE WHEN erased_at IS NULL THEN body IS NOT NULL
        ELSE body IS NULL AND labels IS NULL AND headers IS NULL AND ordering_key IS NULL AND external_user_id IS NULL AND received_headers IS NULL END),
    CHECK (source_id IS NOT NULL OR external_user_id IS NULL AND duplicate_of IS NULL AND received_headers IS NULL),
    CHECK ((deliveries = 0) = (first_delivery_id IS NULL) AND (deliveries = 0) = (last_delivery_id IS NULL))
) PARTITION BY LIST (kept);

-- The body is compressed by us where that pays, and not again here.
ALTER TABLE events ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE events_daily PARTITION OF events (PRIMARY KEY (id)) FOR VALUES IN (false) PARTITION BY RANGE (id);
CREATE TABLE events_kept PARTITION OF events (PRIMARY KEY (id)) FOR VALUES IN (true);

CREATE INDEX events_by_organization ON events (organization_id, id);
-- Only events of sources pay for these.
CREATE INDEX received_by_source ON events (source_id, id) WHERE source_id IS NOT NULL;
CREATE INDEX received_by_user ON events (source_id, external_user_id, id) WHERE external_user_id IS NOT NULL;

-- Only keys that a publisher gave: ours are the events' own ids. Not partitioned, because a key is unique over all time that it is valid for.
CREATE TABLE idempotency_keys (
    application_id uuid NOT NULL,
    key text COLLATE "C" NOT NULL,
    event_id uuid NOT NULL,
    created_at bigint NOT NULL,
    -- A hash of the event's type and data: another event under the same key is no duplicate. NULL: the data was erased, and this with it.
    fingerprint bytea CHECK (length(fingerprint) = 16),
    PRIMARY KEY (application_id, key)
);

CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- Ids that publishers were told before it was known that their key was taken. Looked at only for an id that no event has.
CREATE TABLE event_aliases (
    alias uuid PRIMARY KEY,
    event_id uuid NOT NULL
);

CREATE INDEX event_aliases_by_event ON event_aliases (event_id);

-- Deliveries that wait, are held or parked.
CREATE TABLE open_deliveries (
    lane bigint NOT NULL,
    id uuid NOT NULL,
    event_id uuid NOT NULL,
    priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 2),
    -- 0 waiting, 4 held, 5 parked.
    stage smallint NOT NULL,
    attempts integer NOT NULL,
    retry_schedule bigint NOT NULL,
    due_at bigint,
    created_at bigint NOT NULL,
    failure_category text,
    -- The delivery that this one does again.
    replay_of uuid,
    operation_id uuid,
    -- Of those with one key that are open, the one with the lowest position waits and the others are held. Most deliveries have none.
    order_key text COLLATE "C",
    order_position bigint,
    -- Of those that are parked: whose they are (so that nobody looks through another organization's), what they wait for, and when that is over.
    parked_organization_id uuid,
    waits_for text COLLATE "C",
    expires_at bigint,
    -- What becomes of it then. Stays until that is settled.
    expires_into text CHECK (expires_into IN ('fails', 'gives_up', 'tries_again')),
    -- How many attempts parked it. NULL: none.
    parkings integer,
    PRIMARY KEY (lane, id),
    CHECK ((order_key IS NULL) = (order_position IS NULL)),
    CHECK ((stage = 5) = (waits_for IS NOT NULL) AND (stage = 5) = (parked_organization_id IS NOT NULL)),
    CHECK (expires_at IS NULL OR stage = 5 AND expires_into IS NOT NULL),
    CHECK (expires_into IS NULL OR stage = 0 OR expires_at IS NOT NULL),
    CHECK (CASE stage
        WHEN 0 THEN due_at IS NOT NULL
        WHEN 4 THEN due_at IS NULL AND attempts = 0 AND order_key IS NOT NULL
        -- By an attempt, or since it was made.
        WHEN 5 THEN due_at IS NULL AND (parkings > 0 AND attempts >= parkings OR parkings IS NULL AND attempts = 0)
        ELSE false END)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX waiting_by_lane ON open_deliveries (lane, priority, due_at, id) WHERE stage = 0;
-- Only those that have an order pay for it.
CREATE INDEX open_in_order ON open_deliveries (lane, order_key, order_position) WHERE order_position IS NOT NULL;
-- Which keys have anything that is held? Those that have not cost a look nothing, however many they are.
CREATE INDEX held_in_order ON open_deliveries (lane, order_key, order_position) WHERE stage = 4;
CREATE INDEX open_by_position ON open_deliveries (lane, order_position) WHERE order_position IS NOT NULL;

-- Those that wait for something outside, by that and by the end of that.
CREATE INDEX parked_by_wait ON open_deliveries (parked_organization_id, waits_for, id) WHERE stage = 5;
CREATE INDEX parked_by_expiry ON open_deliveries (expires_at, id) WHERE stage = 5 AND expires_at IS NOT NULL;

-- What came that deliveries may wait for. A row stays for a week: what was begun or accepted before must not be parked for it any more.
CREATE TABLE releases (
    organization_id uuid NOT NULL,
    waits_for text COLLATE "C" NOT NULL,
    released_at bigint NOT NULL,
    -- When parked deliveries are looked for again. NULL: no more.
    look_at bigint,
    PRIMARY KEY (organization_id, waits_for)
);

CREATE INDEX releases_to_resume ON releases (look_at) WHERE look_at IS NOT NULL;
CREATE INDEX releases_by_age ON releases (released_at) WHERE look_at IS NULL;

-- Deliveries that have ended.
CREATE TABLE deliveries (
    lane bigint NOT NULL,
    id uuid NOT NULL,
    event_id uuid NOT NULL,
    priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 2),
    -- 1 delivered, 2 dead, 3 cancelled.
    stage smallint NOT NULL,
    kept boolean NOT NULL DEFAULT false,
    attempts integer NOT NULL,
    retry_schedule bigint NOT NULL,
    ended_at bigint NOT NULL,
    created_at bigint NOT NULL,
    cause text,
    failure_category text,
    replay_of uuid,
    operation_id uuid,
    CHECK (CASE stage
        WHEN 1 THEN cause IS NULL AND attempts > 0
        WHEN 2 THEN attempts > 0 AND cause IN ('retries_exhausted', 'given_up', 'gone', 'tls_failed')
        WHEN 3 THEN cause IN ('endpoint_disabled', 'destination_deleted', 'erased', 'by_person')
        ELSE false END)
) PARTITION BY LIST (kept);

CREATE TABLE deliveries_daily PARTITION OF deliveries (PRIMARY KEY (lane, id)) FOR VALUES IN (false) PARTITION BY RANGE (id);
CREATE TABLE deliveries_kept PARTITION OF deliveries (PRIMARY KEY (lane, id)) FOR VALUES IN (true);
-- What is kept of a day.
CREATE INDEX deliveries_kept_by_id ON deliveries_kept (id);

-- How deliveries stand, open or ended, with the columns of both.
CREATE VIEW all_deliveries AS
SELECT lane, id, event_id, priority, stage, attempts, retry_schedule, due_at, NULL::bigint AS ended_at, NULL::text AS cause, waits_for, expires_at,
    expires_into, created_at, failure_category, replay_of, operation_id
FROM open_deliveries
UNION ALL
SELECT lane, id, event_id, priority, stage, attempts, retry_schedule, NULL, ended_at, cause, NULL, NULL, NULL, created_at, failure_category,
    replay_of, operation_id
FROM deliveries;

-- Those that were made after their event was: retries by hand and what operations do again.
CREATE TABLE made_later (
    event_id uuid NOT NULL,
    lane bigint NOT NULL,
    id uuid NOT NULL,
    PRIMARY KEY (event_id, id)
);

-- Who made attempts. One row for a node and the version that it ran, so that an attempt names both by a number.
CREATE TABLE nodes (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    -- How its requests name their sender.
    user_agent text NOT NULL,
    UNIQUE (name, user_agent)
);

CREATE TABLE attempts (
    delivery_id uuid NOT NULL,
    number integer NOT NULL CHECK (number > 0),
    -- 0 success, 1 failed, 2 exhausted, 3 parked.
    status smallint NOT NULL CHECK (status BETWEEN 0 AND 3),
    -- How the endpoint's breaker stood: 0 closed, 1 half-open, 2 open.
    breaker smallint NOT NULL CHECK (breaker BETWEEN 0 AND 2),
    kept boolean NOT NULL DEFAULT false,
    -- What else came with the response: 0 nothing, 1 more of the body, 2 more headers, 3 both.
    response_cut smallint CHECK (response_cut BETWEEN 0 AND 3),
    response_status smallint,
    node integer NOT NULL,
    -- The endpoint's revision that shaped the request; NULL if we failed before there was one.
    revision integer,
    failure_category text,
    error text,
    response_headers bytea,
    response_body_sample bytea,
    retry_after_delay bigint,
    retry_after_at bigint,
    duration bigint NOT NULL,
    dns bigint,
    connect bigint,
    tls bigint,
    first_byte bigint,
    scheduled_at bigint NOT NULL,
    -- How long after `scheduled_at`.
    picked_after bigint NOT NULL,
    executed_after bigint NOT NULL,
    next_retry_at bigint,
    CHECK ((status IN (0, 3)) = (failure_category IS NULL)),
    CHECK ((response_status IS NULL) = (response_headers IS NULL) AND (response_status IS NULL) = (response_body_sample IS NULL)
        AND (response_status IS NULL) = (response_cut IS NULL))
) PARTITION BY LIST (kept);

CREATE TABLE attempts_daily PARTITION OF attempts (PRIMARY KEY (delivery_id, number)) FOR VALUES IN (false) PARTITION BY RANGE (delivery_id);
CREATE TABLE attempts_kept PARTITION OF attempts (PRIMARY KEY (delivery_id, number)) FOR VALUES IN (true);

-- Whatever no other partition takes: ids of a time for which none was made, or made no more.
CREATE TABLE events_rest PARTITION OF events_daily DEFAULT;
CREATE TABLE deliveries_rest PARTITION OF deliveries_daily DEFAULT;
CREATE TABLE attempts_rest PARTITION OF attempts_daily DEFAULT;

CREATE TABLE dead_letters (
    -- The first dead delivery's.
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    application_id uuid NOT NULL,
    event_id uuid NOT NULL,
    event_type text COLLATE "C" NOT NULL,
    endpoint_id uuid NOT NULL,
    -- The kind of the destination, and what it was when it last failed: a URL, an address, a name.
    kind text NOT NULL CHECK (kind IN ('endpoint', 'processor', 'capability', 'channel')),
    target text NOT NULL,
    last_delivery_id uuid NOT NULL,
    status text NOT NULL CHECK (status IN ('dead', 'retrying', 'resolved', 'discarded')),
    cause text NOT NULL CHECK (cause IN ('retries_exhausted', 'given_up', 'gone', 'tls_failed')),
    failure_category text NOT NULL,
    last_error text NOT NULL,
    attempts bigint NOT NULL,
    failures bigint NOT NULL CHECK (failures > 0),
    first_failure_at bigint NOT NULL,
    last_failure_at bigint NOT NULL,
    requeued_at bigint,
    -- The delivery that brought it back by itself last: its death is told.
    automatic_delivery_id uuid,
    recoverable boolean NOT NULL,
    CONSTRAINT dead_letters_event_endpoint UNIQUE (event_id, endpoint_id)
);

CREATE INDEX dead_letters_by_organization ON dead_letters (organization_id, id);
CREATE INDEX dead_letters_by_endpoint ON dead_letters (endpoint_id, id);
CREATE INDEX dead_letters_of_applications ON dead_letters (application_id) WHERE status = 'dead' AND kind <> 'channel';
CREATE INDEX dead_letters_by_age ON dead_letters (last_failure_at) WHERE status <> 'retrying';
CREATE INDEX recoverable_dead_letters ON dead_letters (organization_id, failures, last_failure_at) WHERE status = 'dead' AND recoverable;

CREATE TABLE pending_alerts (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    event_type text NOT NULL,
    data bytea NOT NULL
);

-- How breakers stand that were ever other than closed.
CREATE TABLE circuit_breakers (
    endpoint_id uuid PRIMARY KEY,
    -- Rises by one with each change: whoever knows an older one does not write.
    revision bigint NOT NULL,
    stage text NOT NULL CHECK (stage IN ('closed', 'forced_closed', 'open', 'forced_open', 'half_open')),
    until bigint,
    since bigint NOT NULL,
    failed_recoveries bigint NOT NULL,
    CHECK (CASE stage WHEN 'open' THEN until IS NOT NULL WHEN 'forced_open' THEN true WHEN 'forced_closed' THEN true ELSE until IS NULL END)
) WITH (fillfactor = 50);

-- Few are: those that alert rules are about.
CREATE INDEX open_circuits ON circuit_breakers (endpoint_id) WHERE stage IN ('open', 'half_open');

-- The times in which a breaker let nothing through but probes.
CREATE TABLE open_periods (
    endpoint_id uuid NOT NULL,
    opened_at bigint NOT NULL,
    closed_at bigint,
    PRIMARY KEY (endpoint_id, opened_at)
);

-- What happened in each lane, in numbers: one row for each minute, hour and day with attempts. Read by lane, a stretch of one of these at a time.
CREATE TABLE rollups (
    lane bigint NOT NULL,
    -- How many minutes it is of: one, an hour or a day.
    span bigint NOT NULL CHECK (span IN (1, 60, 1440)),
    -- The first of them, counted from the epoch.
    minute bigint NOT NULL CHECK (minute % span = 0),
    -- Whether the hour and the day of a minute have counted it: they do once a later minute of the lane begins.
    folded boolean NOT NULL,
    successes bigint NOT NULL,
    -- Failures by category.
    timeout bigint NOT NULL,
    server_error bigint NOT NULL,
    client_error bigint NOT NULL,
    network bigint NOT NULL,
    dns bigint NOT NULL,
    tls bigint NOT NULL,
    rate_limit bigint NOT NULL,
    payload_too_large bigint NOT NULL,
    redirect bigint NOT NULL,
    blocked_address bigint NOT NULL,
    duration_sum bigint NOT NULL,
    -- For each bucket that has something its number (1 byte) and its count (4, little endian).
    durations bytea NOT NULL,
    last_success_at bigint,
    last_failure_at bigint,
    -- What calls were answered with: for each source that has something its number (1 byte) and its count (4, little endian).
    answers bytea NOT NULL DEFAULT '' CHECK (length(answers) <= 55),
    -- Deliveries by the attempt that ended them, in the same way.
    deliveries bytea NOT NULL DEFAULT '' CHECK (length(deliveries) <= 20),
    PRIMARY KEY (lane, span, minute),
    CHECK (span = 1 OR folded)
) WITH (fillfactor = 70);

-- What happened everywhere in the last minutes?
CREATE INDEX rollups_by_minute ON rollups (minute, lane) WHERE span = 1;
-- The newest minute of each lane, and others for a moment.
CREATE INDEX unfolded_rollups ON rollups (lane, minute) WHERE NOT folded;

-- What happened at sources, in numbers: one row for each source and minute with requests or attempts. A source that was deleted keeps its rows until they are
-- old: they name no person.
CREATE TABLE source_rollups (
    source_id uuid NOT NULL,
    -- Minutes since the epoch.
    minute bigint NOT NULL,
    -- Requests, and handshakes that were answered.
    accepted bigint NOT NULL CHECK (accepted >= 0),
    handshakes bigint NOT NULL CHECK (handshakes >= 0),
    -- Requests by the reason why they were rejected: a JSON object of numbers.
    rejected text NOT NULL,
    -- Events by their type: a JSON object of [received, completed, failed, dead]; those of an empty name are of more types than are told apart.
    events text NOT NULL,
    -- From the receipt to the end of a delivery.
    latency_sum bigint NOT NULL,
    -- For each bucket that has something its number (1 byte) and its count (4, little endian).
    latencies bytea NOT NULL,
    PRIMARY KEY (source_id, minute)
) WITH (fillfactor = 70);

CREATE INDEX source_rollups_by_age ON source_rollups (minute, source_id);

-- How each endpoint does since its last success.
CREATE TABLE endpoint_activity (
    lane bigint PRIMARY KEY,
    consecutive_failures bigint NOT NULL,
    first_failure_at bigint,
    last_failure_at bigint,
    last_success_at bigint,
    -- The failing clock: which failures are counted together, since when it runs, and what was reported of it.
    observed_from bigint,
    observed bigint NOT NULL DEFAULT 0,
    last_counted_at bigint,
    previous_counted_at bigint,
    failing_since bigint,
    warned_at bigint,
    owes_recovery boolean NOT NULL DEFAULT false,
    recovered_at bigint,
    -- What was reported about its health, the newest first: JSON.
    health_history text NOT NULL DEFAULT '[]' CHECK (length(health_history) <= 10000),
    CHECK ((consecutive_failures = 0) = (first_failure_at IS NULL)),
    CHECK (warned_at IS NULL OR failing_since IS NOT NULL)
) WITH (fillfactor = 50);
-- Only those that fail for long, or work again after that, are in these.
CREATE INDEX failing_endpoints ON endpoint_activity (failing_since, lane) WHERE failing_since IS NOT NULL;
CREATE INDEX recovered_endpoints ON endpoint_activity (recovered_at) WHERE recovered_at IS NOT NULL;

-- Alert rules that organizations wrote, and default ones that they changed. A default one that nobody changed has no row.
CREATE TABLE alert_rules (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    name text COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    -- What it says: a JSON object.
    definition text NOT NULL CHECK (length(definition) <= 4096),
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);

CREATE UNIQUE INDEX alert_rules_by_name ON alert_rules (organization_id, name);

-- How alert rules stand at what they watch: a row while that is not `ok`, and for a month after it was.
CREATE TABLE alerts (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    -- The rule, by name.
    rule text COLLATE "C" NOT NULL,
    target_id uuid NOT NULL,
    application_id uuid,
    stage text NOT NULL CHECK (stage IN ('ok', 'pending', 'firing', 'too_few_samples')),
    since bigint NOT NULL,
    -- What was measured last.
    value double precision NOT NULL,
    updated_at bigint NOT NULL,
    -- When it was last reported while it fires.
    reported_at bigint,
    silenced_until bigint,
    -- The rule as it was then: a JSON object.
    definition text NOT NULL CHECK (length(definition) <= 4096),
    -- The last times that it fired, the newest first: JSON.
    episodes text NOT NULL CHECK (length(episodes) <= 4096),
    -- Rises with each change: whoever knows an older one does not write.
    revision bigint NOT NULL CHECK (revision > 0),
    CHECK (reported_at IS NULL OR stage IN ('firing', 'too_few_samples'))
);

CREATE UNIQUE INDEX alerts_by_target ON alerts (organization_id, rule, target_id);
CREATE INDEX alerts_by_organization ON alerts (organization_id, id);
-- Only those that are not over are evaluated again, and only those that are over are forgotten.
CREATE INDEX open_alerts ON alerts (id) WHERE stage <> 'ok';
CREATE INDEX alerts_over ON alerts (since) WHERE stage = 'ok';

-- Bulk actions that are selected first and then worked off, a little at a time.
CREATE TABLE operations (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    -- The only application that it is about; NULL: any of the organization's.
    application_id uuid,
    kind text NOT NULL CHECK (kind IN ('retry_batch', 'discard_batch', 'recover', 'replay', 'erase', 'attempt_now', 'backfill', 'delete_data')),
    status text NOT NULL CHECK (status IN ('pending', 'running', 'finished', 'cancelled', 'failed')),
    -- JSON.
    selection text NOT NULL,
    -- What became of the first pieces of a backfill, a letter each.
    chunk_outcomes text NOT NULL DEFAULT '' CHECK (length(chunk_outcomes) <= 1440),
    -- What is left to do.
    phase text NOT NULL CHECK (phase IN ('selecting', 'selected', 'clearing', 'over')),
    -- Up to which id the selection has looked.
    selected_until uuid NOT NULL,
    -- The transaction that began it: what was being written then is waited for before anything is selected.
    begun_by xid8 NOT NULL DEFAULT pg_current_xact_id(),
    total bigint NOT NULL,
    done bigint NOT NULL,
    failed bigint NOT NULL,
    skipped bigint NOT NULL,
    rate_per_second bigint,
    priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 2),
    start_at bigint,
    created_at bigint NOT NULL,
    started_at bigint,
    finished_at bigint,
    CHECK ((status IN ('finished', 'cancelled', 'failed')) = (finished_at IS NOT NULL)),
    CHECK ((status IN ('finished', 'cancelled', 'failed')) = (phase IN ('clearing', 'over'))),
    CHECK (done + failed + skipped <= total),
    CHECK (CASE WHEN kind = 'backfill' THEN length(chunk_outcomes) = done + failed + skipped ELSE chunk_outcomes = '' END)
) WITH (fillfactor = 50);

CREATE INDEX operations_by_organization ON operations (organization_id, id);
CREATE INDEX operations_by_application ON operations (application_id, id) WHERE application_id IS NOT NULL;
CREATE INDEX operations_with_work ON operations (id) WHERE phase <> 'over';

-- What an operation still has to do. A row is deleted in the write that does it.
CREATE TABLE operation_items (
    operation_id uuid NOT NULL,
    -- The event's sequence number: the order in which an ordered lane gets them.
    position bigint NOT NULL,
    lane bigint NOT NULL,
    event_id uuid NOT NULL,
    -- The delivery that is done again, if there is one.
    replay_of uuid,
    PRIMARY KEY (operation_id, position, lane)
);

-- The same for operations that erase: they are about events, wherever these went.
CREATE TABLE erasure_items (
    operation_id uuid NOT NULL,
    event_id uuid NOT NULL,
    PRIMARY KEY (operation_id, event_id)
);

CREATE TABLE auto_replays (
    organization_id uuid PRIMARY KEY,
    enabled boolean NOT NULL,
    after bigint NOT NULL,
    requests_per_second bigint NOT NULL CHECK (requests_per_second > 0),
    max_tries bigint NOT NULL CHECK (max_tries > 0)
);

-- Who changed what. Written in the transaction of the change that it tells of, and never changed.
CREATE TABLE audit_log (
    organization_id uuid NOT NULL,
    id uuid NOT NULL,
    at bigint NOT NULL,
    -- NULL: the server itself.
    actor_id uuid,
    actor_name text,
    action text NOT NULL,
    resource_id uuid NOT NULL,
    -- JSON objects with the fields that changed. NULL: it was not there before, or is not there after.
    before text,
    after text,
    is_cut boolean NOT NULL,
    PRIMARY KEY (organization_id, id),
    CHECK ((actor_id IS NULL) = (actor_name IS NULL))
);

CREATE INDEX audit_log_by_resource ON audit_log (organization_id, resource_id, id);

-- The lives of nodes. A lease belongs to a boot: it is good until an instant of this server's clock, and a boot whose lease has ended is deleted
-- by whoever wants what it held. Settling locks the row (`FOR KEY SHARE`), so that a boot is not deleted in the middle of it, and finds it gone after.
CREATE TABLE boots (
    id uuid PRIMARY KEY,
    node text NOT NULL,
    pool text COLLATE "C" NOT NULL,
    worker boolean NOT NULL,
    scheduler boolean NOT NULL,
    good_until bigint NOT NULL,
    renewals bigint NOT NULL DEFAULT 0,
    -- The sealing key that the node is to use, and the one that it uses. NULL: it has just begun, and says so when it has read its own.
    seal_key_id text,
    seals_with text,
    CHECK ((seal_key_id IS NULL) = (seals_with IS NULL))
) WITH (fillfactor = 50);

-- Who sends for which lanes of a pool's organizations. Those of a pool are made when its first boot begins.
CREATE TABLE shards (
    pool text COLLATE "C" NOT NULL,
    number smallint NOT NULL,
    boot uuid,
    PRIMARY KEY (pool, number)
) WITH (fillfactor = 50);

-- Which capabilities nodes have calls of, and whose circuit breakers have opened there by their own calls.
CREATE TABLE breaker_votes (
    lane_id uuid NOT NULL,
    -- A node, as long as it lives.
    node uuid NOT NULL,
    called_at bigint NOT NULL,
    -- Until when the vote counts; NULL: it has not opened.
    opened_until bigint,
    -- Whether the app's answers were no good; otherwise there were none in time.
    has_answers boolean,
    PRIMARY KEY (lane_id, node),
    CHECK ((opened_until IS NULL) = (has_answers IS NULL))
) WITH (fillfactor = 50);

CREATE INDEX breaker_votes_by_age ON breaker_votes (called_at);

-- Which boots of the pool that an organization left have not let go of it. Nobody else sends for it while one of them is alive.
CREATE TABLE departures (
    organization_id uuid NOT NULL,
    boot uuid NOT NULL,
    -- Which of the organization's moves it was.
    moves bigint NOT NULL,
    PRIMARY KEY (organization_id, boot)
);

CREATE INDEX departures_by_boot ON departures (boot);

-- Who does what only one node does at a time.
CREATE TABLE duties (
    name text PRIMARY KEY,
    boot uuid
) WITH (fillfactor = 50);

-- What nodes draw from together: an organization's rates, and a row by which its slots are locked. Counters are no promises: nothing is flushed for them, and
-- after a crash of the server they are empty, which means full budgets.
CREATE UNLOGGED TABLE budgets (
    organization_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('deliveries', 'events', 'retries', 'slots')),
    -- What is in the bucket, in parts of a token, and when that was true, by this server's clock. NULL: nobody has drawn from it.
    parts bigint,
    as_of bigint,
    PRIMARY KEY (organization_id, kind)
) WITH (fillfactor = 50);

-- How many of an organization's slots a process holds, and would like to hold.
CREATE UNLOGGED TABLE budget_slots (
    organization_id uuid NOT NULL,
    holder uuid NOT NULL,
    held bigint NOT NULL,
    wanted bigint NOT NULL,
    held_until bigint NOT NULL,
    PRIMARY KEY (organization_id, holder)
) WITH (fillfactor = 50);

-- What was changed, for the nodes that remember it. Read in the order of transactions: those before the oldest that is still open are complete.
CREATE TABLE changes (
    transaction xid8 NOT NULL DEFAULT pg_current_xact_id(),
    number bigint GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL CHECK (kind IN ('endpoint', 'application', 'organization', 'definitions', 'source', 'api_key', 'erased', 'cancelled', 'everything')),
    id uuid,
    -- The application of an endpoint.
    application_id uuid,
    -- When, by this server's clock: old ones are forgotten.
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (transaction, number)
);

-- Up to which transaction changes were forgotten.
CREATE TABLE forgotten_changes (
    until xid8 NOT NULL
);

INSERT INTO forgotten_changes VALUES ('0');

-- The move of a data folder into this database, if there was one. While it is not finished, no node starts here.
CREATE TABLE moves (
    singleton boolean PRIMARY KEY CHECK (singleton),
    -- The folder, for people.
    source text NOT NULL,
    -- What the folder's files looked like when the move began: after a change of them it does not go on.
    fingerprint bytea NOT NULL,
    begun_at bigint NOT NULL,
    finished_at bigint
);

-- How far it is, for each table: written in the transaction of the rows that it counts.
CREATE TABLE moved_tables (
    name text PRIMARY KEY,
    rows bigint NOT NULL,
    -- The sum of the rows' hashes.
    sum bytea NOT NULL CHECK (length(sum) = 32),
    -- The key of the last row.
    last_key bytea NOT NULL
);

-- Which installation this is: what its nodes keep elsewhere is named by it.
CREATE TABLE installation (
    singleton boolean PRIMARY KEY CHECK (singleton),
    id uuid NOT NULL,
    -- Where nodes notify each other. Every role of a database may notify and listen on every channel whose name it knows: this one is known to those who
    -- may read it here.
    hint_channel text NOT NULL CHECK (hint_channel ~ '^everhook_[0-9a-f]{32}$')
);

INSERT INTO installation VALUES (true, gen_random_uuid(), 'everhook_' || replace(gen_random_uuid()::text, '-', ''));

-- What nodes take turns at, by a lock on a row. Advisory locks are open to every role of the database, and so are those on tables: a statement that is
-- prepared locks its tables before anybody asks whether it may be run. A row is locked only by who may change it.
CREATE TABLE node_locks (
    name text PRIMARY KEY
);

INSERT INTO node_locks VALUES ('boots'), ('moves'), ('partitions');

-- Which key secrets are sealed with: a node that has another refuses to start.
CREATE TABLE sealing (
    singleton boolean PRIMARY KEY CHECK (singleton),
    -- What is sealed from now on is sealed with this one.
    key_id text NOT NULL,
    -- The key that some values may still be sealed with, while a rotation is under way, and how far that is. NULL: none is.
    from_key_id text CHECK (from_key_id <> key_id),
    is_cancelled boolean NOT NULL DEFAULT false,
    pass bigint NOT NULL DEFAULT 0 CHECK (pass >= 0),
    kind text NOT NULL DEFAULT 'endpoints' CHECK (kind IN ('endpoints', 'endpoint_revisions', 'sources', 'channels', 'application_secrets', 'health_connections',
        'cached_answers', 'jobs', 'approvals', 'health_metrics', 'payloads')),
    after_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    after_number bigint NOT NULL DEFAULT 0,
    resealed_in_pass bigint NOT NULL DEFAULT 0,
    looked_at bigint NOT NULL DEFAULT 0,
    resealed bigint NOT NULL DEFAULT 0,
    unreadable bigint NOT NULL DEFAULT 0,
    began_at bigint,
    not_before bigint,
    ended_at bigint,
    CHECK (from_key_id IS NULL OR (pass > 0 AND began_at IS NOT NULL AND not_before IS NOT NULL))
);

-- What the roles that read one organization's reports may see (decision 0032).
--
-- They read views, in a schema that holds nothing else, with their own rights: row-level security of the tables behind says which rows that are. The
-- schema of the tables is closed to them: a role that may use a schema can lock the tables in it, whether it may read them or not (decision 0037).
--
-- Every table is under row-level security, also those that nobody but the nodes should read: without a policy, a grant that was made by mistake
-- shows nothing. Partitions are read through their tables, whose policies hold then; asked directly, they have none. Owners are not subject to
-- any of this, and the nodes' role owns the tables: nothing of it is in their plans.
--
-- A role cannot say which organization it is for: `report_roles` says it, by the name that the session logged in with. `SET ROLE` does not change
-- that name. Policies, views and functions are bound to tables when they are made, so that no search path leads them elsewhere.

CREATE TABLE report_roles (
    role name PRIMARY KEY,
    organization_id uuid NOT NULL
);

DO $$
DECLARE
    held regclass;
BEGIN
    FOR held IN SELECT oid FROM pg_class WHERE relnamespace = 'everhook'::regnamespace AND relkind IN ('r', 'p') LOOP
        EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', held);
    END LOOP;
END $$;

-- Without this it would read its tables with the rights of its owner, who sees everything.
ALTER VIEW all_deliveries SET (security_invoker = true);

-- Whose reports does this session read? NULL: nobody's.
CREATE FUNCTION everhook_report_organization() RETURNS uuid LANGUAGE sql STABLE SECURITY DEFINER SET search_path = everhook, pg_temp
RETURN (SELECT organization_id FROM report_roles WHERE role = session_user);

-- And which lanes has that organization, by the names that other tables have for them? Arrays, so that an index can be asked for them.
CREATE FUNCTION everhook_report_endpoints() RETURNS uuid[] LANGUAGE sql STABLE SECURITY DEFINER SET search_path = everhook, pg_temp
RETURN ARRAY(SELECT id FROM lanes WHERE organization_id = everhook_report_organization());

CREATE FUNCTION everhook_report_lanes() RETURNS bigint[] LANGUAGE sql STABLE SECURITY DEFINER SET search_path = everhook, pg_temp
RETURN ARRAY(SELECT lane FROM lanes WHERE organization_id = everhook_report_organization());

-- Each function stands in a `SELECT` of its own, so that it is asked once for a statement and not for every row.
CREATE POLICY of_organization ON organizations FOR SELECT USING (id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON applications FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON retry_schedules FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON event_types FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON endpoints FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON sources FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON manifests FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON draws FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON channels FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON lanes FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON events FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON dead_letters FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON operations FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON auto_replays FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON audit_log FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));

CREATE POLICY of_organization ON open_deliveries FOR SELECT USING (lane = ANY ((SELECT everhook_report_lanes())::bigint[]));
CREATE POLICY of_organization ON deliveries FOR SELECT USING (lane = ANY ((SELECT everhook_report_lanes())::bigint[]));
CREATE POLICY of_organization ON rollups FOR SELECT USING (lane = ANY ((SELECT everhook_report_lanes())::bigint[]));
CREATE POLICY of_organization ON endpoint_activity FOR SELECT USING (lane = ANY ((SELECT everhook_report_lanes())::bigint[]));

CREATE POLICY of_organization ON circuit_breakers FOR SELECT USING (endpoint_id = ANY ((SELECT everhook_report_endpoints())::uuid[]));
CREATE POLICY of_organization ON open_periods FOR SELECT USING (endpoint_id = ANY ((SELECT everhook_report_endpoints())::uuid[]));

-- These name no owner themselves. What they ask for here is subject to the policies above.
CREATE POLICY of_organization ON attempts FOR SELECT USING (
    EXISTS (SELECT FROM deliveries d WHERE d.id = delivery_id) OR EXISTS (SELECT FROM open_deliveries o WHERE o.id = delivery_id)
);
CREATE POLICY of_organization ON schedules FOR SELECT USING (
    version IN (SELECT r.version FROM retry_schedules r) OR version IN (SELECT p.retry_schedule FROM endpoints p)
    OR version IN (SELECT c.retry_schedule FROM channels c) OR version IN (SELECT s.processor_schedule FROM sources s)
    OR version IN (SELECT l.job_schedule FROM lanes l)
);

-- Rights on tables are of no use to who may not use their schema, and show nothing to who is not in `report_roles`. So everybody has them: rights that a
-- role has itself it could give up in a transaction that it leaves open, and hold up whoever writes to the table's entry in `pg_class`.
GRANT SELECT ON organizations, applications, manifests, draws, lanes, retry_schedules, schedules, event_types, open_deliveries, deliveries, all_deliveries, attempts, dead_letters,
    circuit_breakers, open_periods, rollups, endpoint_activity, operations, auto_replays, audit_log TO PUBLIC;
-- All but the secrets, and the headers, whose values may be credentials. A new column is hidden until it is named here, and in the view.
GRANT SELECT (id, organization_id, application_id, uid, name, description, url, event_types, labels, filter, verify_url, signature_style, payload_style, metadata,
    retry_schedule, retry_schedule_id, timeout, timeout_growth_factor, max_concurrency, ordering, rate_limit_per_minute, rate_limit_burst,
    circuit_breaker, paused_at, drain_per_second, state, disabled_at, disabled_reason, deleted_at, created_at, updated_at, lane, revision) ON endpoints TO PUBLIC;
GRANT SELECT (id, organization_id, application_id, name, kind, recipe, settings, processor, processor_schedule, paused_at, paused_mode, awaiting_handshake_until, created_at, updated_at)
    ON sources TO PUBLIC;
GRANT SELECT (id, organization_id, kind, name, retry_schedule, event_types, min_severity, enabled, created_at, updated_at, is_admin) ON channels TO PUBLIC;
GRANT SELECT (id, organization_id, application_id, event_type, timestamp, idempotency_key, source, priority, sequence_number, traceparent, deliveries,
    first_delivery_id, last_delivery_id, created_at, encoding, body, labels, ordering_key, erased_at, content_type, source_id, external_user_id, duplicate_of)
    ON events TO PUBLIC;

-- What a role can name. A view of one table alone can be written through, and a statement that would do it locks the table before anybody asks whether
-- it may: so each has something beside its table, which costs nothing.
CREATE SCHEMA everhook_reports;

CREATE VIEW everhook_reports.organizations WITH (security_invoker) AS SELECT t.* FROM organizations t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.applications WITH (security_invoker) AS SELECT t.* FROM applications t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.manifests WITH (security_invoker) AS SELECT t.* FROM manifests t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.draws WITH (security_invoker) AS SELECT t.* FROM draws t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.retry_schedules WITH (security_invoker) AS SELECT t.* FROM retry_schedules t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.schedules WITH (security_invoker) AS SELECT t.* FROM schedules t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.lanes WITH (security_invoker) AS SELECT t.* FROM lanes t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.channels WITH (security_invoker) AS
SELECT id, organization_id, kind, name, retry_schedule, event_types, min_severity, enabled, created_at, updated_at, is_admin FROM channels CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.event_types WITH (security_invoker) AS SELECT t.* FROM event_types t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.open_deliveries WITH (security_invoker) AS SELECT t.* FROM open_deliveries t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.deliveries WITH (security_invoker) AS SELECT t.* FROM deliveries t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.all_deliveries WITH (security_invoker) AS SELECT t.* FROM all_deliveries t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.attempts WITH (security_invoker) AS SELECT t.* FROM attempts t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.dead_letters WITH (security_invoker) AS SELECT t.* FROM dead_letters t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.circuit_breakers WITH (security_invoker) AS SELECT t.* FROM circuit_breakers t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.open_periods WITH (security_invoker) AS SELECT t.* FROM open_periods t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.rollups WITH (security_invoker) AS SELECT t.* FROM rollups t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.endpoint_activity WITH (security_invoker) AS SELECT t.* FROM endpoint_activity t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.operations WITH (security_invoker) AS SELECT t.* FROM operations t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.auto_replays WITH (security_invoker) AS SELECT t.* FROM auto_replays t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.audit_log WITH (security_invoker) AS SELECT t.* FROM audit_log t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.endpoints WITH (security_invoker) AS
SELECT id, organization_id, application_id, uid, name, description, url, event_types, labels, filter, verify_url, signature_style, payload_style, metadata,
    retry_schedule, retry_schedule_id, timeout, timeout_growth_factor, max_concurrency, ordering, rate_limit_per_minute, rate_limit_burst,
    circuit_breaker, paused_at, drain_per_second, state, disabled_at, disabled_reason, deleted_at, created_at, updated_at, lane, revision
FROM endpoints CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.sources WITH (security_invoker) AS
SELECT id, organization_id, application_id, name, kind, recipe, settings, processor, processor_schedule, paused_at, paused_mode, awaiting_handshake_until, created_at, updated_at
FROM sources CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.events WITH (security_invoker) AS
SELECT id, organization_id, application_id, event_type, timestamp, idempotency_key, source, priority, sequence_number, traceparent, deliveries,
    first_delivery_id, last_delivery_id, created_at, encoding, body, labels, ordering_key, erased_at, content_type, source_id, external_user_id, duplicate_of
FROM events CROSS JOIN (SELECT) AS nothing;

GRANT SELECT ON ALL TABLES IN SCHEMA everhook_reports TO PUBLIC;

-- Lets a role read the reports of one organization, and nothing else. Again for the same organization: it gets what it lacks. `pg_catalog.format`,
-- because a function that somebody else made in this schema could fit its arguments better.
CREATE FUNCTION everhook_grant_reports(login name, organization uuid) RETURNS void LANGUAGE plpgsql SET search_path = everhook, pg_temp AS $$
DECLARE
    asked pg_roles;
BEGIN
    SELECT * INTO asked FROM pg_roles WHERE rolname = login;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no role "%"', login USING HINT = 'Make it first: CREATE ROLE … LOGIN PASSWORD …';
    END IF;
    IF NOT EXISTS (SELECT FROM organizations WHERE id = organization) THEN
        RAISE EXCEPTION 'there is no organization %', organization;
    END IF;
    -- Each of these would lead around the policies.
    IF asked.rolsuper OR asked.rolbypassrls OR asked.rolcreaterole OR asked.rolreplication THEN
        RAISE EXCEPTION 'the role "%" may do more than read: it must not be SUPERUSER, BYPASSRLS, CREATEROLE or REPLICATION', login;
    END IF;
    IF EXISTS (SELECT FROM pg_auth_members WHERE member = asked.oid) THEN
        RAISE EXCEPTION 'the role "%" is a member of other roles, and would have their rights too', login;
    END IF;
    IF EXISTS (SELECT FROM pg_class WHERE oid = 'report_roles'::regclass AND relowner = asked.oid) THEN
        RAISE EXCEPTION 'the role "%" owns the tables, and sees everything', login;
    END IF;
    IF has_schema_privilege(asked.oid, 'everhook', 'USAGE') THEN
        RAISE EXCEPTION 'the role "%" may use the schema of the tables, and could lock them', login
            USING HINT = 'Take that away: REVOKE ALL ON SCHEMA everhook FROM PUBLIC';
    END IF;
    IF has_schema_privilege(asked.oid, 'everhook', 'CREATE') OR has_schema_privilege(asked.oid, 'everhook_reports', 'CREATE') THEN
        RAISE EXCEPTION 'the role "%" may make tables and functions beside ours', login USING HINT = 'Take that away: REVOKE CREATE ON SCHEMA … FROM PUBLIC';
    END IF;
    -- A schema of its own could be named like somebody else's role, and come first in their path.
    IF has_database_privilege(asked.oid, current_database(), 'CREATE') THEN
        RAISE EXCEPTION 'the role "%" may make schemas in this database', login USING HINT = 'Take that away: REVOKE CREATE ON DATABASE … FROM PUBLIC';
    END IF;
    IF EXISTS (SELECT FROM report_roles WHERE role = login AND organization_id <> organization) THEN
        RAISE EXCEPTION 'the role "%" reads the reports of another organization', login USING HINT = 'Take these away first: everhook_revoke_reports';
    END IF;
    INSERT INTO report_roles (role, organization_id) VALUES (login, organization) ON CONFLICT DO NOTHING;
    EXECUTE pg_catalog.format('GRANT USAGE ON SCHEMA everhook_reports TO %I', login);
END $$;

-- Takes all of that away again. The role itself stays, and may be gone already.
CREATE FUNCTION everhook_revoke_reports(login name) RETURNS void LANGUAGE plpgsql SET search_path = everhook, pg_temp AS $$
BEGIN
    DELETE FROM report_roles WHERE role = login;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = login) THEN
        EXECUTE pg_catalog.format('REVOKE ALL ON SCHEMA everhook_reports FROM %I', login);
    END IF;
END $$;

REVOKE EXECUTE ON FUNCTION everhook_grant_reports, everhook_revoke_reports FROM PUBLIC;
