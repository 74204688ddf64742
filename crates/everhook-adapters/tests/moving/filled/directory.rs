//! What the folder has before anything is published: organizations, applications, schedules, types, keys, and endpoints of every state.

use std::{num::NonZeroU32, time::Duration};

use bytes::Bytes;
use everhook_core::{
    ids::{ApiKeyId, ApplicationId, DeliveryId, EventTypeId, Ref, ScheduleId, Uid},
    model::{
        Actor, ApiKey, ApiKeyHash, AppCheckPlan, AppHealth, AppStatus, ApprovalDecision, ApprovalEnd, AuditAction, BreakerConfig, CacheKey,
        CachedAnswer, CapabilityName, DisabledReason, EmailAddress, Endpoint, EndpointState, EventTypeDefinition, EventTypePattern,
        FailingChecks, FairDraw, JobAttempt, KeptManifest, OrderingMode, OrganizationSchedule, PayloadStyle, RateLimit, RetrySchedule,
        ScheduleName, Scope, SealedSecret, SealedSecrets, SignatureStyle, SourceActivity, SourceStatistics, SourceTally, Target,
        callback_lane,
        health::{KeptRate, MetricType, Provider, ProviderRate, RateWindow},
        minute_of,
    },
    policy::presets,
    ports::{Created, Decided, EndpointUpdated, ManifestChange, ManifestPut, SecretsChange},
};

use super::{CACHED_HASH, DRAWN, Filled, JOB, ODD};
use crate::sqlite::conformance::{
    approvals::{alert, approval, queued},
    given::{Given, NOW, after, application, deletion_with, endpoint, event_type, id, organization},
    health::draft,
    manifests::{BOUNDS, job_lanes, manifest, secrets},
    sources::{full_source, source},
};

