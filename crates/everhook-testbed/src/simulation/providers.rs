//! An organization that receives: a health provider pushes summaries about users, some of whom are connected later, and sends each until it is answered.
//! Its source is held now and then. What it takes goes to a processor and to an endpoint that keeps the order of each user.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::{
    ids::{OrganizationId, Ref, SourceId},
    inbound::Item,
    line::receive::{Push, PushedItem, receive},
    manage::{
        Change,
        health::{self, NewConnection},
        sources::{self, DedupeInput, NewSource, SourceChange},
    },
    model::{Author, EventType, OrderingMode, Source},
};

use super::{
    Simulation,
    log::{Happening, Summary},
    neighbors::Make,
    oracle::Violation,
    receivers::Character,
};

/// Few, so that pushes about one user meet.
const USERS: u32 = 3;
/// The type of what is pushed.
const DAILIES: &str = "dailies";
/// How often everything is tried again that must succeed once everything is well.
const TRIES_MAX: u32 = 3;
/// How many requests the endpoint takes at once, and how long each may take.
const FORWARD_CONCURRENCY: u32 = 3;
const FORWARD_TIMEOUT: Duration = Duration::from_secs(15);

/// The provider, and what it knows.
pub(super) struct Provider {
    organization: OrganizationId,
    source: SourceId,
    users: Vec<User>,
}

/// A user of the provider.
#[derive(Default)]
struct User {
    /// Whether its profile is connected, as far as somebody was told.
    is_connected: bool,
    /// What was said of it last.
    last: Option<Summary>,
    /// What was pushed and not answered.
    unanswered: Option<Summary>,
}

impl Simulation {
    /// Makes the organization, its source and its endpoint. Nothing goes wrong yet.
    pub(super) async fn settle_provider(&mut self) {
        let receiving = self.settle_neighbor("Receiving").await;
        let breaker = super::flow::some_breaker(&self.dice);
        let make = Make {
            event_type: DAILIES,
            character: Character::any(&self.dice),
            max_concurrency: FORWARD_CONCURRENCY,
            timeout: FORWARD_TIMEOUT,
            breaker,
            ordering: OrderingMode::PerKey,
        };
        self.settle_endpoint_of(receiving, make).await;
        let settings = SourceChange {
            name: Change::Set("watch".to_owned()),
            kind: Change::Set("garmin".to_owned()),
            processor: Change::Set("health".to_owned()),
            dedupe: Change::Set(DedupeInput { by: Some("body".to_owned()), ..DedupeInput::default() }),
            ..SourceChange::default()
        };
        let by = Author::server(receiving.organization);
        let made = sources::create(self.world.line(), &by, NewSource { application: None, settings }).await.expect("the source is made");
        let users = (0..USERS).map(|_| User::default()).collect();
        self.provider = Some(Provider { organization: receiving.organization, source: made.id, users });
    }

    /// Mostly pushes; now and then somebody holds the source, lets it go on, or connects a user.
    pub(super) async fn let_the_provider_act(&mut self) -> Result<(), Violation> {
        let user = self.dice.below(u64::from(USERS)) as u32;
        match self.dice.below(12) {
            0 => self.hold_the_source().await,
            1 => self.resume_the_source().await,
            2 => self.connect(user).await,
            _ => self.push(user).await,
        }
        if self.disk.is_off() { self.come_back().await } else { Ok(()) }
    }

    /// Everything that was not answered is pushed again, and nothing is held any more.
    pub(super) async fn let_the_provider_finish(&mut self) -> Result<(), Violation> {
        for _ in 0..TRIES_MAX {
            self.resume_the_source().await;
            for user in 0..USERS {
                self.connect(user).await;
                if self.user(user).is_some_and(|user| user.unanswered.is_some()) {
                    self.push(user).await;
                }
            }
        }
        let Some(provider) = &self.provider else { return Ok(()) };
        let is_done = provider.users.iter().all(|user| user.is_connected && user.unanswered.is_none());
        let because = || "a push is not answered, or a user cannot be connected".to_owned();
        if is_done { Ok(()) } else { Err(Violation { rule: "when everything is well, providers are answered", because: because() }) }
    }

