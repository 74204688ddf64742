//! A shop that pushes signed requests to a source of an organization: each is verified as the door verifies it, and sent until it is taken. Its secret is
//! replaced again and again: for a while both are in force, then the new one alone. Now and then somebody uses a secret that is no longer in force.

use std::{fmt::Write as _, time::Duration};

use aws_lc_rs::hmac;
use bytes::Bytes;
use everhook_core::{
    ids::{OrganizationId, Ref, SourceId},
    inbound::{InboundRequest, Reading, dedupe_key},
    line::receive::{Push, PushedItem, receive},
    manage::{
        Change,
        sources::{self, DedupeInput, NewSource, SourceChange},
    },
    model::{Author, DedupeBy, OrderingMode, Secret},
    ports::Clock,
};

use super::{
    Simulation,
    log::{Happening, SignedAnswer},
    neighbors::Make,
    oracle::Violation,
    receivers::Character,
};

/// The type that its events have: a kind that names none has this one.
const RECEIVED: &str = "*";
/// Where its signature is.
const SIGNATURE: &str = "X-Signature";
/// How often everything is tried again that must succeed once everything is well.
const TRIES_MAX: u32 = 3;

/// The shop, and what it knows.
pub(super) struct Shop {
    organization: OrganizationId,
    source: SourceId,
    /// The secrets that were last said to be in force, by their number.
    in_force: Vec<u32>,
    /// Those that were asked for since, and whose change nobody acknowledged.
    wanted: Option<Vec<u32>>,
    pushes: u32,
    /// What was pushed and not taken.
    unanswered: Option<u32>,
}

impl Simulation {
    /// Makes the organization, its source and its endpoint. Nothing goes wrong yet.
    pub(super) async fn settle_shop(&mut self) {
        let receiving = self.settle_neighbor("Shop").await;
        let make = Make {
            event_type: RECEIVED,
            character: Character::any(&self.dice),
            max_concurrency: 3,
            timeout: Duration::from_secs(15),
            breaker: super::flow::some_breaker(&self.dice),
            ordering: OrderingMode::None,
        };
        self.settle_endpoint_of(receiving, make).await;
        let settings = SourceChange {
            name: Change::Set("shop".to_owned()),
            kind: Change::Set("hmac".to_owned()),
            header: Change::Set(SIGNATURE.to_owned()),
            secrets: Change::Set(vec![secret(0)]),
            dedupe: Change::Set(DedupeInput { by: Some("body".to_owned()), ..DedupeInput::default() }),
            ..SourceChange::default()
        };
        let by = Author::server(receiving.organization);
        let made = sources::create(self.world.line(), &by, NewSource { application: None, settings }).await.expect("the source is made");
        let (organization, source) = (receiving.organization, made.id);
        self.log.note(Happening::SecretsChanged(vec![0]));
        self.shop = Some(Shop { organization, source, in_force: vec![0], wanted: None, pushes: 0, unanswered: None });
    }

    /// Mostly pushes; now and then a secret is replaced, or somebody uses one that was.
    pub(super) async fn let_the_shop_act(&mut self) -> Result<(), Violation> {
        match self.dice.below(10) {
            0 => self.replace_the_secret().await,
            1 => self.push_with_a_former_secret().await,
            _ => self.push_signed().await,
        }
        if self.disk.is_off() { self.come_back().await } else { Ok(()) }
    }

    /// What was not taken is pushed again, and the secrets are those that were asked for.
    pub(super) async fn let_the_shop_finish(&mut self) -> Result<(), Violation> {
        for _ in 0..TRIES_MAX {
            if self.shop.as_ref().is_some_and(|shop| shop.wanted.is_some()) {
                self.replace_the_secret().await;
            }
            if self.shop.as_ref().is_some_and(|shop| shop.unanswered.is_some()) {
                self.push_signed().await;
            }
        }
        let is_done = self.shop.as_ref().is_none_or(|shop| shop.wanted.is_none() && shop.unanswered.is_none());
        let because = || "a push is not taken, or a secret is not replaced".to_owned();
        if is_done { Ok(()) } else { Err(Violation { rule: "when everything is well, providers are answered", because: because() }) }
    }

