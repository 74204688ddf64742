//! Given: endpoints and events.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use everhook_core::{
    ids::{ApplicationId, EndpointId, RevisionNumber, ScheduleId, ScheduleVersion},
    line::publish::{Acceptance, Publication, PublishError, Published, Spooled, publish},
    model::{
        ApplicationKind, BreakerConfig, ContentType, Endpoint, EndpointState, EventType, EventTypePattern, Jitter, Ordering, OrderingKey,
        OrderingMode, OrganizationSchedule, PayloadStyle, Priority, RateLimit, RetrySchedule, Revision, ScheduleName, SealedSecrets,
        SignatureStyle, SigningKey, Strategy, Target,
    },
    policy::{labels::Labels, presets},
    ports::{Change, Clock, Created, EndpointUpdated, Entropy},
};

use super::World;
use crate::network::Answer;

/// An endpoint of the scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// Its id.
    pub id: EndpointId,
    /// Its application.
    pub application: ApplicationId,
    /// Its URL.
    pub url: String,
}

/// Makes an endpoint: only what matters to the scenario is said.
pub struct EndpointBuilder<'a> {
    world: &'a mut World,
    application: ApplicationId,
    event_types: Vec<EventTypePattern>,
    schedule: RetrySchedule,
    first: Vec<Answer>,
    then: Answer,
    max_concurrency: u32,
    ordering: OrderingMode,
    rate_limit: Option<RateLimit>,
    breaker: BreakerConfig,
    follows: Option<ScheduleId>,
    headers: Vec<(String, String)>,
}

impl World {
    /// An endpoint that gets every event, answers 200, and retries by the standard schedule without jitter.
    pub fn endpoint(&mut self) -> EndpointBuilder<'_> {
        let application = self.application;
        EndpointBuilder {
            world: self,
            application,
            event_types: vec![EventTypePattern::Any],
            schedule: RetrySchedule { jitter: Jitter::Share(0.0), ..presets::standard() },
            first: Vec::new(),
            then: Answer::Status(200),
            max_concurrency: 5,
            ordering: OrderingMode::None,
            rate_limit: None,
            breaker: BreakerConfig::window(),
            follows: None,
            headers: Vec::new(),
        }
    }

    /// An event of this type.
    pub fn event(&self, event_type: &str) -> EventBuilder {
        let event_type = EventType::parse(event_type).expect("a well-formed type");
        EventBuilder {
            line: self.line().clone(),
            publication: Publication {
                organization: self.organization,
                application: self.application,
                event_type,
                data: Bytes::from_static(b"{\"n\":1}"),
                content_type: ContentType::JSON,
                idempotency_key: None,
                idempotency_window: None,
                source: None,
                priority: Priority::Normal,
                timestamp: None,
                ordering_key: None,
                traceparent: None,
                labels: Labels::new(),
                headers: Vec::new(),
                only: None,
                received: None,
                sealed: false,
                parked: None,
            },
        }
    }

    /// Another application of the organization.
    pub async fn another_application(&self) -> ApplicationId {
        let now = self.clock.now();
        let id = ApplicationId::from_uuid(self.dice.uuid(now));
        let application = self.application_of(id, &id.to_string(), ApplicationKind::Custom);
        let created = self.line().ports.applications.create_application(application, self.entry()).await.expect("the store answers");
        assert_eq!(created, Created::Created);
        id
    }

    /// Changes an endpoint's state, as its owner would.
    pub async fn set_state(&self, receiver: &Receiver, state: EndpointState) {
        self.change(receiver, |endpoint| endpoint.state = state).await;
    }

    /// Changes an endpoint, as its owner would.
    pub async fn change(&self, receiver: &Receiver, edit: impl FnOnce(&mut Endpoint)) {
        let line = self.line();
        let found = line.ports.endpoints.endpoint(self.organization, &everhook_core::ids::Ref::Id(receiver.id)).await;
        let mut endpoint = found.expect("the store answers").expect("the endpoint exists");
        let (read, read_at) = (endpoint.clone(), endpoint.updated_at);
        edit(&mut endpoint);
        endpoint.revision = Revision::number_after(&read, &endpoint);
        endpoint.updated_at = (self.clock.now() + Duration::from_micros(1)).max(read_at + Duration::from_micros(1));
        let updated = line.ports.endpoints.update_endpoint(endpoint, read_at, self.entry()).await.expect("the store answers");
        assert_eq!(updated, EndpointUpdated::Updated);
        line.catalog.forget(receiver.application);
        line.wake_up.changed(receiver.application, receiver.id.into());
        self.note(Change::Endpoint(receiver.application, receiver.id));
    }

    /// Tells other nodes of a change, as a shared store would.
    fn note(&self, change: Change) {
        if let Some(registry) = self.registry() {
            registry.record(change);
        }
    }
}

