//! What the tests begin with: a store of their own, and rows whose every field is set.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use everhook_core::{
    ids::{ApplicationId, AuditEntryId, DeliveryId, EndpointId, EventId, OperationId, OrganizationId, RevisionNumber, ScheduleVersion},
    model::{
        Actor, Application, ApplicationKind, Attempt, AttemptStatus, AuditAction, AuditEntry, AuditNote, ContentType, DisabledReason,
        Endpoint, EndpointState, ErasureSelection, Event, EventType, EventTypePattern, FailureCategory, Operation, OperationKind,
        OperationStatus, Organization, PayloadStyle, PhaseTimes, Placement, Priority, SealedSecret, SealedSecrets, Selection,
        SignatureStyle, Stage, Target,
    },
    ports::{
        Created, Deletion, Disabling, KeyOrigin, NewDelivery, NewEvent, NewOrganization, Recorded, Replay, ReplayAnswer, ReplayBy,
        ReplayItem, Replayed, Settlement,
    },
    time::Timestamp,
};
use uuid::Uuid;

use super::{
    super::backing::Backing,
    store::{Backing as _, Store},
};

/// The tests' present: every id is made at it or after.
pub const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

/// An instant so many seconds after [`NOW`].
pub fn after(secs: u64) -> Timestamp {
    NOW + Duration::from_secs(secs)
}

static IDS: AtomicU64 = AtomicU64::new(0);

/// A new id. Later ones are greater. 4,096 share a millisecond, so that all ids of all tests are of about [`NOW`]: a list by time may rely on it.
pub fn id() -> Uuid {
    let number = IDS.fetch_add(1, Ordering::Relaxed);
    let millisecond = u128::from(1_700_000_000_000 + (number >> 12));
    Uuid::from_u128((millisecond << 80) | (0x7 << 76) | (u128::from(number & 0xfff) << 64) | (0x2 << 62))
}

/// An entry for the audit log, where it does not matter.
pub fn entry() -> AuditEntry {
    AuditEntry {
        id: AuditEntryId::from_uuid(id()),
        organization: OrganizationId::from_uuid(id()),
        at: NOW,
        actor: Actor::Server,
        action: AuditAction::EndpointUpdate,
        resource: id(),
        note: AuditNote::default(),
    }
}

/// What is written with a deletion, where it does not matter.
pub fn deletion() -> Deletion {
    deletion_with(entry())
}

/// The same with this entry: the operation is of the organization in whose log it is.
pub fn deletion_with(entry: AuditEntry) -> Deletion {
    let operation = Operation {
        id: OperationId::from_uuid(id()),
        organization: entry.organization,
        application: None,
        endpoint: None,
        kind: OperationKind::DeleteData,
        status: OperationStatus::Pending,
        total: 0,
        done: 0,
        failed: 0,
        skipped: 0,
        rate: None,
        priority: Priority::Low,
        start_at: None,
        created_at: NOW,
        started_at: None,
        finished_at: None,
    };
    let nothing = ErasureSelection {
        deleted_organization: None,
        application: Some(ApplicationId::from_uuid(id())),
        label: None,
        from: None,
        to: NOW,
    };
    Deletion { entry, operation, selection: Selection::Erasure(nothing) }
}

/// What disables an endpoint.
pub fn disabling() -> Box<Disabling> {
    Box::new(Disabling { reason: DisabledReason::Gone, entry: entry() })
}

/// A store with one organization, its built-in applications, and one endpoint.
pub struct Given {
    pub store: Arc<dyn Store>,
    pub organization: OrganizationId,
    pub application: ApplicationId,
    pub endpoint: EndpointId,
    /// Dropped after the store that is open on it.
    pub backing: Backing,
}

impl Given {
    pub async fn new() -> Self {
        let backing = Backing::create().await;
        let store = backing.open().await;
        let new = organization();
        let (organization, application) = (new.organization.id, new.default.id);
        assert_eq!(store.create_organization(new, entry()).await.unwrap(), Created::Created);
        let endpoint = endpoint(organization, application);
        let id = endpoint.id;
        assert_eq!(store.create_endpoint(endpoint, entry()).await.unwrap(), Created::Created);
        Self { store, organization, application, endpoint: id, backing }
    }

