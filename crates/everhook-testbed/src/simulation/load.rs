//! Publishers: single events, batches and bursts, with and without keys; who is not answered tries again.

use bytes::Bytes;
use everhook_core::{
    line::publish::{Acceptance, Publication, PublishError, publish},
    model::{ContentType, EventType, Fingerprint, Priority},
    policy::matching,
};

use super::{
    Simulation,
    flow::some_ordering_key,
    log::{Answered, EndpointNo, Happening, PublicationNo, Publishing},
    oracle::Violation,
    settings::EndpointStatus,
};

const TYPES: [&str; 4] = ["order.paid", "order.shipped", "user.created", "invoice.sent"];

/// How many keyed events are remembered to be published again.
const RECENT_MAX: usize = 30;

/// Something that a publisher tried to publish.
#[derive(Clone)]
pub(super) struct Attempted {
    pub(super) application: usize,
    pub(super) publication: Publication,
}

impl Simulation {
    /// One event, a batch, or a burst; now and then together with what was not accepted before.
    pub(super) async fn publish_some(&mut self) -> Result<(), Violation> {
        let count = match self.dice.below(20) {
            0..13 => 1,
            13..18 => 1 + self.dice.below(5),
            _ => 1 + self.dice.below(25),
        };
        let mut batch: Vec<Attempted> = (0..count).map(|_| self.something()).collect();
        if self.dice.below(2) == 0 {
            batch.append(&mut self.unanswered);
        }
        self.publish(batch).await;
        if self.disk.is_off() { self.come_back().await } else { Ok(()) }
    }

    /// Publishes a batch, and remembers what was not accepted. Says what was answered.
    pub(super) async fn publish(&mut self, batch: Vec<Attempted>) -> Vec<Answered> {
        let first = self.publications;
        self.publications += batch.len();
        for (number, attempted) in (first..).zip(&batch) {
            self.log.note(Happening::Publishing(Box::new(self.asked(PublicationNo(number), attempted))));
        }
        let publications = batch.iter().map(|attempted| attempted.publication.clone()).collect();
        let answers = publish(self.world.line(), publications).await;
        let mut answered = Vec::with_capacity(answers.len());
        for ((number, attempted), answer) in (first..).zip(batch).zip(answers) {
            let answer = match answer {
                Ok(Acceptance::Recorded(published)) if published.duplicate => Answered::Duplicate(published.event),
                Ok(Acceptance::Recorded(published)) => Answered::Accepted(published.event, published.deliveries),
                Err(PublishError::KeyReused(reused)) => Answered::KeyReused(reused.original),
                // A simulated life has no spool.
                Ok(Acceptance::Spooled(_)) | Err(_) => Answered::NotAccepted,
            };
            self.log.note(Happening::Answered(PublicationNo(number), answer));
            answered.push(answer);
            if attempted.publication.idempotency_key.is_some() {
                self.remember(attempted, answer);
            }
        }
        answered
    }

    fn remember(&mut self, attempted: Attempted, answer: Answered) {
        match answer {
            Answered::NotAccepted => return self.unanswered.push(attempted),
            Answered::KeyReused(_) => return,
            Answered::Accepted(..) | Answered::Duplicate(_) => {}
        }
        self.recent.push_back(attempted);
        if self.recent.len() > RECENT_MAX {
            self.recent.pop_front();
        }
    }

    /// Mostly something new; now and then something that was published before, under the same key, or something else under that key.
    fn something(&self) -> Attempted {
        if !self.recent.is_empty() && self.dice.below(7) == 0 {
            let chosen = self.dice.below(self.recent.len() as u64) as usize;
            let mut again = self.recent[chosen].clone();
            if chosen % 5 == 4 {
                again.publication.data = Bytes::from_static(b"{\"something\":\"else\"}");
            }
            return again;
        }
        let application = self.dice.below(self.applications.len() as u64) as usize;
        let (tenant, id) = self.applications[application];
        let key = (self.dice.below(4) != 0).then(|| format!("key-{:016x}", self.dice.below(u64::MAX)));
        let filler = "x".repeat(self.dice.below(if self.dice.below(20) == 0 { 20_000 } else { 200 }) as usize);
        let publication = Publication {
            organization: self.tenants[tenant],
            application: id,
            event_type: EventType::parse(TYPES[self.dice.below(TYPES.len() as u64) as usize]).expect("a well-formed type"),
            data: Bytes::from(format!("{{\"filler\":\"{filler}\"}}")),
            content_type: ContentType::JSON,
            idempotency_key: key,
            idempotency_window: None,
            source: None,
            priority: Priority::ALL[self.dice.below(3) as usize],
            ordering_key: (self.dice.below(3) != 0).then(|| some_ordering_key(&self.dice)),
            timestamp: None,
            traceparent: None,
            only: None,
            received: None,
            // Half of them, chosen without a throw of the dice.
            sealed: filler.len().is_multiple_of(2),
            parked: None,
            labels: everhook_core::policy::labels::Labels::new(),
            headers: Vec::new(),
        };
        Attempted { application, publication }
    }

    /// What the publisher asks for, and who must get it as things stand.
    fn asked(&self, publication: PublicationNo, attempted: &Attempted) -> Publishing {
        let wanted = &attempted.publication;
        let gets = |number: &EndpointNo| {
            let facts = &self.endpoints[number.0];
            facts.application == wanted.application
                && matching::wants(&facts.patterns, &wanted.event_type)
                && self.settings[number.0].status == EndpointStatus::Open
        };
        let all = (0..self.endpoints.len()).map(EndpointNo).filter(gets);
        // Whether one that said it is gone is disabled, only the store knows.
        let (perhaps_by, wanted_by) = all.partition(|number| self.receivers.has_said_gone(*number));
        Publishing {
            publication,
            application: attempted.application,
            event_type: wanted.event_type.to_string(),
            key: wanted.idempotency_key.clone(),
            ordering_key: wanted.ordering_key.as_ref().map(ToString::to_string),
            fingerprint: Fingerprint::of(&wanted.event_type, &wanted.data),
            wanted_by,
            perhaps_by,
        }
    }
}