    /// Who receives: whose metrics to look at.
    pub(super) fn receiving_organization(&self) -> Option<OrganizationId> {
        self.provider.as_ref().map(|provider| provider.organization)
    }

    async fn hold_the_source(&mut self) {
        let Some((by, source)) = self.source_and_owner() else { return };
        // If the store fails, it stays as it is, or is held and nobody knows.
        let _ = sources::pause(self.world.line(), &by, &source, None).await;
        self.log.note(Happening::SourceHeld);
    }

    async fn resume_the_source(&mut self) {
        let Some((by, source)) = self.source_and_owner() else { return };
        let _ = sources::resume(self.world.line(), &by, &source).await;
        self.log.note(Happening::SourceResumed);
    }

    fn source_and_owner(&self) -> Option<(Author, Ref<SourceId>)> {
        self.provider.as_ref().map(|provider| (Author::server(provider.organization), Ref::Id(provider.source)))
    }

    async fn connect(&mut self, user: u32) {
        let Some(provider) = &self.provider else { return };
        if provider.users[user as usize].is_connected {
            return;
        }
        let new = NewConnection {
            provider: Some("garmin".to_owned()),
            external_user_id: Some(user_name(user)),
            profile_id: Some(user_name(user)),
            ..NewConnection::default()
        };
        let connected = health::connect(self.world.line(), &Author::server(provider.organization), new).await.is_ok();
        if connected {
            self.log.note(Happening::UserConnected(user));
        }
        if let Some(user) = self.user(user) {
            user.is_connected = connected;
        }
    }

    /// Pushes what was not answered, or something else: a new day, a correction of the last one, or the last one once more.
    async fn push(&mut self, user: u32) {
        let chance = self.dice.below(4);
        let Some(known) = self.user(user) else { return };
        let summary = known.unanswered.unwrap_or_else(|| Summary::after(known.last, user, chance));
        self.log.note(Happening::Pushing(summary));
        let is_answered = self.receive(summary).await;
        self.log.note(Happening::PushAnswered(summary, is_answered));
        if let Some(known) = self.user(user) {
            known.unanswered = (!is_answered).then_some(summary);
            known.last = Some(summary);
        }
    }

    /// As the door does: the source is looked up, and everything is recorded before it is answered.
    async fn receive(&self, summary: Summary) -> bool {
        let Some(provider) = &self.provider else { return false };
        let line = self.world.line().clone();
        let Ok(Some(open)) = line.sources.lookup(&provider.source.to_string()).await else { return false };
        receive(&line, pushed(&open.source, summary)).await.is_ok()
    }

    fn user(&mut self, user: u32) -> Option<&mut User> {
        self.provider.as_mut().and_then(|provider| provider.users.get_mut(user as usize))
    }
}

fn user_name(user: u32) -> String {
    format!("user-{user}")
}

fn pushed(source: &Source, summary: Summary) -> Push<'_> {
    let Summary { user, day, steps } = summary;
    let name = user_name(user);
    let body = format!(r#"{{"userId":"{name}","summaryId":"{user}-{day}","calendarDate":"{}","steps":{steps}}}"#, summary.date());
    let item = Item {
        event_type: EventType::parse(DAILIES).expect("a well-formed type"),
        id: None,
        external_user: Some(name),
        body: Bytes::from(body),
        content_type: Some("application/json".to_owned()),
    };
    let items = vec![PushedItem { item, key: Some(summary.key()) }];
    Push { source, items, kept_headers: Vec::new(), forwarded_headers: Vec::new(), traceparent: None }
}

impl Summary {
    /// What is pushed after the last one about a user.
    fn after(last: Option<Self>, user: u32, chance: u64) -> Self {
        match (last, chance) {
            (None, _) => Self { user, day: 0, steps: 1 },
            (Some(last), 0) => last,
            (Some(last), 1) => Self { steps: last.steps + 1, ..last },
            (Some(last), _) => Self { day: last.day + 1, steps: 1, ..last },
        }
    }
}