    /// Closes the store and opens it again.
    pub async fn reopened(self) -> Self {
        let Self { store, backing, .. } = self;
        assert_eq!(Arc::strong_count(&store), 1, "nobody else may have it open");
        drop(store);
        Self { store: backing.open().await, backing, ..self }
    }

    /// One more endpoint.
    pub async fn another_endpoint(&self) -> EndpointId {
        self.endpoint_of(self.application).await
    }

    /// One more endpoint of one of the organization's applications.
    pub async fn endpoint_of(&self, application: ApplicationId) -> EndpointId {
        let endpoint = endpoint(self.organization, application);
        let id = endpoint.id;
        assert_eq!(self.store.create_endpoint(endpoint, entry()).await.unwrap(), Created::Created);
        id
    }

    /// One more application.
    pub async fn another_application(&self) -> ApplicationId {
        let application = application(self.organization);
        let id = application.id;
        assert_eq!(self.store.create_application(application, entry()).await.unwrap(), Created::Created);
        id
    }

    pub async fn config_version(&self) -> i64 {
        self.config_version_of(self.application).await
    }

    pub async fn config_version_of(&self, application: ApplicationId) -> i64 {
        self.store.application_row(application).await.unwrap().unwrap().config_version
    }

    /// An event for these endpoints, not yet recorded.
    pub async fn event(&self, endpoints: &[EndpointId]) -> NewEvent {
        self.event_of(self.application, endpoints).await
    }