impl Filled {
    /// Organizations, applications, schedules, types, keys.
    pub(super) async fn define(&mut self) {
        let store = &self.given.store;
        let mut other = organization();
        (other.organization.uid, other.organization.name) = (Some(Uid::parse("Other.1").unwrap()), ODD.to_owned());
        other.organization.limits.endpoints = Some(7);
        other.organization.admin_emails = vec![EmailAddress::parse("o'ps+1@example.com").unwrap()];
        self.organizations.push(other.organization.id);
        store.create_organization(other, self.entry(AuditAction::OrganizationCreate)).await.unwrap();
        let mut shop = application(self.given.organization);
        (shop.uid, shop.strict_event_types) = (Some(Uid::parse("shop").unwrap()), false);
        shop.owner_email = Some(EmailAddress::parse("owner@example.com").unwrap());
        (shop.base_url, shop.health_path) = (Some("https://app.example".to_owned()), None);
        self.applications.push(shop.id);
        store.create_application(shop.clone(), self.entry(AuditAction::ApplicationCreate)).await.unwrap();
        // One that was deleted, and whose endpoints are still to be.
        let doomed = application(self.given.organization);
        store.create_application(doomed.clone(), self.entry(AuditAction::ApplicationCreate)).await.unwrap();
        store
            .delete_application(self.given.organization, doomed.id, deletion_with(self.entry(AuditAction::ApplicationDelete)))
            .await
            .unwrap();
        for (n, archived) in [(1, false), (2, true)] {
            let definition = EventTypeDefinition {
                id: EventTypeId::from_uuid(id()),
                organization: self.given.organization,
                name: event_type(&format!("order.paid{n}")),
                description: (n == 1).then(|| ODD.to_owned()),
                schema: Some(r#"{ "type":  "object" }"#.to_owned()),
                example: None,
                archived,
                created_at: NOW,
                updated_at: after(n),
            };
            store.create_event_type(definition, 10, self.entry(AuditAction::EventTypeCreate)).await.unwrap();
        }
        let key = ApiKey {
            id: ApiKeyId::from_uuid(id()),
            organization: self.given.organization,
            application: None,
            name: ODD.to_owned(),
            prefix: "eh_ab12".to_owned(),
            scopes: [Scope::Publish, Scope::Admin].into_iter().collect(),
            created_at: NOW,
            expires_at: Some(after(60)),
            last_used_at: None,
        };
        let used = key.id;
        let of_shop = ApiKey {
            id: ApiKeyId::from_uuid(id()),
            application: Some(shop.id),
            scopes: [Scope::Publish].into_iter().collect(),
            ..key.clone()
        };
        store.create_api_key(of_shop, ApiKeyHash([77; 32]), 100, self.entry(AuditAction::ApiKeyCreate)).await.unwrap();
        store.create_api_key(key, self.api_key, 100, self.entry(AuditAction::ApiKeyCreate)).await.unwrap();
        store.note_key_uses(vec![(used, after(9))]).await.unwrap();
        let bare = source(self.given.organization, shop.id, "bare");
        let full = full_source(self.given.organization, self.given.application, "full");
        for source in [&bare, &full] {
            store.create_source(source.clone(), 10, self.entry(AuditAction::SourceCreate)).await.unwrap();
        }
        let activity = SourceActivity { accepted_at: Some(after(8)), refused: Some((after(9), ODD.to_owned())), handshake_at: None };
        store.note_source_activity(vec![(full.id, activity)]).await.unwrap();
        let mut statistics = SourceStatistics { accepted: 1, handshakes: 2, ..SourceStatistics::default() };
        statistics.reject(ODD, 3);
        statistics.events_mut("sleeps").received = 4;
        statistics.took(Duration::from_secs(5));
        store.add_source_tallies(vec![SourceTally { source: full.id, minute: minute_of(after(8)), statistics }]).await.unwrap();
        self.make_manifests(shop.id).await;
        self.make_health_data().await;
    }

    /// A connection with tokens, and a metric that came through it.
    async fn make_health_data(&self) {
        let connection = self.given.connect(&self.given.new_connection("u1", "Ünïcødé 1")).await;
        let metric = draft(MetricType::Steps, 1, 7.5);
        assert!(self.given.write_metrics(&[&connection], vec![metric], after(1)).await.is_some());
        let window = |number, used| RateWindow { number, used, limit: 100 };
        let rate = KeptRate { rate: ProviderRate { quarter: window(1, 2), day: window(3, 4) }, revision: 0 };
        assert!(self.given.store.keep_provider_rate(Provider::Strava, rate).await.unwrap());
    }

    /// A manifest with its lane and secrets, and what calls left behind.
    async fn make_manifests(&self, shop: ApplicationId) {
        let (store, organization) = (&self.given.store, self.given.organization);
        let name = CapabilityName::parse("winnerSelection").unwrap();
        let lane_id = name.lane(shop);
        let check = AppCheckPlan { url: "https://app.example/health".to_owned(), first_at: after(5) };
        let read = store.application(organization, &Ref::Id(shop)).await.unwrap().unwrap();
        let put = store.put_manifest(
            ManifestChange {
                read,
                manifest: KeptManifest {
                    owner_email: Some(EmailAddress::parse("manifest@example.com").unwrap()),
                    ..manifest(organization, shop, 1)
                },
            },
            job_lanes([lane_id, callback_lane(shop)]),
            Some(check.clone()),
            Vec::new(),
            BOUNDS,
            self.entry(AuditAction::ApplicationPutManifest),
        );
        assert_eq!(put.await.unwrap(), ManifestPut::Kept);
        let failing = Some(FailingChecks { count: 2, since: after(4) });
        let (status, checks) = (AppStatus::Unhealthy, Some(r#"{"db":"ü"}"#.to_owned()));
        let took = Duration::from_micros(7);
        let found = AppHealth { status, checked_at: after(6), took, failing, detail: ODD.to_owned(), checks };
        assert!(store.keep_app_health(shop, found, Vec::new()).await.unwrap());
        let change = SecretsChange { organization, application: shop, read: None, secrets: secrets() };
        assert!(store.put_application_secrets(change, self.entry(AuditAction::ApplicationCreateSecret)).await.unwrap());
        let (key, data) = (CacheKey { lane_id, hash: CACHED_HASH }, Bytes::from_static(&[0, 255, 1]));
        store.keep_answers(vec![CachedAnswer { key, data, stored_at: after(1), expires_at: after(900) }]).await.unwrap();
        let draw = FairDraw {
            request_id: DRAWN,
            organization,
            application: shop,
            capability: name,
            drawn_at: after(3),
            seed: [255; 32],
            list_hash: [1; 32],
            list_length: 7,
            picked: 2,
        };
        store.keep_draw(draw).await.unwrap();
        let attempt = JobAttempt {
            job: JOB,
            organization,
            application: shop,
            lane_id,
            delivery: DeliveryId::from_uuid(DRAWN),
            number: 2,
            token: [254; 32],
            at: after(4),
        };
        store.begin_job_attempt(attempt).await.unwrap();
        // One waits, one is a job, and one was answered by a person.
        let answered = ApprovalEnd::Answered { data: Some(Bytes::from_static(&[0, 9])) };
        let answered = ApprovalDecision { end: answered, by: Actor::Server, reason: None, at: after(6), unpublished: None };
        for decision in [None, Some(queued(JOB)), Some(answered)] {
            let made = approval(organization, shop, 60);
            store.request_approval(made.clone(), 10, alert(organization)).await.unwrap();
            if let Some(decision) = decision {
                let decided = store.decide_approval(organization, made.id, decision, self.entry(AuditAction::ApprovalApprove));
                assert_eq!(decided.await.unwrap(), Decided::Decided);
            }
        }
    }

    /// Endpoints of every state, with revisions, one of them behind a schedule of the organization.
    pub(super) async fn make_endpoints(&mut self) {
        let store = &self.given.store;
        let policy = RetrySchedule { name: ScheduleName(ODD.to_owned()), max_attempts: 4, ..presets::standard() };
        let version = store.schedule_version(&policy).await.unwrap();
        store.schedule_version(&presets::standard()).await.unwrap();
        let (schedule, organization) = (ScheduleId::from_uuid(id()), self.given.organization);
        let kept = OrganizationSchedule { id: schedule, organization, policy, version, created_at: NOW, updated_at: after(2) };
        store.create_retry_schedule(kept, 10, self.entry(AuditAction::ScheduleCreate)).await.unwrap();
        let full = Endpoint { follows: Some(schedule), retry_schedule: version, ..full_endpoint(&self.given) };
        let mut deleted = endpoint(organization, self.given.application);
        (deleted.state, deleted.uid) = (EndpointState::Deleted { at: NOW }, full.uid.clone());
        let elsewhere = endpoint(organization, self.applications[1]);
        for endpoint in [full.clone(), deleted, elsewhere] {
            self.endpoints.push(endpoint.id);
            assert_eq!(store.create_endpoint(endpoint, self.entry(AuditAction::EndpointCreate)).await.unwrap(), Created::Created);
        }
        let second = Endpoint {
            secrets: SealedSecrets { current: SealedSecret(vec![8; 60]), previous: Some((full.secrets.current.clone(), after(90))) },
            revision: full.revision.next(),
            updated_at: after(5),
            ..full.clone()
        };
        let updated = store.update_endpoint(second, full.updated_at, self.entry(AuditAction::EndpointUpdate)).await.unwrap();
        assert_eq!(updated, EndpointUpdated::Updated);
    }
}

/// An endpoint with something in every field.
fn full_endpoint(given: &Given) -> Endpoint {
    let written = "https://Shop.example:8443/a b?c=ü".to_owned();
    Endpoint {
        uid: Some(Uid::parse("shop-1").unwrap()),
        name: Some(ODD.to_owned()),
        description: Some(ODD.to_owned()),
        target: Target { url: written.parse().unwrap(), written },
        event_types: vec![EventTypePattern::parse("user.created").unwrap(), EventTypePattern::parse("order.*").unwrap()],
        secrets: SealedSecrets { current: SealedSecret(vec![0, 255, 1]), previous: Some((SealedSecret(vec![9]), after(86_400))) },
        signature_style: SignatureStyle::Sha256,
        payload_style: PayloadStyle::Raw,
        headers: vec![("X-Key".to_owned(), "a\"b".to_owned())],
        metadata: Some("{\"a\" : 1.0}".to_owned()),
        labels: [("region".to_owned(), "eu".to_owned())].into(),
        filter: Some(r#"{"data.amount": {"gte": 1}}"#.to_owned()),
        verify_url: true,
        timeout: Some(Duration::from_millis(1_500)),
        timeout_growth_factor: 1.1,
        max_concurrency: 17,
        ordering: everhook_core::model::Ordering { mode: OrderingMode::PerEventType, barrier: None },
        rate_limit: Some(RateLimit::per_minute(NonZeroU32::new(60).unwrap(), NonZeroU32::new(3))),
        breaker: BreakerConfig::consecutive(),
        drain: Some(RateLimit::per_second(NonZeroU32::new(5).unwrap(), None)),
        paused_at: Some(after(2)),
        state: EndpointState::Disabled { at: after(3), reason: DisabledReason::ByOwner },
        updated_at: after(3),
        ..endpoint(given.organization, given.application)
    }
}