impl EndpointBuilder<'_> {
    /// Answers with this status for ever.
    pub fn answering(mut self, status: u16) -> Self {
        self.then = Answer::Status(status);
        self
    }

    /// Answers with these in turn, then 200.
    pub fn answering_in_turn(mut self, answers: impl IntoIterator<Item = Answer>) -> Self {
        self.first = answers.into_iter().collect();
        self
    }

    /// Answers so for ever.
    pub fn always(mut self, answer: Answer) -> Self {
        self.then = answer;
        self
    }

    /// Retries after these delays, without jitter; then it gives up.
    pub fn retrying_after(mut self, delays: impl IntoIterator<Item = Duration>) -> Self {
        let delays: Vec<Duration> = delays.into_iter().collect();
        self.schedule = RetrySchedule {
            name: ScheduleName("scenario".to_owned()),
            max_attempts: u32::try_from(delays.len() + 1).expect("few delays"),
            strategy: Strategy::Custom(delays),
            jitter: Jitter::Share(0.0),
            give_up_on: vec![410],
            timeout: None,
        };
        self
    }

    /// Retries by this schedule.
    pub fn retrying_by(mut self, schedule: &RetrySchedule) -> Self {
        self.schedule = schedule.clone();
        self
    }

    /// Gets only events that match.
    pub fn wanting(mut self, pattern: &str) -> Self {
        self.event_types = vec![EventTypePattern::parse(pattern).expect("a well-formed pattern")];
        self
    }

    /// Belongs to this application instead of `default`.
    pub fn of(mut self, application: ApplicationId) -> Self {
        self.application = application;
        self
    }

    /// Takes this many requests at once.
    pub fn taking_at_once(mut self, max_concurrency: u32) -> Self {
        self.max_concurrency = max_concurrency;
        self
    }

    /// Keeps this order.
    pub fn in_order(mut self, mode: OrderingMode) -> Self {
        self.ordering = mode;
        self
    }

    /// Gets no more than this.
    pub fn limited_to(mut self, rate_limit: RateLimit) -> Self {
        self.rate_limit = Some(rate_limit);
        self
    }

    /// Is never left alone because it fails.
    pub fn without_breaker(mut self) -> Self {
        self.breaker.enabled = false;
        self
    }

    /// Follows this schedule of the organization.
    pub fn following(mut self, schedule: &OrganizationSchedule) -> Self {
        self.schedule = schedule.policy.clone();
        self.follows = Some(schedule.id);
        self
    }

    /// Adds this header to every request.
    pub fn adding(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Makes it.
    pub async fn create(self) -> Receiver {
        self.world.endpoints_made += 1;
        let url = format!("https://receiver-{}.example/hook", self.world.endpoints_made);
        self.world.network.script(&url, self.first.clone(), self.then);
        let version = self.world.line().ports.retry_schedules.schedule_version(&self.schedule).await.expect("the store answers");
        let endpoint = self.describe(&url, version);
        let (world, receiver) = (self.world, Receiver { id: endpoint.id, application: endpoint.application, url });
        world.line().ports.endpoints.create_endpoint(endpoint, world.entry()).await.expect("the store answers");
        world.line().catalog.forget(receiver.application);
        world.note(Change::Endpoint(receiver.application, receiver.id));
        receiver
    }

    /// The endpoint as its owner would have asked for it, with a secret of its own.
    fn describe(&self, url: &str, retry_schedule: ScheduleVersion) -> Endpoint {
        let now = self.world.clock.now();
        let id = EndpointId::from_uuid(self.world.dice.uuid(now));
        let key = SigningKey::hmac_from_random(self.world.dice.secret_bytes());
        let current = self.world.line().ports.vault.seal(id.as_uuid(), key.text().expose().as_bytes());
        Endpoint {
            id,
            organization: self.world.organization,
            application: self.application,
            uid: None,
            name: None,
            description: None,
            target: Target { written: url.to_owned(), url: url.parse().expect("a URL") },
            event_types: self.event_types.clone(),
            secrets: SealedSecrets { current, previous: None },
            signature_style: SignatureStyle::Timestamped,
            payload_style: PayloadStyle::Envelope,
            headers: self.headers.clone(),
            revision: RevisionNumber::FIRST,
            metadata: None,
            retry_schedule,
            follows: self.follows,
            labels: Default::default(),
            filter: None,
            verify_url: false,
            timeout: None,
            timeout_growth_factor: 1.0,
            max_concurrency: self.max_concurrency,
            ordering: Ordering { mode: self.ordering, barrier: None },
            rate_limit: self.rate_limit,
            breaker: self.breaker,
            drain: None,
            paused_at: None,
            state: EndpointState::Enabled,
            created_at: now,
            updated_at: now,
        }
    }
}