    /// An event of one of the organization's applications, not yet recorded.
    pub async fn event_of(&self, application: ApplicationId, endpoints: &[EndpointId]) -> NewEvent {
        let id = EventId::from_uuid(self::id());
        let event = Event {
            id,
            application,
            event_type: event_type("user.created"),
            data: Bytes::from_static(br#"{"id": 1}"#),
            content_type: ContentType::JSON,
            sealed: false,
            timestamp: NOW,
            idempotency_key: id.to_string(),
            source: None,
            priority: Priority::Normal,
            sequence_number: 0,
            ordering_key: None,
            traceparent: None,
            labels: Default::default(),
            headers: Vec::new(),
            received: None,
            created_at: NOW,
        };
        let delivery = |endpoint: EndpointId| NewDelivery {
            id: DeliveryId::from_uuid(self::id()),
            lane_id: endpoint.into(),
            retry_schedule: ScheduleVersion(7),
            placement: Placement::default(),
        };
        let deliveries = endpoints.iter().copied().map(delivery).collect();
        NewEvent {
            organization: self.organization,
            event,
            key: KeyOrigin::Made,
            config_version: self.config_version_of(application).await,
            made_at: NOW,
            deliveries,
            parked: None,
        }
    }

    /// Records an event for the one endpoint and returns it with its delivery.
    pub async fn published(&self) -> (EventId, DeliveryId) {
        let new = self.event(&[self.endpoint]).await;
        let ids = (new.event.id, new.deliveries[0].id);
        self.record(new).await;
        ids
    }

    /// Records an event that must be accepted, and returns its sequence number.
    pub async fn record(&self, new: NewEvent) -> i64 {
        match self.record_all(vec![new]).await[..] {
            [Recorded::Accepted { sequence_number, .. }] => sequence_number,
            ref other => panic!("the event was not accepted: {other:?}"),
        }
    }

    /// Records events that the store must answer.
    pub async fn record_all(&self, events: Vec<NewEvent>) -> Vec<Recorded> {
        self.store.record(events).await.into_iter().map(Result::unwrap).collect()
    }

    /// The event for the one endpoint, again: a person asks for it.
    pub async fn replay_item(&self, event: EventId) -> ReplayItem {
        ReplayItem {
            position: None,
            event,
            lane_id: self.endpoint.into(),
            application: self.application,
            of: None,
            only_dead: false,
            delivery: DeliveryId::from_uuid(id()),
            retry_schedule: ScheduleVersion(9),
            placement: Placement::default(),
            config_version: self.config_version().await,
            priority: None,
        }
    }

    /// Does events again, by hand.
    pub async fn replay(&self, items: Vec<ReplayItem>) -> Vec<ReplayAnswer> {
        let replay = Replay { organization: self.organization, by: ReplayBy::Hand, items, at: after(60) };
        match self.store.replay(replay).await.unwrap() {
            Replayed::Answered(answers) => answers,
            other => panic!("it was not written: {other:?}"),
        }
    }
}

pub fn event_type(name: &str) -> EventType {
    EventType::parse(name).unwrap()
}

pub fn organization() -> NewOrganization {
    let id = OrganizationId::from_uuid(self::id());
    let organization = Organization {
        id,
        uid: None,
        name: "Acme".to_owned(),
        limits: Default::default(),
        worker_pool: Default::default(),
        admin_emails: Vec::new(),
        created_at: NOW,
    };
    let application = |kind, name: &str| Application { kind, name: name.to_owned(), ..application(id) };
    NewOrganization {
        organization,
        default: application(ApplicationKind::Default, "default"),
        operational: application(ApplicationKind::Operational, "operational"),
    }
}

pub fn application(organization: OrganizationId) -> Application {
    let id = ApplicationId::from_uuid(self::id());
    Application {
        id,
        organization,
        uid: None,
        name: id.to_string(),
        kind: ApplicationKind::Custom,
        strict_event_types: true,
        owner_email: None,
        base_url: None,
        health_path: Some("/health".to_owned()),
        created_at: NOW,
    }
}

pub fn endpoint(organization: OrganizationId, application: ApplicationId) -> Endpoint {
    let written = "https://shop.example/hooks".to_owned();
    Endpoint {
        id: EndpointId::from_uuid(id()),
        organization,
        application,
        uid: None,
        name: None,
        description: None,
        target: Target { url: written.parse().unwrap(), written },
        event_types: vec![EventTypePattern::Any],
        secrets: SealedSecrets { current: SealedSecret(vec![1, 2, 3]), previous: None },
        signature_style: SignatureStyle::Timestamped,
        payload_style: PayloadStyle::Envelope,
        headers: Vec::new(),
        revision: RevisionNumber::FIRST,
        metadata: None,
        retry_schedule: ScheduleVersion(7),
        follows: None,
        labels: Default::default(),
        filter: None,
        verify_url: false,
        timeout: None,
        timeout_growth_factor: 1.0,
        max_concurrency: 5,
        ordering: everhook_core::model::Ordering::default(),
        rate_limit: None,
        breaker: everhook_core::model::BreakerConfig::window(),
        drain: None,
        paused_at: None,
        state: EndpointState::Enabled,
        created_at: NOW,
        updated_at: NOW,
    }
}

/// An attempt that succeeded.
pub fn success(number: u32) -> Attempt {
    Attempt {
        number,
        status: AttemptStatus::Success,
        failure_category: None,
        error: None,
        response: None,
        duration: Duration::from_millis(12),
        phases: PhaseTimes::default(),
        scheduled_at: NOW,
        picked_at: NOW,
        executed_at: NOW,
        next_retry_at: None,
        revision: Some(RevisionNumber::FIRST),
        node: "node-1".to_owned(),
        user_agent: "Everhook/1".into(),
        breaker: everhook_core::model::BreakerState::Closed,
    }
}

/// An attempt that failed.
pub fn failure(number: u32) -> Attempt {
    Attempt {
        status: AttemptStatus::Failed,
        failure_category: Some(FailureCategory::ServerError),
        error: Some(format!("attempt {number} was answered 503")),
        ..success(number)
    }
}

/// What moves a delivery on after an attempt.
pub fn settlement(delivery: DeliveryId, endpoint: EndpointId, attempt: Attempt, stage: Stage) -> Settlement {
    let target = "https://shop.example/hooks".to_owned();
    Settlement {
        delivery,
        lane_id: endpoint.into(),
        replay_of: None,
        ordered: false,
        attempt,
        stage,
        target,
        disables: None,
        alerts: Vec::new(),
    }
}

/// The same, of a delivery that brings a dead letter back.
pub fn replay_of(dead_letter: DeliveryId, settlement: Settlement) -> Settlement {
    Settlement { replay_of: Some(dead_letter), ..settlement }
}
