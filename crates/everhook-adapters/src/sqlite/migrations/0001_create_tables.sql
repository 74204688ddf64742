-- The tables of the embedded store.
--
-- Conventions: ids are 16-byte blobs (UUIDv7, so that rows of a table append), instants are microseconds since the epoch, lengths of time
-- are microseconds. `WITHOUT ROWID` wherever the key is an id: one tree instead of two. No foreign keys: the writer is the only one who
-- writes, and a look-up per row and reference is what the hot path cannot afford.
--
-- A commit logs whole pages, so that what a delivery's life touches is kept small: one insert into `deliveries`, one update of it, one insert into
-- `attempts`. Its lane and its node are numbers there, not names (see decision 0013). The indexes on that path:
-- * `waiting_by_lane` is partial: a row costs an entry while it waits, and history costs nothing.
-- * `deliveries_by_lane` is what lists walk. A list of a whole organization walks it once for each lane, so that there is no index by
--   organization.
-- * There is no index by event. An event keeps the first and the last id of the deliveries that were made with it, and a list by event walks
--   that stretch of the primary key; replays come later and have a partial index, which only they pay for. What that saves for certain is space.
-- * `events_by_organization` costs too little to be told apart from noise.

CREATE TABLE organizations (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    uid TEXT UNIQUE,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- How much it may have and do: a JSON object of numbers, each absent if there is no limit.
    limits TEXT NOT NULL DEFAULT '{}',
    -- A JSON array of addresses. Each has a row in `channels`.
    admin_emails TEXT NOT NULL DEFAULT '[]',
    -- Rises with every change to the organization, its event types or its retry schedules: a part of every application's version, so that such a
    -- change writes one row, however many applications there are.
    config_version INTEGER NOT NULL DEFAULT 0,
    -- How many endpoints it has that are not deleted, and how many applications beside the built-in ones: what limits are held against.
    endpoint_count INTEGER NOT NULL DEFAULT 0,
    application_count INTEGER NOT NULL DEFAULT 0,
    -- From when on nobody finds it. The row stays for what is found by it: the audit log, and endpoints of which something is kept.
    deleted_at INTEGER,
    CHECK (deleted_at IS NULL OR uid IS NULL)
) STRICT, WITHOUT ROWID;

-- Organizations and applications that were deleted and have endpoints, or applications, that are not yet. Worked off a little at a time, over restarts.
CREATE TABLE deletions (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    kind TEXT NOT NULL CHECK (kind IN ('application', 'organization')),
    organization_id BLOB NOT NULL,
    -- The last endpoint that was deleted.
    reached BLOB NOT NULL CHECK (length(reached) = 16)
) STRICT, WITHOUT ROWID;

CREATE INDEX deletions_by_kind ON deletions (kind, id);

CREATE TABLE applications (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    uid TEXT,
    name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('default', 'operational', 'custom')),
    created_at INTEGER NOT NULL,
    -- Rises with every change to the application or one of its endpoints.
    config_version INTEGER NOT NULL DEFAULT 1,
    -- The sequence number of the next event.
    next_sequence INTEGER NOT NULL DEFAULT 1,
    strict_event_types INTEGER NOT NULL DEFAULT 0 CHECK (strict_event_types IN (0, 1)),
    -- Who gets the alerts about it, unless its manifest names somebody.
    owner_email TEXT CHECK (length(owner_email) BETWEEN 3 AND 254),
    -- Where its app is, unless its manifest says it.
    base_url TEXT CHECK (length(base_url) BETWEEN 1 AND 1000),
    -- Where the health of its app is checked, behind the base URL, unless its manifest says it; NULL if it is not.
    health_path TEXT CHECK (length(health_path) BETWEEN 1 AND 1024),
    -- The highest `changed_version` of a deleted endpoint whose row was removed: what changed since an earlier version is no longer known.
    purged_version INTEGER NOT NULL DEFAULT 0,
    -- What its endpoints have of `config_bytes` together, the deleted not counted.
    config_bytes INTEGER NOT NULL DEFAULT 0 CHECK (config_bytes >= 0),
    UNIQUE (organization_id, name),
    UNIQUE (organization_id, uid)
) STRICT, WITHOUT ROWID;

CREATE INDEX applications_by_organization ON applications (organization_id, id);
CREATE INDEX applications_by_owner ON applications (organization_id, owner_email) WHERE owner_email IS NOT NULL;

CREATE TABLE schedules (
    version INTEGER PRIMARY KEY,
    definition TEXT NOT NULL UNIQUE,
    -- When it was noticed that no endpoint and no schedule has it. Deliveries that were made before keep it.
    unused_since INTEGER
) STRICT;

