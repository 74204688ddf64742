-- What the roles that read one organization's reports may see (decision 0032).
--
-- They read views, in a schema that holds nothing else. The schema of the tables is closed to them: a role that may use a schema can lock the tables in
-- it, whether it may read them or not (decision 0037). The views read with the rights of the nodes' role, which owns them.
--
-- A role cannot say which organization it is for: `report_roles` says it, by the name that the session logged in with. `SET ROLE` does not change
-- that name. Views are bound to tables and operators when they are made, so that no search path leads them elsewhere, and `security_barrier` keeps
-- conditions of a query from seeing rows that the view does not show.
--
-- Each view joins at least two tables. A view of one table can be written through, and a statement that would do it locks the table before anybody asks
-- whether it may.

CREATE TABLE report_roles (
    role name PRIMARY KEY,
    organization_id uuid NOT NULL
);

-- Should somebody let another role into this schema by mistake: tables without a policy show nobody but their owner anything. The owner is not
-- subject to it, and nothing of it is in the plans of nodes.
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

CREATE SCHEMA everhook_reports;

CREATE VIEW everhook_reports.organizations WITH (security_barrier) AS
SELECT t.* FROM report_roles r JOIN organizations t ON t.id = r.organization_id WHERE r.role = session_user;
CREATE VIEW everhook_reports.applications WITH (security_barrier) AS
SELECT t.* FROM report_roles r JOIN applications t ON t.organization_id = r.organization_id WHERE r.role = session_user;
CREATE VIEW everhook_reports.retry_schedules WITH (security_barrier) AS
SELECT t.* FROM report_roles r JOIN retry_schedules t ON t.organization_id = r.organization_id WHERE r.role = session_user;
CREATE VIEW everhook_reports.event_types WITH (security_barrier) AS
SELECT t.* FROM report_roles r JOIN event_types t ON t.organization_id = r.organization_id WHERE r.role = session_user;

-- All but the secrets, and the headers, whose values may be credentials.
CREATE VIEW everhook_reports.endpoints WITH (security_barrier) AS
SELECT t.id, t.organization_id, t.application_id, t.uid, t.name, t.description, t.url, t.event_types, t.labels, t.filter, t.verify_url, t.signature_style,
    t.payload_style, t.metadata, t.retry_schedule, t.retry_schedule_id, t.timeout, t.timeout_growth_factor, t.max_concurrency, t.ordering,
    t.rate_limit_per_minute, t.rate_limit_burst, t.circuit_breaker, t.paused_at, t.drain_per_second, t.state, t.disabled_at, t.disabled_reason,
    t.deleted_at, t.created_at, t.updated_at, t.lane, t.revision, t.order_barrier
FROM report_roles r JOIN endpoints t ON t.organization_id = r.organization_id WHERE r.role = session_user;
CREATE VIEW everhook_reports.events WITH (security_barrier) AS
SELECT t.id, t.organization_id, t.application_id, t.event_type, t.timestamp, t.idempotency_key, t.source, t.priority, t.sequence_number, t.traceparent,
    t.deliveries, t.first_delivery_id, t.last_delivery_id, t.created_at, t.encoding, t.body, t.labels, t.erased_at
FROM report_roles r JOIN events t ON t.organization_id = r.organization_id WHERE r.role = session_user;

CREATE VIEW everhook_reports.dead_letters WITH (security_barrier) AS
SELECT t.* FROM report_roles r JOIN dead_letters t ON t.organization_id = r.organization_id WHERE r.role = session_user;
CREATE VIEW everhook_reports.operations WITH (security_barrier) AS
SELECT t.* FROM report_roles r JOIN operations t ON t.organization_id = r.organization_id WHERE r.role = session_user;
CREATE VIEW everhook_reports.auto_replays WITH (security_barrier) AS
SELECT t.* FROM report_roles r JOIN auto_replays t ON t.organization_id = r.organization_id WHERE r.role = session_user;
CREATE VIEW everhook_reports.audit_log WITH (security_barrier) AS
SELECT t.* FROM report_roles r JOIN audit_log t ON t.organization_id = r.organization_id WHERE r.role = session_user;

-- These name their endpoint, by its lane or its id.
CREATE VIEW everhook_reports.open_deliveries WITH (security_barrier) AS
SELECT t.* FROM report_roles r JOIN endpoints p ON p.organization_id = r.organization_id JOIN open_deliveries t ON t.lane = p.lane WHERE r.role = session_user;
CREATE VIEW everhook_reports.deliveries WITH (security_barrier) AS
SELECT t.* FROM report_roles r JOIN endpoints p ON p.organization_id = r.organization_id JOIN deliveries t ON t.lane = p.lane WHERE r.role = session_user;
CREATE VIEW everhook_reports.rollups WITH (security_barrier) AS
SELECT t.* FROM report_roles r JOIN endpoints p ON p.organization_id = r.organization_id JOIN rollups t ON t.lane = p.lane WHERE r.role = session_user;
CREATE VIEW everhook_reports.endpoint_standing WITH (security_barrier) AS
SELECT t.* FROM report_roles r JOIN endpoints p ON p.organization_id = r.organization_id JOIN endpoint_standing t ON t.lane = p.lane WHERE r.role = session_user;
CREATE VIEW everhook_reports.circuit_breakers WITH (security_barrier) AS
SELECT t.* FROM report_roles r JOIN endpoints p ON p.organization_id = r.organization_id JOIN circuit_breakers t ON t.endpoint_id = p.id WHERE r.role = session_user;
CREATE VIEW everhook_reports.open_periods WITH (security_barrier) AS
SELECT t.* FROM report_roles r JOIN endpoints p ON p.organization_id = r.organization_id JOIN open_periods t ON t.endpoint_id = p.id WHERE r.role = session_user;

CREATE VIEW everhook_reports.all_deliveries WITH (security_barrier) AS
SELECT lane, id, event_id, priority, stage, attempts, retry_schedule, due_at, NULL::bigint AS ended_at, NULL::text AS cause, created_at,
    failure_category, replay_of, operation_id
FROM everhook_reports.open_deliveries
UNION ALL
SELECT lane, id, event_id, priority, stage, attempts, retry_schedule, NULL, ended_at, cause, created_at,
    failure_category, replay_of, operation_id
FROM everhook_reports.deliveries;

-- And these name no owner themselves: attempts have a delivery, and the meaning of a schedule has who uses it.
CREATE VIEW everhook_reports.attempts WITH (security_barrier) AS
SELECT t.* FROM (SELECT id FROM everhook_reports.deliveries UNION ALL SELECT id FROM everhook_reports.open_deliveries) d JOIN attempts t ON t.delivery_id = d.id;
CREATE VIEW everhook_reports.schedules WITH (security_barrier) AS
SELECT t.*
FROM (SELECT version FROM everhook_reports.retry_schedules UNION SELECT retry_schedule FROM everhook_reports.endpoints) u
    JOIN schedules t ON t.version = u.version;

-- Whoever may use the schema may read the views, and sees what `report_roles` says: a role that is not there sees nothing.
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
    -- Each of these would lead around the views.
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