/// Makes an event: only what matters to the scenario is said.
pub struct EventBuilder {
    line: Arc<everhook_core::line::Line>,
    publication: Publication,
}

impl EventBuilder {
    /// Published at this node.
    pub fn at(mut self, node: &crate::cluster::Node) -> Self {
        self.line = node.line.clone();
        self
    }

    /// Published to this application instead of `default`.
    pub fn to(mut self, application: ApplicationId) -> Self {
        self.publication.application = application;
        self
    }

    /// With this idempotency key.
    pub fn keyed(mut self, key: &str) -> Self {
        self.publication.idempotency_key = Some(key.to_owned());
        self
    }

    /// What it is about, for endpoints that are ordered by that.
    pub fn ordering_key(mut self, key: &str) -> Self {
        self.publication.ordering_key = Some(OrderingKey::parse(key).expect("a good key"));
        self
    }

    /// With this priority.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.publication.priority = priority;
        self
    }

    /// With this header on every request about it.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.publication.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.publication.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// With this data.
    pub fn data(mut self, json: &str) -> Self {
        self.publication.data = Bytes::copy_from_slice(json.as_bytes());
        self
    }

    /// With whatever else is said of it.
    pub fn with(mut self, change: impl FnOnce(&mut Publication)) -> Self {
        change(&mut self.publication);
        self
    }

    /// Publishes it, and expects it to be accepted.
    pub async fn publish(self) -> Published {
        self.try_publish().await.expect("the event is accepted")
    }

    /// Publishes it.
    ///
    /// # Errors
    /// What the publisher is told.
    pub async fn try_publish(self) -> Result<Published, PublishError> {
        match self.accept().await? {
            Acceptance::Recorded(published) => Ok(published),
            Acceptance::Spooled(spooled) => panic!("{spooled:?} should be in the store"),
        }
    }

    /// Publishes it, and expects the spool to take it.
    pub async fn spool(self) -> Spooled {
        match self.accept().await.expect("the event is accepted") {
            Acceptance::Spooled(spooled) => spooled,
            Acceptance::Recorded(published) => panic!("{published:?} should be in the spool"),
        }
    }

    /// Publishes it, wherever it comes to.
    ///
    /// # Errors
    /// What the publisher is told.
    pub async fn accept(self) -> Result<Acceptance, PublishError> {
        publish(&self.line, vec![self.publication]).await.pop().expect("one event, one answer")
    }

    /// What would be published, for a batch.
    pub fn publication(self) -> Publication {
        self.publication
    }
}