CREATE TABLE retry_schedules (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    name TEXT NOT NULL,
    -- The row of `schedules` that says what it means now. Deliveries keep the number, so that a change needs no care for them.
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (organization_id, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX retry_schedules_by_version ON retry_schedules (version);
CREATE INDEX retry_schedules_by_organization ON retry_schedules (organization_id, id);

CREATE TABLE event_types (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    -- JSON, byte for byte, both.
    schema TEXT,
    example TEXT,
    archived INTEGER NOT NULL CHECK (archived IN (0, 1)),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (organization_id, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX event_types_by_organization ON event_types (organization_id, id);

-- Where deliveries wait for one destination. What the destination is, and what is its own, is kept in the table of its kind.
CREATE TABLE lanes (
    -- What deliveries name it by: one or two bytes in a row and its two index entries, where the id would take sixteen. Never given again.
    lane INTEGER PRIMARY KEY,
    -- The destination's id.
    id BLOB NOT NULL CHECK (length(id) = 16),
    -- Those of applications and organizations have no deliveries: what happens in all of their lanes is counted under their number as well.
    -- The last three are parts of an organization, in the same way.
    kind TEXT NOT NULL CHECK (
        kind IN ('endpoint', 'processor', 'capability', 'channel', 'application', 'organization', 'event_type', 'retry_schedule', 'source')
    ),
    organization_id BLOB NOT NULL,
    -- Those of an organization and of its parts name the organization.
    application_id BLOB NOT NULL,
    -- Deliveries of this position or a later one wait until those made before the ordering was changed have ended.
    order_barrier INTEGER,
    -- The version of the retry schedule that new deliveries to a capability keep: of jobs, or of what their callers are told.
    job_schedule INTEGER CHECK (job_schedule IS NULL OR kind = 'capability')
) STRICT;

CREATE UNIQUE INDEX lanes_by_id ON lanes (id);
CREATE INDEX lanes_by_organization ON lanes (organization_id, id);
CREATE INDEX lanes_of_capabilities ON lanes (organization_id, id) WHERE kind = 'capability';
CREATE INDEX lanes_by_version ON lanes (job_schedule) WHERE job_schedule IS NOT NULL;
CREATE INDEX lanes_of_breakdowns ON lanes (organization_id, kind) WHERE kind IN ('event_type', 'retry_schedule', 'source');
CREATE INDEX lanes_of_processors ON lanes (lane) WHERE kind = 'processor';
CREATE INDEX lanes_with_barrier ON lanes (lane) WHERE order_barrier IS NOT NULL;

-- How people are told what happens in an organization's application `operational`. The lane of one that was removed stays until nothing names it.
CREATE TABLE channels (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('email', 'slack', 'pagerduty', 'teams', 'webhook')),
    -- What it is addressed by: its name, or the e-mail address.
    name TEXT NOT NULL,
    -- The version that new deliveries keep.
    retry_schedule INTEGER NOT NULL,
    -- Where it leads and what signs its requests, sealed. This and what follows is absent where an e-mail address is all there is to know.
    credentials BLOB,
    -- A JSON array of patterns.
    event_types TEXT,
    min_severity TEXT CHECK (min_severity IN ('info', 'warning', 'critical')),
    enabled INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
    created_at INTEGER,
    updated_at INTEGER,
    -- Whether an e-mail address is an administrator's; otherwise it is an owner's of applications.
    is_admin INTEGER NOT NULL DEFAULT 0 CHECK (is_admin IN (0, 1) AND (is_admin = 0 OR kind = 'email')),
    UNIQUE (organization_id, name),
    CHECK ((kind = 'email') = (credentials IS NULL) AND (kind = 'email') = (event_types IS NULL)),
    CHECK ((kind = 'email') = (created_at IS NULL) AND (kind = 'email') = (updated_at IS NULL)),
    CHECK (kind <> 'email' OR (enabled = 1 AND min_severity IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX channels_by_version ON channels (retry_schedule);

CREATE TABLE endpoints (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    application_id BLOB NOT NULL,
    uid TEXT,
    name TEXT,
    description TEXT,
    url TEXT NOT NULL,
    -- A JSON array of patterns.
    event_types TEXT NOT NULL,
    -- What it asks of events beside their type: a JSON object of texts, and a filter as it was written.
    labels TEXT NOT NULL DEFAULT '{}',
    filter TEXT,
    -- Whether a new URL must prove that it expects requests.
    verify_url INTEGER NOT NULL DEFAULT 0 CHECK (verify_url IN (0, 1)),
    secret BLOB NOT NULL,
    previous_secret BLOB,
    previous_secret_until INTEGER,
    signature_style TEXT NOT NULL CHECK (signature_style IN ('timestamped', 'sha256', 'hex')),
    payload_style TEXT NOT NULL CHECK (payload_style IN ('envelope', 'raw')),
    -- A JSON array of [name, value], each value sealed as the secret is.
    headers TEXT NOT NULL,
    metadata TEXT,
    -- The version that it was written with; the one in force is its schedule's, if it follows one: a change of a schedule writes one row, however many
    -- endpoints follow it.
    retry_schedule INTEGER NOT NULL,
    retry_schedule_id BLOB,
    timeout INTEGER,
    timeout_growth_factor REAL NOT NULL,
    max_concurrency INTEGER NOT NULL,
    ordering TEXT NOT NULL CHECK (ordering IN ('none', 'per_event_type', 'per_key', 'strict')),
    rate_limit_per_minute INTEGER,
    rate_limit_burst INTEGER,
    -- JSON.
    circuit_breaker TEXT NOT NULL,
    paused_at INTEGER,
    -- How fast what gathered during a pause is sent.
    drain_per_second INTEGER,
    state TEXT NOT NULL CHECK (state IN ('enabled', 'disabled', 'deleted')),
    disabled_at INTEGER,
    disabled_reason TEXT CHECK (disabled_reason IN ('by_owner', 'gone', 'failing')),
    deleted_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    -- The application's `config_version` at which it last changed.
    changed_version INTEGER NOT NULL DEFAULT 0,
    -- How many bytes of configuration it has.
    config_bytes INTEGER NOT NULL DEFAULT 0 CHECK (config_bytes >= 0),
    -- Its lane.
    lane INTEGER NOT NULL,
    -- The revision that its URL, secrets, styles and headers are kept under.
    revision INTEGER NOT NULL CHECK (revision > 0),
    CHECK ((rate_limit_per_minute IS NULL) = (rate_limit_burst IS NULL)),
    CHECK ((previous_secret IS NULL) = (previous_secret_until IS NULL)),
    CHECK ((state = 'disabled') = (disabled_at IS NOT NULL) AND (state = 'disabled') = (disabled_reason IS NOT NULL)),
    CHECK ((state = 'deleted') = (deleted_at IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX endpoints_by_version ON endpoints (retry_schedule);
CREATE INDEX endpoints_by_organization ON endpoints (organization_id, id);
CREATE INDEX endpoints_by_application ON endpoints (application_id, id);
-- How many are disabled? They are few.
CREATE INDEX disabled_endpoints ON endpoints (organization_id) WHERE state = 'disabled';
CREATE INDEX endpoints_by_schedule ON endpoints (retry_schedule_id, id) WHERE retry_schedule_id IS NOT NULL;
-- Which endpoints of an application changed since a version? Read in this order, whole or in part.
CREATE INDEX endpoints_by_change ON endpoints (application_id, changed_version, id);
-- A deleted endpoint's name can be given again.
CREATE UNIQUE INDEX endpoints_by_uid ON endpoints (organization_id, uid) WHERE uid IS NOT NULL AND state <> 'deleted';

-- What shaped an endpoint's requests, once for each change of it and in the transaction of that change, so that an attempt names it in a byte
-- and can be shown as it was sent. Rows do not change. The secrets are sealed as the endpoint's own are, and stay here after they were replaced:
-- for as long as attempts that were signed with them. Such attempts were begun before the next revision's `made_at`, or a moment later.
CREATE TABLE endpoint_revisions (
    endpoint_id BLOB NOT NULL,
    number INTEGER NOT NULL CHECK (number > 0),
    url TEXT NOT NULL,
    headers TEXT NOT NULL,
    secret BLOB NOT NULL,
    previous_secret BLOB,
    previous_secret_until INTEGER,
    signature_style TEXT NOT NULL,
    payload_style TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    PRIMARY KEY (endpoint_id, number)
) STRICT, WITHOUT ROWID;

-- Where webhooks of other providers come in.
CREATE TABLE sources (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    application_id BLOB NOT NULL,
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    kind TEXT NOT NULL,
    -- The recipe's fields as they were written, a JSON object of texts; empty unless the kind asks for them.
    recipe TEXT NOT NULL,
    -- Sealed, the newest first: a JSON array of base64.
    secrets TEXT NOT NULL,
    verify_token BLOB,
    -- What else it says: a JSON object.
    settings TEXT NOT NULL,
    -- The built-in code that handles its events, and the version of the retry schedule that new deliveries to it keep.
    processor TEXT CHECK (processor IN ('health')),
    processor_schedule INTEGER,
    paused_at INTEGER,
    paused_mode TEXT CHECK (paused_mode IN ('hold', 'refuse')),
    -- Until when the key of a handshake is taken.
    awaiting_handshake_until INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    CHECK ((paused_at IS NULL) = (paused_mode IS NULL)),
    CHECK ((processor IS NULL) = (processor_schedule IS NULL)),
    UNIQUE (organization_id, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX sources_by_organization ON sources (organization_id, id);
CREATE INDEX sources_with_processor ON sources (organization_id, id) WHERE processor IS NOT NULL;
CREATE INDEX sources_by_version ON sources (processor_schedule) WHERE processor_schedule IS NOT NULL;

-- What happened at a source last. In a table of its own, because it changes with requests: at most a row for each source.
CREATE TABLE source_activity (
    source_id BLOB PRIMARY KEY CHECK (length(source_id) = 16),
    accepted_at INTEGER,
    refused_at INTEGER,
    -- Why: a word.
    refusal TEXT,
    handshake_at INTEGER,
    CHECK ((refused_at IS NULL) = (refusal IS NULL))
) STRICT, WITHOUT ROWID;

-- What is known of the limits of health providers, for all organizations and nodes together: at most a row for each provider.
CREATE TABLE provider_rates (
    provider TEXT PRIMARY KEY CHECK (provider IN ('garmin', 'strava')),
    -- Raised by each change: who read an older row writes nothing.
    revision INTEGER NOT NULL,
    -- Windows since the epoch, requests in them, and how many there may be.
    quarter_number INTEGER NOT NULL,
    quarter_used INTEGER NOT NULL CHECK (quarter_used >= 0),
    quarter_limit INTEGER NOT NULL CHECK (quarter_limit > 0),
    day_number INTEGER NOT NULL,
    day_used INTEGER NOT NULL CHECK (day_used >= 0),
    day_limit INTEGER NOT NULL CHECK (day_limit > 0)
) STRICT, WITHOUT ROWID;

-- Which profile a user of a health provider is, and what reaches the provider for them.
CREATE TABLE health_connections (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    provider TEXT NOT NULL CHECK (provider IN ('garmin', 'strava')),
    -- The user, by the provider's name.
    external_user_id TEXT NOT NULL CHECK (length(external_user_id) BETWEEN 1 AND 256),
    profile_id TEXT NOT NULL CHECK (length(profile_id) BETWEEN 1 AND 128),
    -- Sealed.
    access_token BLOB,
    refresh_token BLOB,
    token_expires_at INTEGER,
    -- A JSON array of names; NULL until the provider said what they are.
    permissions TEXT,
    is_connected INTEGER NOT NULL CHECK (is_connected IN (0, 1)),
    -- Since when the provider does not renew the tokens: the user has to connect again.
    reauthorization_needed_since INTEGER,
    -- Who refreshes the tokens of the user, and until when nobody else does. Kept with the user's first connection.
    refreshing_by BLOB,
    refreshing_until INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    CHECK ((refreshing_by IS NULL) = (refreshing_until IS NULL)),
    CHECK (access_token IS NOT NULL OR (refresh_token IS NULL AND token_expires_at IS NULL AND reauthorization_needed_since IS NULL)),
    CHECK (is_connected = 1 OR access_token IS NULL),
    UNIQUE (organization_id, provider, external_user_id, profile_id)
) STRICT;

CREATE INDEX health_connections_by_organization ON health_connections (organization_id, id);
CREATE INDEX health_connections_by_profile ON health_connections (organization_id, profile_id, id);

-- What was measured, a row each. Rows are found by the provider's record, else by the hash of what they are of.
CREATE TABLE health_metrics (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    profile_id TEXT NOT NULL CHECK (length(profile_id) BETWEEN 1 AND 128),
    provider TEXT NOT NULL CHECK (provider IN ('garmin', 'strava')),
    metric_type TEXT NOT NULL CHECK (metric_type IN ('sleep', 'spo2', 'stress', 'vo2max', 'steps', 'resting_hr', 'calories', 'distance', 'activity')),
    sport TEXT CHECK (sport IN ('running', 'cycling')),
    start_at INTEGER NOT NULL,
    end_at INTEGER NOT NULL,
    value REAL,
    -- A JSON object.
    details TEXT,
    record_id TEXT,
    -- What the provider sent: sealed, and compressed where that pays. How is said by the same numbers as for events.
    raw_encoding INTEGER,
    raw BLOB,
    dedupe_hash BLOB NOT NULL CHECK (length(dedupe_hash) = 32),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    CHECK (end_at >= start_at),
    CHECK (sport IS NULL OR metric_type = 'vo2max'),
    CHECK ((raw IS NULL) = (raw_encoding IS NULL))
) STRICT;

CREATE UNIQUE INDEX health_metrics_by_hash ON health_metrics (organization_id, dedupe_hash);
CREATE UNIQUE INDEX health_metrics_by_record ON health_metrics (organization_id, profile_id, provider, metric_type, record_id)
    WHERE record_id IS NOT NULL;
CREATE INDEX health_metrics_by_organization ON health_metrics (organization_id, id);
CREATE INDEX health_metrics_by_profile ON health_metrics (organization_id, profile_id, id);

-- What an application answers when it is called: the document as its owner wrote it.
CREATE TABLE manifests (
    application_id BLOB PRIMARY KEY CHECK (length(application_id) = 16),
    organization_id BLOB NOT NULL,
    -- Rises by one with each change.
    version INTEGER NOT NULL CHECK (version >= 1),
    document TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    -- Who gets the alerts about the application, if the manifest says it.
    owner_email TEXT CHECK (length(owner_email) BETWEEN 3 AND 254)
) STRICT, WITHOUT ROWID;

CREATE INDEX manifests_by_organization ON manifests (organization_id);
CREATE INDEX manifests_by_owner ON manifests (organization_id, owner_email) WHERE owner_email IS NOT NULL;

-- The health checks of apps: when each is due, and what the last one found.
CREATE TABLE app_checks (
    application_id BLOB PRIMARY KEY CHECK (length(application_id) = 16),
    organization_id BLOB NOT NULL,
    -- The health page.
    url TEXT NOT NULL,
    next_at INTEGER NOT NULL,
    -- What the last check found; NULL if there was none yet. How long it took is in microseconds.
    status TEXT CHECK (status IN ('healthy', 'degraded', 'unhealthy')),
    checked_at INTEGER,
    took INTEGER,
    -- The checks in a row that failed, and when the first of them ended.
    failures INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
    failing_since INTEGER,
    detail TEXT,
    -- What the app says about its parts: a JSON object.
    checks TEXT CHECK (length(checks) <= 4096),
    CHECK ((status IS NULL) = (checked_at IS NULL) AND (status IS NULL) = (took IS NULL) AND (status IS NULL) = (detail IS NULL)),
    CHECK ((failures = 0) = (failing_since IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX app_checks_by_turn ON app_checks (next_at);
CREATE INDEX app_checks_by_organization ON app_checks (organization_id);
-- Those that alert rules are about.
CREATE INDEX failing_apps ON app_checks (application_id) WHERE failures > 0;

-- What signs the requests to an application. Sealed.
CREATE TABLE application_secrets (
    application_id BLOB PRIMARY KEY CHECK (length(application_id) = 16),
    organization_id BLOB NOT NULL,
    secret BLOB NOT NULL,
    previous_secret BLOB,
    previous_secret_until INTEGER,
    CHECK ((previous_secret IS NULL) = (previous_secret_until IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX application_secrets_by_organization ON application_secrets (organization_id);

-- Answers of apps that later calls may be answered with. Sealed. Nothing depends on them: they expire, and the oldest of a capability that has too many go.
CREATE TABLE cached_answers (
    lane_id BLOB NOT NULL CHECK (length(lane_id) = 16),
    hash BLOB NOT NULL CHECK (length(hash) = 32),
    data BLOB NOT NULL,
    stored_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    UNIQUE (lane_id, hash)
) STRICT;

CREATE INDEX cached_answers_by_age ON cached_answers (lane_id, stored_at);
CREATE INDEX cached_answers_by_expiry ON cached_answers (expires_at);

-- What is kept of jobs beside their events: made when the app is first asked. Goes with its event, or some time after it.
CREATE TABLE jobs (
    -- The event's.
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    application_id BLOB NOT NULL,
    -- The capability's lane.
    lane_id BLOB NOT NULL CHECK (length(lane_id) = 16),
    -- The delivery that asks the app, or asked it last. A contract test of an app has none, and names itself.
    delivery_id BLOB NOT NULL CHECK (length(delivery_id) = 16),
    -- SHA-256 of the tokens that the app was given, the newest last.
    tokens BLOB NOT NULL CHECK (length(tokens) % 32 = 0 AND length(tokens) <= 320),
    -- When the app was last asked.
    begun_at INTEGER NOT NULL,
    -- What the app said: the result or the error, sealed; the SHA-256 of what came; when; and which attempt found it.
    outcome TEXT CHECK (outcome IN ('completed', 'failed', 'retry')),
    answer BLOB,
    answer_hash BLOB CHECK (length(answer_hash) = 32),
    answered_at INTEGER,
    found_by INTEGER,
    -- How far it said that it is since then, in percent and in words, and when.
    progress INTEGER CHECK (progress BETWEEN 0 AND 100),
    progress_message TEXT,
    progress_at INTEGER,
    CHECK ((progress IS NULL) = (progress_at IS NULL) AND (progress IS NOT NULL OR progress_message IS NULL)),
    CHECK ((outcome IS NULL) = (answer IS NULL) AND (outcome IS NULL) = (answer_hash IS NULL) AND (outcome IS NULL) = (answered_at IS NULL)),
    CHECK (found_by IS NULL OR outcome IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE INDEX jobs_by_age ON jobs (begun_at);

-- Calls that a person decides about. They go some time after they were decided, and with their application.
CREATE TABLE approvals (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    application_id BLOB NOT NULL,
    capability TEXT NOT NULL,
    -- The capability's lane.
    lane_id BLOB NOT NULL CHECK (length(lane_id) = 16),
    request_id BLOB NOT NULL CHECK (length(request_id) = 16),
    -- Why the app's answer was not used.
    cause TEXT NOT NULL,
    -- The call, sealed. NULL once nothing needs it.
    call BLOB,
    requested_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'rejected', 'expired')),
    decided_at INTEGER,
    -- The key that decided; NULL: Everhook itself.
    actor_id BLOB CHECK (length(actor_id) = 16),
    actor_name TEXT,
    reason TEXT,
    -- What a person gave as the answer, sealed.
    data BLOB,
    -- The job that it became.
    job_id BLOB CHECK (length(job_id) = 16),
    -- The event that follows from the decision and is not published yet: the job, or the message to the caller.
    unpublished BLOB CHECK (length(unpublished) = 16),
    CHECK ((status = 'pending') = (decided_at IS NULL)),
    CHECK (status <> 'pending' OR (call IS NOT NULL AND unpublished IS NULL)),
    CHECK ((actor_id IS NULL) = (actor_name IS NULL) AND (actor_id IS NULL OR decided_at IS NOT NULL)),
    CHECK ((status = 'approved') = (data IS NOT NULL OR job_id IS NOT NULL) AND (data IS NULL OR job_id IS NULL)),
    CHECK (unpublished IS NULL OR call IS NOT NULL)
) STRICT;

CREATE INDEX approvals_by_organization ON approvals (organization_id, id);
CREATE INDEX approvals_by_status ON approvals (organization_id, status, id);
CREATE INDEX approvals_by_application ON approvals (application_id, id);
CREATE INDEX approvals_by_application_and_status ON approvals (application_id, status, id);
CREATE INDEX approvals_unpublished ON approvals (id) WHERE unpublished IS NOT NULL;
CREATE INDEX approvals_expiring ON approvals (expires_at, id) WHERE decided_at IS NULL;
CREATE INDEX approvals_decided ON approvals (decided_at) WHERE decided_at IS NOT NULL;

-- Draws that were made instead of an app's answer, with everything that is needed to make them again.
CREATE TABLE draws (
    request_id BLOB PRIMARY KEY CHECK (length(request_id) = 16),
    organization_id BLOB NOT NULL,
    application_id BLOB NOT NULL,
    capability TEXT NOT NULL,
    drawn_at INTEGER NOT NULL,
    seed BLOB NOT NULL CHECK (length(seed) = 32),
    list_hash BLOB NOT NULL CHECK (length(list_hash) = 32),
    list_length INTEGER NOT NULL,
    -- How many were picked; which ones follows from the seed, the length and this number.
    picked INTEGER NOT NULL CHECK (picked >= 0)
) STRICT, WITHOUT ROWID;

CREATE INDEX draws_by_age ON draws (drawn_at);

CREATE TABLE api_keys (
    hash BLOB PRIMARY KEY CHECK (length(hash) = 32),
    id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    -- The only application that it reaches; NULL: all of its organization's. No admin key has one: it would reach other organizations.
    application_id BLOB,
    name TEXT NOT NULL,
    -- The first characters of the key, for people.
    prefix TEXT NOT NULL CHECK (length(prefix) BETWEEN 1 AND 16),
    scopes INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    CHECK (application_id IS NULL OR scopes & 8 = 0)
) STRICT, WITHOUT ROWID;

CREATE INDEX api_keys_by_organization ON api_keys (organization_id, id);

CREATE TABLE events (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    application_id BLOB NOT NULL,
    event_type TEXT NOT NULL,
    timestamp INTEGER NOT NULL,
    -- NULL: made by us, and equal to the id's text.
    idempotency_key TEXT,
    source TEXT,
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 2),
    sequence_number INTEGER NOT NULL,
    traceparent TEXT,
    -- What its data is. NULL: JSON.
    content_type TEXT,
    -- How many deliveries were made when it was published, and the stretch of ids that holds them.
    deliveries INTEGER NOT NULL,
    first_delivery_id BLOB,
    last_delivery_id BLOB,
    created_at INTEGER NOT NULL,
    -- Where its data is.
    payload INTEGER NOT NULL,
    -- When its data was erased. The row stays, and so does its idempotency key: publishing it again must not bring the data back.
    erased_at INTEGER,
    CHECK ((deliveries = 0) = (first_delivery_id IS NULL) AND (deliveries = 0) = (last_delivery_id IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX events_by_organization ON events (organization_id, id);

-- What few publishers say about their events, in a table of its own so that the others pay nothing for it. It goes with its event.
CREATE TABLE event_extras (
    event_id BLOB PRIMARY KEY CHECK (length(event_id) = 16),
    -- A JSON object of texts.
    labels TEXT NOT NULL,
    -- A JSON array of [name, value].
    headers TEXT NOT NULL,
    -- What it is about, for endpoints that are ordered by that.
    ordering_key TEXT
) STRICT, WITHOUT ROWID;

-- How events of sources came in. The others pay nothing for it. It goes with its event; erasing leaves the source and what it is a duplicate of.
CREATE TABLE received_events (
    event_id BLOB PRIMARY KEY CHECK (length(event_id) = 16),
    source_id BLOB NOT NULL CHECK (length(source_id) = 16),
    -- Whom it is about, by the provider's name for them.
    external_user_id TEXT,
    -- The event that said the same before.
    duplicate_of BLOB,
    -- A JSON array of [name, value], sealed if the payload is. NULL: erased.
    headers BLOB
) STRICT, WITHOUT ROWID;

CREATE INDEX received_by_source ON received_events (source_id, event_id);
CREATE INDEX received_by_user ON received_events (source_id, external_user_id, event_id) WHERE external_user_id IS NOT NULL;

-- The one hot table with a rowid: its leaves hold rows up to a whole page, and a new row is appended without rearranging its neighbors. In a
-- table without, a row of more than a quarter of a page goes to pages of its own.
CREATE TABLE payloads (
    number INTEGER PRIMARY KEY,
    -- Whose it is. Compared by every read: the number of a payload that was deleted may be given again.
    event_id BLOB NOT NULL,
    -- 0: as published. 1: compressed with zstd. 2 and 3: the same, and sealed after that.
    encoding INTEGER NOT NULL CHECK (encoding BETWEEN 0 AND 3),
    body BLOB NOT NULL
) STRICT;

-- Only keys that a publisher gave: ours are the events' own ids.
CREATE TABLE idempotency_keys (
    application_id BLOB NOT NULL,
    key TEXT NOT NULL,
    event_id BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    -- A hash of the event's type and data: another event under the same key is no duplicate. NULL: the data was erased, and this with it.
    fingerprint BLOB CHECK (length(fingerprint) = 16),
    PRIMARY KEY (application_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- Ids that publishers were told before it was known that their key was taken. Looked at only for an id that no event has.
CREATE TABLE event_aliases (
    alias BLOB PRIMARY KEY CHECK (length(alias) = 16),
    event_id BLOB NOT NULL CHECK (length(event_id) = 16)
) STRICT, WITHOUT ROWID;

CREATE INDEX event_aliases_by_event ON event_aliases (event_id);

CREATE TABLE deliveries (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    event_id BLOB NOT NULL,
    lane INTEGER NOT NULL,
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 2),
    retry_schedule INTEGER NOT NULL,
    -- 0 waiting, 1 delivered, 2 dead, 3 cancelled, 4 held, 5 parked.
    stage INTEGER NOT NULL,
    due_at INTEGER,
    ended_at INTEGER,
    cause TEXT,
    attempts INTEGER NOT NULL,
    failure_category TEXT,
    -- The dead letter that this delivery brings back.
    replay_of BLOB,
    -- The operation that made it.
    operation_id BLOB,
    created_at INTEGER NOT NULL,
    -- Of those with one key that are open, the one with the lowest position waits and the others are held. Most deliveries have none.
    order_key TEXT,
    order_position INTEGER,
    -- Of those that are parked: whose they are (so that nobody looks through another organization's), what they wait for, and when that is over.
    parked_organization_id BLOB,
    waits_for TEXT,
    expires_at INTEGER,
    -- What becomes of it then. Stays until that is settled.
    expires_into TEXT CHECK (expires_into IN ('fails', 'gives_up', 'tries_again')),
    -- How many attempts parked it. NULL: none.
    parkings INTEGER,
    CHECK ((order_key IS NULL) = (order_position IS NULL)),
    -- One look at the stage: every outcome is checked by it.
    CHECK (CASE stage
        WHEN 0 THEN due_at IS NOT NULL AND ended_at IS NULL AND cause IS NULL
            AND waits_for IS NULL AND parked_organization_id IS NULL AND expires_at IS NULL
        WHEN 1 THEN due_at IS NULL AND ended_at IS NOT NULL AND cause IS NULL AND attempts > 0
            AND waits_for IS NULL AND parked_organization_id IS NULL AND expires_at IS NULL AND expires_into IS NULL
        WHEN 2 THEN due_at IS NULL AND ended_at IS NOT NULL AND attempts > 0
            AND cause IN ('retries_exhausted', 'given_up', 'gone', 'tls_failed')
            AND waits_for IS NULL AND parked_organization_id IS NULL AND expires_at IS NULL AND expires_into IS NULL
        WHEN 3 THEN due_at IS NULL AND ended_at IS NOT NULL AND cause IN ('endpoint_disabled', 'destination_deleted', 'erased', 'by_person')
            AND waits_for IS NULL AND parked_organization_id IS NULL AND expires_at IS NULL AND expires_into IS NULL
        WHEN 4 THEN due_at IS NULL AND ended_at IS NULL AND cause IS NULL AND attempts = 0 AND order_key IS NOT NULL
            AND waits_for IS NULL AND parked_organization_id IS NULL AND expires_at IS NULL AND expires_into IS NULL
        -- By an attempt, or since it was made.
        WHEN 5 THEN due_at IS NULL AND ended_at IS NULL AND cause IS NULL AND (parkings > 0 AND attempts >= parkings OR parkings IS NULL AND attempts = 0)
            AND waits_for IS NOT NULL AND parked_organization_id IS NOT NULL AND (expires_at IS NULL) = (expires_into IS NULL)
        ELSE 0 END)
) STRICT, WITHOUT ROWID;

CREATE INDEX waiting_by_lane ON deliveries (lane, priority, due_at, id) WHERE stage = 0;
CREATE INDEX deliveries_by_lane ON deliveries (lane, id);
-- Only those that have an order pay for it, and only while they are open.
CREATE INDEX open_in_order ON deliveries (lane, order_key, order_position) WHERE order_position IS NOT NULL AND stage IN (0, 4, 5);
-- Which keys have anything that is held? Those that have not cost a look nothing, however many they are.
CREATE INDEX held_in_order ON deliveries (lane, order_key, order_position) WHERE stage = 4;
CREATE INDEX open_by_position ON deliveries (lane, order_position) WHERE order_position IS NOT NULL AND stage IN (0, 4, 5);
-- Those that wait for something outside, by that, by the end of that, and by lane. Not by the stage, which every outcome changes: an index is opened by
-- each statement that changes what it is about, and outcomes would open three more.
CREATE INDEX parked_by_wait ON deliveries (parked_organization_id, waits_for, id) WHERE waits_for IS NOT NULL;
CREATE INDEX parked_by_expiry ON deliveries (expires_at, id) WHERE expires_at IS NOT NULL;
CREATE INDEX parked_by_lane ON deliveries (lane, id) WHERE waits_for IS NOT NULL;
-- Those that were made after their event was: retries by hand, and what operations make.
CREATE INDEX made_later_by_event ON deliveries (event_id, id) WHERE replay_of IS NOT NULL OR operation_id IS NOT NULL;

-- What came that deliveries may wait for. A row stays for a week: what was begun or accepted before must not be parked for it any more.
CREATE TABLE releases (
    organization_id BLOB NOT NULL,
    waits_for TEXT NOT NULL,
    released_at INTEGER NOT NULL,
    -- When parked deliveries are looked for again. NULL: no more.
    look_at INTEGER,
    PRIMARY KEY (organization_id, waits_for)
) STRICT, WITHOUT ROWID;

CREATE INDEX releases_to_resume ON releases (look_at) WHERE look_at IS NOT NULL;
CREATE INDEX releases_by_age ON releases (released_at) WHERE look_at IS NULL;

-- Deliveries of a large event that are still to be made: one row a commit, deleted by it.
CREATE TABLE unfinished_fanouts (
    event_id BLOB NOT NULL,
    step INTEGER NOT NULL,
    -- For each delivery its id (16 bytes), its endpoint's id (16) and its schedule version (8, little endian).
    deliveries BLOB NOT NULL,
    made_at INTEGER NOT NULL,
    -- What they wait for. NULL: nothing.
    waits_for TEXT,
    PRIMARY KEY (event_id, step)
) STRICT, WITHOUT ROWID;

-- Erased events whose deliveries are not all ended yet: a row until the last commit.
CREATE TABLE unfinished_erasures (
    event_id BLOB PRIMARY KEY CHECK (length(event_id) = 16),
    -- Up to which delivery everything is done.
    done_until BLOB NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Who made attempts. One row for a node and the version that it ran, so that an attempt names both in a byte.
CREATE TABLE nodes (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    -- How its requests name their sender.
    user_agent TEXT NOT NULL,
    UNIQUE (name, user_agent)
) STRICT;

CREATE TABLE attempts (
    delivery_id BLOB NOT NULL,
    number INTEGER NOT NULL CHECK (number > 0),
    -- 0 success, 1 failed, 2 exhausted, 3 parked.
    status INTEGER NOT NULL CHECK (status BETWEEN 0 AND 3),
    failure_category TEXT,
    error TEXT,
    response_status INTEGER,
    response_headers BLOB,
    response_body_sample BLOB,
    -- What else came: 0 nothing, 1 more of the body, 2 more headers, 3 both.
    response_cut INTEGER CHECK (response_cut BETWEEN 0 AND 3),
    retry_after_delay INTEGER,
    retry_after_at INTEGER,
    duration INTEGER NOT NULL,
    dns INTEGER,
    connect INTEGER,
    tls INTEGER,
    first_byte INTEGER,
    scheduled_at INTEGER NOT NULL,
    -- How long after `scheduled_at`: most are short, and a short length takes half the bytes of an instant.
    picked_after INTEGER NOT NULL,
    executed_after INTEGER NOT NULL,
    next_retry_at INTEGER,
    node INTEGER NOT NULL,
    -- How the endpoint's breaker stood: 0 closed, 1 half-open, 2 open.
    breaker INTEGER NOT NULL CHECK (breaker BETWEEN 0 AND 2),
    -- The endpoint's revision that shaped the request; NULL if we failed before there was one.
    revision INTEGER,
    PRIMARY KEY (delivery_id, number),
    CHECK ((status IN (0, 3)) = (failure_category IS NULL)),
    CHECK ((response_status IS NULL) = (response_headers IS NULL) AND (response_status IS NULL) = (response_body_sample IS NULL)
        AND (response_status IS NULL) = (response_cut IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE dead_letters (
    -- The first dead delivery's.
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    application_id BLOB NOT NULL,
    event_id BLOB NOT NULL,
    event_type TEXT NOT NULL,
    endpoint_id BLOB NOT NULL,
    -- The kind of the destination, and what it was when it last failed: a URL, an address, a name.
    kind TEXT NOT NULL CHECK (kind IN ('endpoint', 'processor', 'capability', 'channel')),
    target TEXT NOT NULL,
    last_delivery_id BLOB NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('dead', 'retrying', 'resolved', 'discarded')),
    cause TEXT NOT NULL CHECK (cause IN ('retries_exhausted', 'given_up', 'gone', 'tls_failed')),
    failure_category TEXT NOT NULL,
    last_error TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    failures INTEGER NOT NULL CHECK (failures > 0),
    first_failure_at INTEGER NOT NULL,
    last_failure_at INTEGER NOT NULL,
    requeued_at INTEGER,
    -- The delivery that brought it back by itself last: whether its death is to be reported.
    automatic_delivery_id BLOB,
    recoverable INTEGER NOT NULL DEFAULT 1 CHECK (recoverable IN (0, 1)),
    UNIQUE (event_id, endpoint_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX dead_letters_by_organization ON dead_letters (organization_id, id);
CREATE INDEX dead_letters_by_endpoint ON dead_letters (endpoint_id, id);
CREATE INDEX dead_letters_of_applications ON dead_letters (application_id) WHERE status = 'dead' AND kind <> 'channel';
CREATE INDEX dead_letters_by_age ON dead_letters (last_failure_at) WHERE status <> 'retrying';
CREATE INDEX recoverable_dead_letters ON dead_letters (organization_id, failures, last_failure_at) WHERE status = 'dead' AND recoverable = 1;

CREATE TABLE pending_alerts (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    event_type TEXT NOT NULL,
    data BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- How breakers stand that were ever other than closed.
CREATE TABLE circuit_breakers (
    endpoint_id BLOB PRIMARY KEY CHECK (length(endpoint_id) = 16),
    -- Rises by one with each change: whoever knows an older one does not write.
    revision INTEGER NOT NULL,
    stage TEXT NOT NULL CHECK (stage IN ('closed', 'forced_closed', 'open', 'forced_open', 'half_open')),
    until INTEGER,
    since INTEGER NOT NULL,
    failed_recoveries INTEGER NOT NULL,
    CHECK (CASE stage WHEN 'open' THEN until IS NOT NULL WHEN 'forced_open' THEN 1 WHEN 'forced_closed' THEN 1 ELSE until IS NULL END)
) STRICT, WITHOUT ROWID;

-- Few are: those that alert rules are about.
CREATE INDEX open_circuits ON circuit_breakers (endpoint_id) WHERE stage IN ('open', 'half_open');

-- The times in which a breaker let nothing through but probes.
CREATE TABLE open_periods (
    endpoint_id BLOB NOT NULL,
    opened_at INTEGER NOT NULL,
    closed_at INTEGER,
    PRIMARY KEY (endpoint_id, opened_at)
) STRICT, WITHOUT ROWID;

-- What happened in each lane, in numbers: one row for each minute, hour and day with attempts. Read by lane, a stretch of one of these at a time.
CREATE TABLE rollups (
    -- The lane's number.
    lane INTEGER NOT NULL,
    -- How many minutes it is of: one, an hour or a day.
    span INTEGER NOT NULL CHECK (span IN (1, 60, 1440)),
    -- The first of them, counted from the epoch.
    minute INTEGER NOT NULL CHECK (minute % span = 0),
    -- Whether the hour and the day of a minute have counted it: they do once a later minute of the lane begins.
    folded INTEGER NOT NULL CHECK (folded IN (0, 1)),
    successes INTEGER NOT NULL,
    -- Failures by category.
    timeout INTEGER NOT NULL,
    server_error INTEGER NOT NULL,
    client_error INTEGER NOT NULL,
    network INTEGER NOT NULL,
    dns INTEGER NOT NULL,
    tls INTEGER NOT NULL,
    rate_limit INTEGER NOT NULL,
    payload_too_large INTEGER NOT NULL,
    redirect INTEGER NOT NULL,
    blocked_address INTEGER NOT NULL,
    duration_sum INTEGER NOT NULL,
    -- For each bucket that has something its number (1 byte) and its count (4, little endian).
    durations BLOB NOT NULL,
    last_success_at INTEGER,
    last_failure_at INTEGER,
    -- What calls were answered with: for each source that has something its number (1 byte) and its count (4, little endian).
    answers BLOB NOT NULL DEFAULT x'' CHECK (length(answers) <= 55),
    -- Deliveries by the attempt that ended them, in the same way.
    deliveries BLOB NOT NULL DEFAULT x'' CHECK (length(deliveries) <= 20),
    PRIMARY KEY (lane, span, minute),
    CHECK (span = 1 OR folded = 1)
) STRICT, WITHOUT ROWID;

-- What happened everywhere in the last minutes?
CREATE INDEX rollups_by_minute ON rollups (minute, lane) WHERE span = 1;
-- The newest minute of each lane, and others for a moment.
CREATE INDEX unfolded_rollups ON rollups (lane, minute) WHERE folded = 0;

-- What happened at sources, in numbers: one row for each source and minute with requests or attempts. A source that was deleted keeps its rows until they are
-- old: they name no person.
CREATE TABLE source_rollups (
    source_id BLOB NOT NULL CHECK (length(source_id) = 16),
    -- Minutes since the epoch.
    minute INTEGER NOT NULL,
    -- Requests, and handshakes that were answered.
    accepted INTEGER NOT NULL CHECK (accepted >= 0),
    handshakes INTEGER NOT NULL CHECK (handshakes >= 0),
    -- Requests by the reason why they were rejected: a JSON object of numbers.
    rejected TEXT NOT NULL,
    -- Events by their type: a JSON object of [received, completed, failed, dead]; those of an empty name are of more types than are told apart.
    events TEXT NOT NULL,
    -- From the receipt to the end of a delivery.
    latency_sum INTEGER NOT NULL,
    -- For each bucket that has something its number (1 byte) and its count (4, little endian).
    latencies BLOB NOT NULL,
    PRIMARY KEY (source_id, minute)
) STRICT, WITHOUT ROWID;

CREATE INDEX source_rollups_by_age ON source_rollups (minute, source_id);

-- How each endpoint does since its last success.
CREATE TABLE endpoint_activity (
    lane INTEGER PRIMARY KEY,
    consecutive_failures INTEGER NOT NULL,
    first_failure_at INTEGER,
    last_failure_at INTEGER,
    last_success_at INTEGER,
    -- The failing clock: which failures are counted together, since when it runs, and what was reported of it.
    observed_from INTEGER,
    observed INTEGER NOT NULL DEFAULT 0,
    last_counted_at INTEGER,
    previous_counted_at INTEGER,
    failing_since INTEGER,
    warned_at INTEGER,
    owes_recovery INTEGER NOT NULL DEFAULT 0 CHECK (owes_recovery IN (0, 1)),
    recovered_at INTEGER,
    -- What was reported about its health, the newest first: JSON.
    health_history TEXT NOT NULL DEFAULT '[]' CHECK (length(health_history) <= 10000),
    CHECK ((consecutive_failures = 0) = (first_failure_at IS NULL)),
    CHECK (warned_at IS NULL OR failing_since IS NOT NULL)
) STRICT;
-- Only those that fail for long, or work again after that, are in these.
CREATE INDEX failing_endpoints ON endpoint_activity (failing_since, lane) WHERE failing_since IS NOT NULL;
CREATE INDEX recovered_endpoints ON endpoint_activity (recovered_at) WHERE recovered_at IS NOT NULL;

-- Alert rules that organizations wrote, and default ones that they changed. A default one that nobody changed has no row.
CREATE TABLE alert_rules (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    -- What it says: a JSON object.
    definition TEXT NOT NULL CHECK (length(definition) <= 4096),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX alert_rules_by_name ON alert_rules (organization_id, name);

-- How alert rules stand at what they watch: a row while that is not `ok`, and for a month after it was.
CREATE TABLE alerts (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    -- The rule, by name.
    rule TEXT NOT NULL,
    target_id BLOB NOT NULL,
    application_id BLOB,
    stage TEXT NOT NULL CHECK (stage IN ('ok', 'pending', 'firing', 'too_few_samples')),
    since INTEGER NOT NULL,
    -- What was measured last.
    value REAL NOT NULL,
    updated_at INTEGER NOT NULL,
    -- When it was last reported while it fires.
    reported_at INTEGER,
    silenced_until INTEGER,
    -- The rule as it was then: a JSON object.
    definition TEXT NOT NULL CHECK (length(definition) <= 4096),
    -- The last times that it fired, the newest first: JSON.
    episodes TEXT NOT NULL CHECK (length(episodes) <= 4096),
    -- Rises with each change: whoever knows an older one does not write.
    revision INTEGER NOT NULL CHECK (revision > 0),
    CHECK (reported_at IS NULL OR stage IN ('firing', 'too_few_samples'))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX alerts_by_target ON alerts (organization_id, rule, target_id);
CREATE INDEX alerts_by_organization ON alerts (organization_id, id);
-- Only those that are not over are evaluated again, and only those that are over are forgotten.
CREATE INDEX open_alerts ON alerts (id) WHERE stage <> 'ok';
CREATE INDEX alerts_over ON alerts (since) WHERE stage = 'ok';

-- Bulk actions that are selected first and then worked off, a little at a time.
CREATE TABLE operations (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    -- The only application that it is about; NULL: any of the organization's.
    application_id BLOB,
    kind TEXT NOT NULL CHECK (kind IN ('retry_batch', 'discard_batch', 'recover', 'replay', 'erase', 'attempt_now', 'backfill', 'delete_data')),
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'finished', 'cancelled', 'failed')),
    -- JSON.
    selection TEXT NOT NULL,
    -- What became of the first pieces of a backfill, a letter each.
    chunk_outcomes TEXT NOT NULL DEFAULT '' CHECK (length(chunk_outcomes) <= 1440),
    -- What is left to do.
    phase TEXT NOT NULL CHECK (phase IN ('selecting', 'selected', 'clearing', 'over')),
    -- Up to which id the selection has looked.
    selected_until BLOB NOT NULL CHECK (length(selected_until) = 16),
    total INTEGER NOT NULL,
    done INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    rate_per_second INTEGER,
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 2),
    start_at INTEGER,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    CHECK ((status IN ('finished', 'cancelled', 'failed')) = (finished_at IS NOT NULL)),
    CHECK ((status IN ('finished', 'cancelled', 'failed')) = (phase IN ('clearing', 'over'))),
    CHECK (done + failed + skipped <= total),
    CHECK (CASE WHEN kind = 'backfill' THEN length(chunk_outcomes) = done + failed + skipped ELSE chunk_outcomes = '' END)
) STRICT, WITHOUT ROWID;

CREATE INDEX operations_by_organization ON operations (organization_id, id);
CREATE INDEX operations_by_application ON operations (application_id, id) WHERE application_id IS NOT NULL;
CREATE INDEX operations_with_work ON operations (id) WHERE phase <> 'over';

-- What an operation still has to do. A row is deleted in the write that does it.
CREATE TABLE operation_items (
    operation_id BLOB NOT NULL,
    -- The event's sequence number: the order in which an ordered lane gets them.
    position INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    event_id BLOB NOT NULL,
    -- The delivery that is done again, if there is one.
    replay_of BLOB,
    PRIMARY KEY (operation_id, position, lane)
) STRICT, WITHOUT ROWID;

-- The same for operations that erase: they are about events, wherever these went.
CREATE TABLE erasure_items (
    operation_id BLOB NOT NULL,
    event_id BLOB NOT NULL,
    PRIMARY KEY (operation_id, event_id)
) STRICT, WITHOUT ROWID;

-- Dead letters that come back by themselves.
CREATE TABLE auto_replays (
    organization_id BLOB PRIMARY KEY CHECK (length(organization_id) = 16),
    enabled INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    after INTEGER NOT NULL,
    requests_per_second INTEGER NOT NULL CHECK (requests_per_second > 0),
    max_tries INTEGER NOT NULL CHECK (max_tries > 0)
) STRICT, WITHOUT ROWID;

-- Who changed what. Written in the transaction of the change that it tells of, and never changed. Kept by organization, so that its log is read from one place.
CREATE TABLE audit_log (
    organization_id BLOB NOT NULL,
    id BLOB NOT NULL CHECK (length(id) = 16),
    at INTEGER NOT NULL,
    -- NULL: the server itself.
    actor_id BLOB,
    actor_name TEXT,
    action TEXT NOT NULL,
    resource_id BLOB NOT NULL CHECK (length(resource_id) = 16),
    -- JSON objects with the fields that changed. NULL: it was not there before, or is not there after.
    before TEXT,
    after TEXT,
    is_cut INTEGER NOT NULL CHECK (is_cut IN (0, 1)),
    PRIMARY KEY (organization_id, id),
    CHECK ((actor_id IS NULL) = (actor_name IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX audit_log_by_resource ON audit_log (organization_id, resource_id, id);

-- When a key was last used, to the minute. In a table of its own, so that the record of a key is written once.
CREATE TABLE api_key_uses (
    api_key_id BLOB PRIMARY KEY CHECK (length(api_key_id) = 16),
    last_used_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Which key secrets are sealed with, so that a copy of this file knows it wherever it is restored: a server that has another key refuses to start.
CREATE TABLE sealing (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    -- What is sealed from now on is sealed with this one.
    key_id TEXT NOT NULL,
    -- The key that some values may still be sealed with, while a rotation is under way, and how far that is. NULL: none is.
    from_key_id TEXT CHECK (from_key_id <> key_id),
    is_cancelled INTEGER NOT NULL DEFAULT 0 CHECK (is_cancelled IN (0, 1)),
    pass INTEGER NOT NULL DEFAULT 0 CHECK (pass >= 0),
    kind TEXT NOT NULL DEFAULT 'endpoints' CHECK (kind IN ('endpoints', 'endpoint_revisions', 'sources', 'channels', 'application_secrets', 'health_connections',
        'cached_answers', 'jobs', 'approvals', 'health_metrics', 'payloads')),
    after_id BLOB NOT NULL DEFAULT x'00000000000000000000000000000000' CHECK (length(after_id) = 16),
    after_number INTEGER NOT NULL DEFAULT 0,
    resealed_in_pass INTEGER NOT NULL DEFAULT 0,
    looked_at INTEGER NOT NULL DEFAULT 0,
    resealed INTEGER NOT NULL DEFAULT 0,
    unreadable INTEGER NOT NULL DEFAULT 0,
    began_at INTEGER,
    not_before INTEGER,
    ended_at INTEGER,
    CHECK (from_key_id IS NULL OR (pass > 0 AND began_at IS NOT NULL AND not_before IS NOT NULL))
) STRICT;