    /// The next step: a second secret, or the second one alone. One whose outcome nobody knows is tried again.
    async fn replace_the_secret(&mut self) {
        let Some(shop) = &mut self.shop else { return };
        let next = match (&shop.wanted, shop.in_force.as_slice()) {
            (Some(wanted), _) => wanted.clone(),
            (None, [only]) => vec![*only, only + 1],
            (None, several) => several.last().copied().into_iter().collect(),
        };
        shop.wanted = Some(next.clone());
        let (by, of) = (Author::server(shop.organization), Ref::Id(shop.source));
        self.log.note(Happening::SecretsChanging(next.clone()));
        let asked = SourceChange { secrets: Change::Set(next.iter().map(|number| secret(*number)).collect()), ..SourceChange::default() };
        if sources::change(self.world.line(), &by, &of, asked).await.is_ok() {
            self.log.note(Happening::SecretsChanged(next.clone()));
            if let Some(shop) = &mut self.shop {
                (shop.in_force, shop.wanted) = (next, None);
            }
        }
    }

    async fn push_signed(&mut self) {
        let chance = self.dice.below(2) as usize;
        let Some(shop) = &mut self.shop else { return };
        let secret = shop.in_force[chance.min(shop.in_force.len() - 1)];
        let push = shop.unanswered.unwrap_or(shop.pushes);
        shop.pushes = shop.pushes.max(push + 1);
        let answer = self.push_to_the_shop(push, secret).await;
        if let Some(shop) = &mut self.shop {
            shop.unanswered = (answer != SignedAnswer::Taken).then_some(push);
        }
    }

    /// Something that was never pushed, with a secret that was replaced, if one was.
    async fn push_with_a_former_secret(&mut self) {
        let Some(shop) = &self.shop else { return };
        let Some(former) = shop.in_force.first().and_then(|first| first.checked_sub(1)) else { return };
        self.push_to_the_shop(u32::MAX - shop.pushes, former).await;
    }

    /// As the door does: the source is looked up, the signature verified, and everything recorded before it is answered.
    async fn push_to_the_shop(&self, push: u32, signed_with: u32) -> SignedAnswer {
        self.log.note(Happening::SignedPushing(push, signed_with));
        let body = Bytes::from(format!(r#"{{"order":{push}}}"#));
        let signature = sign(signed_with, &body);
        let request = InboundRequest {
            method: "POST",
            url: "https://hooks.example/in/shop",
            query: "",
            path_type: None,
            headers: &[("content-type", b"application/json"), (SIGNATURE, signature.as_bytes())],
            body: &body,
            awaiting_handshake: false,
        };
        let answer = self.receive_signed(&request).await;
        self.log.note(Happening::SignedAnswered(push, answer));
        answer
    }

    async fn receive_signed(&self, request: &InboundRequest<'_>) -> SignedAnswer {
        let Some(shop) = &self.shop else { return SignedAnswer::Failed };
        let line = self.world.line().clone();
        let Ok(Some(open)) = line.sources.lookup(&shop.source.to_string()).await else { return SignedAnswer::Failed };
        let accepted = match open.verifier.read(request, self.world.clock.now()) {
            Reading::Accepted(accepted) => accepted,
            Reading::Refused(_) => return SignedAnswer::Refused,
            Reading::Handshake(_) | Reading::NeedsKey(_) => return SignedAnswer::Failed,
        };
        let keyed = |(index, item)| PushedItem { key: dedupe_key(&DedupeBy::Body, request, &item, index), item };
        let items = accepted.items.into_iter().enumerate().map(keyed).collect();
        let push = Push { source: &open.source, items, kept_headers: Vec::new(), forwarded_headers: Vec::new(), traceparent: None };
        if receive(&line, push).await.is_ok() { SignedAnswer::Taken } else { SignedAnswer::Failed }
    }
}

/// What an event's idempotency key ends in that came of this push: the hash of its body.
pub(super) fn key_of(push: u32) -> String {
    let body = format!(r#"{{"order":{push}}}"#);
    hex(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, body.as_bytes()).as_ref())
}

fn secret(number: u32) -> Secret<String> {
    Secret::new(secret_text(number))
}

fn secret_text(number: u32) -> String {
    format!("the shop's secret number {number}")
}

fn sign(number: u32, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret_text(number).as_bytes());
    hex(hmac::sign(&key, body).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
