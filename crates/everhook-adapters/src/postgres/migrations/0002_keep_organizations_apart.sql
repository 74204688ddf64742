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

-- And which endpoints has that organization, by the names that other tables have for them? Arrays, so that an index can be asked for them.
CREATE FUNCTION everhook_report_endpoints() RETURNS uuid[] LANGUAGE sql STABLE SECURITY DEFINER SET search_path = everhook, pg_temp
RETURN ARRAY(SELECT id FROM endpoints WHERE organization_id = everhook_report_organization());

CREATE FUNCTION everhook_report_lanes() RETURNS bigint[] LANGUAGE sql STABLE SECURITY DEFINER SET search_path = everhook, pg_temp
RETURN ARRAY(SELECT lane FROM endpoints WHERE organization_id = everhook_report_organization());

-- Each function stands in a `SELECT` of its own, so that it is asked once for a statement and not for every row.
CREATE POLICY of_organization ON organizations FOR SELECT USING (id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON applications FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON retry_schedules FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON event_types FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON endpoints FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON events FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON dead_letters FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON operations FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON auto_replays FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));
CREATE POLICY of_organization ON audit_log FOR SELECT USING (organization_id = (SELECT everhook_report_organization()));

CREATE POLICY of_organization ON open_deliveries FOR SELECT USING (lane = ANY ((SELECT everhook_report_lanes())::bigint[]));
CREATE POLICY of_organization ON deliveries FOR SELECT USING (lane = ANY ((SELECT everhook_report_lanes())::bigint[]));
CREATE POLICY of_organization ON rollups FOR SELECT USING (lane = ANY ((SELECT everhook_report_lanes())::bigint[]));
CREATE POLICY of_organization ON endpoint_standing FOR SELECT USING (lane = ANY ((SELECT everhook_report_lanes())::bigint[]));

CREATE POLICY of_organization ON circuit_breakers FOR SELECT USING (endpoint_id = ANY ((SELECT everhook_report_endpoints())::uuid[]));
CREATE POLICY of_organization ON open_periods FOR SELECT USING (endpoint_id = ANY ((SELECT everhook_report_endpoints())::uuid[]));

-- These name no owner themselves. What they ask for here is subject to the policies above.
CREATE POLICY of_organization ON attempts FOR SELECT USING (
    EXISTS (SELECT FROM deliveries d WHERE d.id = delivery_id) OR EXISTS (SELECT FROM open_deliveries o WHERE o.id = delivery_id)
);
CREATE POLICY of_organization ON schedules FOR SELECT USING (
    version IN (SELECT r.version FROM retry_schedules r) OR version IN (SELECT p.retry_schedule FROM endpoints p)
);

-- Rights on tables are of no use to who may not use their schema, and show nothing to who is not in `report_roles`. So everybody has them: rights that a
-- role has itself it could give up in a transaction that it leaves open, and hold up whoever writes to the table's entry in `pg_class`.
GRANT SELECT ON organizations, applications, retry_schedules, schedules, event_types, open_deliveries, deliveries, all_deliveries, attempts, dead_letters,
    circuit_breakers, open_periods, rollups, endpoint_standing, operations, auto_replays, audit_log TO PUBLIC;
-- All but the secrets, and the headers, whose values may be credentials. A new column is hidden until it is named here, and in the view.
GRANT SELECT (id, organization_id, application_id, uid, name, description, url, event_types, labels, filter, verify_url, signature_style, payload_style, metadata,
    retry_schedule, retry_schedule_id, timeout, timeout_growth_factor, max_concurrency, ordering, rate_limit_per_minute, rate_limit_burst,
    circuit_breaker, paused_at, drain_per_second, state, disabled_at, disabled_reason, deleted_at, created_at, updated_at, lane, revision, order_barrier) ON endpoints TO PUBLIC;
GRANT SELECT (id, organization_id, application_id, event_type, timestamp, idempotency_key, source, priority, sequence_number, traceparent, deliveries,
    first_delivery_id, last_delivery_id, created_at, encoding, body, labels, erased_at) ON events TO PUBLIC;

-- What a role can name. A view of one table alone can be written through, and a statement that would do it locks the table before anybody asks whether
-- it may: so each has something beside its table, which costs nothing.
CREATE SCHEMA everhook_reports;

CREATE VIEW everhook_reports.organizations WITH (security_invoker) AS SELECT t.* FROM organizations t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.applications WITH (security_invoker) AS SELECT t.* FROM applications t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.retry_schedules WITH (security_invoker) AS SELECT t.* FROM retry_schedules t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.schedules WITH (security_invoker) AS SELECT t.* FROM schedules t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.event_types WITH (security_invoker) AS SELECT t.* FROM event_types t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.open_deliveries WITH (security_invoker) AS SELECT t.* FROM open_deliveries t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.deliveries WITH (security_invoker) AS SELECT t.* FROM deliveries t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.all_deliveries WITH (security_invoker) AS SELECT t.* FROM all_deliveries t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.attempts WITH (security_invoker) AS SELECT t.* FROM attempts t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.dead_letters WITH (security_invoker) AS SELECT t.* FROM dead_letters t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.circuit_breakers WITH (security_invoker) AS SELECT t.* FROM circuit_breakers t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.open_periods WITH (security_invoker) AS SELECT t.* FROM open_periods t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.rollups WITH (security_invoker) AS SELECT t.* FROM rollups t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.endpoint_standing WITH (security_invoker) AS SELECT t.* FROM endpoint_standing t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.operations WITH (security_invoker) AS SELECT t.* FROM operations t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.auto_replays WITH (security_invoker) AS SELECT t.* FROM auto_replays t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.audit_log WITH (security_invoker) AS SELECT t.* FROM audit_log t CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.endpoints WITH (security_invoker) AS
SELECT id, organization_id, application_id, uid, name, description, url, event_types, labels, filter, verify_url, signature_style, payload_style, metadata,
    retry_schedule, retry_schedule_id, timeout, timeout_growth_factor, max_concurrency, ordering, rate_limit_per_minute, rate_limit_burst,
    circuit_breaker, paused_at, drain_per_second, state, disabled_at, disabled_reason, deleted_at, created_at, updated_at, lane, revision, order_barrier
FROM endpoints CROSS JOIN (SELECT) AS nothing;
CREATE VIEW everhook_reports.events WITH (security_invoker) AS
SELECT id, organization_id, application_id, event_type, timestamp, idempotency_key, source, priority, sequence_number, traceparent, deliveries,
    first_delivery_id, last_delivery_id, created_at, encoding, body, labels, erased_at
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
