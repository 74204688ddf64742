//! Sealing everything with another key, step by step.

use std::sync::Arc;

use bytes::Bytes;
use everhook_adapters::{sealed_endpoints::SealedEndpoints, vault::AesVault};
use everhook_core::{
    ids::{ApprovalId, EventId, LaneId, Ref, RevisionNumber, SourceId},
    model::{
        Actor, ApprovalDecision, ApprovalEnd, CacheKey, CachedAnswer, Channel, Endpoint, Event, JobAnswer, JobOutcome, SealKeyId,
        SealedKind, SealedPlace, SealedSecret, SealedSecrets, Sealing, Secret, Source,
        health::{Connection, MetricDraft, Tokens},
    },
    ports::{
        Decided, EndpointStore, EventStore, JobAnswered, MetricFilter, PassEnd, RESEAL_BYTES, Resealed, RotationBegun, SecretsChange, Vault,
    },
    processors::tokens,
};

use super::{
    approvals::{alert, approval},
    channels::{service_channel, set_credentials},
    directory::ALL,
    given::{Given, NOW, after, endpoint, entry, id as new_id},
    health::draft_of_day,
    sources::source,
    store::{Backing as _, Store},
};

const OLD: [u8; 32] = [7; 32];
const NEW: [u8; 32] = [9; 32];

fn both() -> Arc<AesVault> {
    let vault = AesVault::from_key(NEW).with_old_key(OLD);
    assert!(vault.seal_with_key(AesVault::from_key(OLD).key_id()));
    Arc::new(vault)
}

/// Something sealed of every kind.
struct Sealed {
    given: Given,
    endpoint: Endpoint,
    source: Source,
    channel: Channel,
    connection: Connection,
    metrics: Vec<MetricDraft>,
    answers: Vec<CacheKey>,
    job: EventId,
    approvals: [ApprovalId; 2],
    events: Vec<Event>,
}

/// How many cached answers there are: more than a step looks at, and most of them of one instant.
const ANSWERS: u8 = 120;
/// How many metrics: what they are made of is more than a step reads.
const METRICS: i64 = 8;
/// What the first pass finds: an endpoint and its revision, a source, a channel, an application's secrets, a connection, the answers, a job, two approvals,
/// the metrics, four events.
const SEALED_ROWS: u64 = 2 + 1 + 1 + 1 + 1 + 1 + 2 + ANSWERS as u64 + METRICS as u64 + 4;

impl Sealed {
    async fn new() -> Self {
        let vault = Arc::new(AesVault::from_key(OLD));
        let given = reopened(Given::new().await, vault.clone()).await;
        let mut endpoint = endpoint(given.organization, given.application);
        let seal = |text: &[u8]| vault.seal(endpoint.id.as_uuid(), text);
        endpoint.secrets = SealedSecrets { current: seal(b"current"), previous: Some((seal(b"previous"), after(60))) };
        endpoint.headers = vec![("Authorization".to_owned(), "Bearer token".to_owned())];
        endpoints(&given, &vault).create_endpoint(endpoint.clone(), entry()).await.unwrap();
        let mut source = source(given.organization, given.application, "partner");
        let seal = |text: &[u8]| vault.seal(source.id.as_uuid(), text);
        (source.secrets, source.verify_token) = (vec![seal(b"newest"), seal(b"older")], Some(seal(b"token")));
        given.store.create_source(source.clone(), 10, entry()).await.unwrap();
        let mut channel = service_channel("ops");
        let sealed = vault.seal(channel.id.as_uuid(), b"https://example.com/secret");
        set_credentials(&mut channel, sealed);
        given.store.create_channel(given.organization, channel.clone(), 10, entry()).await.unwrap();
        let (connection, metrics) = seal_health(&given, &vault).await;
        let seal = |text: &[u8]| vault.seal(given.application.as_uuid(), text);
        let secrets = SealedSecrets { current: seal(b"signs"), previous: Some((seal(b"signed"), after(60))) };
        let change = SecretsChange { organization: given.organization, application: given.application, read: None, secrets };
        assert!(given.store.put_application_secrets(change, entry()).await.unwrap());
        let answers = keep_answers(&given, &vault, LaneId::from_uuid(new_id())).await;
        let job = answer_job(&given, &vault).await;
        let approvals = request_approvals(&given, &vault).await;
        let mut events = Vec::new();
        // The second alone is more than a step, the others fit one.
        for bytes in [10, RESEAL_BYTES as usize + 1, 50_000, 3] {
            let mut new = given.received_event(SourceId::from_uuid(*source.id.as_uuid()), "user").await;
            (new.event.data, new.event.sealed) = (format!("\"{}\"", noise(bytes)).into(), true);
            let mut event = new.event.clone();
            event.sequence_number = given.record(new).await;
            events.push(event);
            given.published().await;
        }
        Self { given, endpoint, source, channel, connection, metrics, answers, job, approvals, events }
    }

    async fn reopened(self, vault: Arc<AesVault>) -> Self {
        Self { given: reopened(self.given, vault).await, ..self }
    }

    fn store(&self) -> &dyn Store {
        &*self.given.store
    }

    async fn sealing(&self) -> Sealing {
        self.store().sealing().await.unwrap().unwrap()
    }

    async fn place(&self) -> SealedPlace {
        self.sealing().await.rotation.unwrap().place
    }

    /// Goes on with a pass until its end; says how many steps that took and how many rows were sealed again.
    async fn pass(&self) -> (u32, u64) {
        let (mut place, mut steps, mut resealed) = (self.place().await, 0, 0);
        loop {
            let step = self.store().reseal(place).await.unwrap().expect("the rotation stands there");
            (steps, resealed) = (steps + 1, resealed + step.resealed);
            match step.next {
                Some(next) => place = next,
                None => return (steps, resealed),
            }
        }
    }

    /// Everything is as it was, for who has these keys.
    async fn expect_readable(&self, vault: &Arc<AesVault>) {
        let organization = self.given.organization;
        let channel = self.store().channels(organization).await.unwrap().remove(0);
        let opened = vault.open(self.channel.id.as_uuid(), &channel.service().unwrap().credentials).unwrap();
        assert_eq!(opened, b"https://example.com/secret");
        let endpoints = endpoints(&self.given, vault);
        let endpoint = endpoints.endpoint(organization, &Ref::Id(self.endpoint.id)).await.unwrap().unwrap();
        let revision = endpoints.revision(organization, self.endpoint.id, RevisionNumber::FIRST).await.unwrap().unwrap();
        assert_eq!((&endpoint.headers, &revision.headers), (&self.endpoint.headers, &self.endpoint.headers));
        let open = |sealed: &SealedSecret| vault.open(self.endpoint.id.as_uuid(), sealed).unwrap();
        for secrets in [&endpoint.secrets, &revision.secrets] {
            assert_eq!((open(&secrets.current), open(&secrets.previous.as_ref().unwrap().0)), (b"current".to_vec(), b"previous".to_vec()));
        }
        let source = self.store().source_by_id(self.source.id).await.unwrap().unwrap();
        let open = |sealed: &SealedSecret| vault.open(self.source.id.as_uuid(), sealed).unwrap();
        assert_eq!(source.secrets.iter().map(open).collect::<Vec<_>>(), [b"newest".to_vec(), b"older".to_vec()]);
        assert_eq!(source.verify_token.as_ref().map(open), Some(b"token".to_vec()));
        let secrets = self.store().application_secrets(self.given.application).await.unwrap().unwrap();
        let open = |sealed: &SealedSecret| vault.open(self.given.application.as_uuid(), sealed).unwrap();
        assert_eq!((open(&secrets.current), open(&secrets.previous.as_ref().unwrap().0)), (b"signs".to_vec(), b"signed".to_vec()));
        let connection = self.store().connection(organization, self.connection.id).await.unwrap().unwrap();
        let opened = tokens::open(&**vault, &self.given.health_user("u1"), connection.tokens.as_ref().unwrap()).unwrap();
        assert_eq!((opened.access.expose().as_str(), opened.refresh.unwrap().expose().as_str()), ("access", "refresh"));
        let metrics = self.store().metrics(organization, MetricFilter::default(), ALL).await.unwrap().rows;
        let raw: Vec<_> = metrics.into_iter().rev().map(|metric| metric.measured.raw).collect();
        assert_eq!(raw, self.metrics.iter().map(|draft| draft.raw.clone()).collect::<Vec<_>>());
        let job = self.store().job(self.job).await.unwrap().unwrap();
        let said = SealedSecret(job.answer.unwrap().data.to_vec());
        assert_eq!(vault.open(job.lane_id.as_uuid(), &said).unwrap(), b"result");
        for (id, expected) in self.approvals.into_iter().zip([(Some(b"call".to_vec()), None), (None, Some(b"answer".to_vec()))]) {
            let found = self.store().approval(organization, id).await.unwrap().unwrap();
            let data = found.decision.and_then(|decision| match decision.end {
                ApprovalEnd::Answered { data } => data,
                _ => None,
            });
            let open = |sealed: Bytes| vault.open(found.lane_id.as_uuid(), &SealedSecret(sealed.to_vec())).unwrap();
            assert_eq!((found.call.map(open), data.map(open)), expected);
        }
        for event in &self.events {
            assert_eq!(EventStore::event(self.store(), event.id).await.unwrap().as_ref(), Some(event));
        }
    }

    /// How many of the answers are there. Each opens with these keys.
    async fn answers(&self, vault: &Arc<AesVault>) -> usize {
        let mut found = 0;
        for key in &self.answers {
            let Some(answer) = self.store().cached_answer(*key).await.unwrap() else { continue };
            let sealed = SealedSecret(answer.data.to_vec());
            assert_eq!(vault.open(key.lane_id.as_uuid(), &sealed).unwrap(), b"answer");
            found += 1;
        }
        found
    }
}

/// A connection with tokens, and metrics with what they were made of.
async fn seal_health(given: &Given, vault: &Arc<AesVault>) -> (Connection, Vec<MetricDraft>) {
    let secret = |text: &str| Secret::new(text.to_owned());
    let plain = Tokens { access: secret("access"), refresh: Some(secret("refresh")), expires_at: Some(after(60)) };
    let mut connection = given.new_connection("u1", "p1");
    connection.tokens = Some(tokens::seal(&**vault, &given.health_user("u1"), &plain));
    let connection = given.connect(&connection).await;
    let raw = |day: i64| Bytes::from(format!("\"{day}{}\"", noise(250_000)));
    let metrics: Vec<_> = (0..METRICS).map(|day| MetricDraft { raw: Some(raw(day)), ..draft_of_day(day) }).collect();
    given.write_metrics(&[&connection], metrics.clone(), NOW).await.unwrap();
    (connection, metrics)
}

/// Answers of one lane, all but the first kept at the same instant.
async fn keep_answers(given: &Given, vault: &Arc<AesVault>, lane_id: LaneId) -> Vec<CacheKey> {
    let answer = |n: u8| {
        let SealedSecret(data) = vault.seal(lane_id.as_uuid(), b"answer");
        let stored_at = after(u64::from(n.min(1)));
        CachedAnswer { key: CacheKey { lane_id, hash: [n; 32] }, data: data.into(), stored_at, expires_at: after(900) }
    };
    let answers: Vec<_> = (0..ANSWERS).map(answer).collect();
    let keys = answers.iter().map(|answer| answer.key).collect();
    given.store.keep_answers(answers).await.unwrap();
    keys
}

/// A job whose app has answered, and one whose app has not.
async fn answer_job(given: &Given, vault: &Arc<AesVault>) -> EventId {
    let (_, other) = given.begun_job().await;
    let (job, delivery) = given.begun_job().await;
    assert_ne!(delivery, other);
    let SealedSecret(data) = vault.seal(LaneId::from(given.endpoint).as_uuid(), b"result");
    let answer = JobAnswer { outcome: JobOutcome::Completed, data: data.into(), hash: [1; 32], at: NOW, found_by: None };
    assert_eq!(given.store.answer_job(job, delivery, answer).await.unwrap(), JobAnswered::Kept);
    job
}

/// A call that waits for a person, and one that a person answered.
async fn request_approvals(given: &Given, vault: &Arc<AesVault>) -> [ApprovalId; 2] {
    let mut ids = Vec::new();
    for _ in 0..2 {
        let mut made = approval(given.organization, given.application, 60);
        let SealedSecret(call) = vault.seal(made.lane_id.as_uuid(), b"call");
        made.call = Some(call.into());
        given.store.request_approval(made.clone(), 10, alert(given.organization)).await.unwrap();
        ids.push(made.id);
        if ids.len() == 2 {
            let SealedSecret(data) = vault.seal(made.lane_id.as_uuid(), b"answer");
            let end = ApprovalEnd::Answered { data: Some(data.into()) };
            let decision = ApprovalDecision { end, by: Actor::Server, reason: None, at: NOW, unpublished: None };
            let decided = given.store.decide_approval(given.organization, made.id, decision, entry()).await.unwrap();
            assert_eq!(decided, Decided::Decided);
        }
    }
    [ids[0], ids[1]]
}

async fn reopened(given: Given, vault: Arc<AesVault>) -> Given {
    let Given { store, organization, application, endpoint, backing } = given;
    drop(store);
    Given { store: backing.open_sealed(vault).await, organization, application, endpoint, backing }
}

fn endpoints(given: &Given, vault: &Arc<AesVault>) -> SealedEndpoints {
    SealedEndpoints::new(given.store.clone(), given.store.clone(), vault.clone())
}

/// Text that does not become smaller.
fn noise(bytes: usize) -> String {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[(state >> 58) as usize])
    };
    (0..bytes).map(|_| letter()).collect()
}

fn id(key: [u8; 32]) -> SealKeyId {
    AesVault::from_key(key).key_id()
}

#[tokio::test]
async fn everything_is_sealed_with_the_new_key_in_small_steps_and_opens_with_it_alone() {
    let vault = both();
    let sealed = Sealed::new().await.reopened(vault.clone()).await;
    assert_eq!(sealed.sealing().await, Sealing { key: id(OLD), rotation: None, ended_at: None });
    assert_eq!(sealed.store().reseal(SealedPlace::FIRST).await.unwrap(), None, "there is no rotation");
    assert_eq!(sealed.store().begin_rotation(id(OLD), NOW).await.unwrap(), RotationBegun::NotNow, "it is in use");
    assert_eq!(sealed.store().begin_rotation(id(NEW), NOW).await.unwrap(), RotationBegun::Begun);
    assert_eq!(sealed.store().begin_rotation(id([1; 32]), NOW).await.unwrap(), RotationBegun::NotNow, "one is under way");
    assert!(vault.seal_with_key(id(NEW)));
    sealed.store().note_seals_with(id(NEW)).await.unwrap();
    assert_eq!(sealed.store().sealing_otherwise(id(NEW)).await.unwrap(), [""; 0]);
    let rotation = sealed.sealing().await.rotation.unwrap();
    assert_eq!((rotation.from, rotation.pass, rotation.place, rotation.began_at), (id(OLD), 1, SealedPlace::FIRST, NOW));
    assert_eq!(sealed.answers(&vault).await, usize::from(ANSWERS));
    // The first pass finds everything once. What the suite itself made is not sealed: it is left alone.
    let (steps, resealed) = sealed.pass().await;
    assert_eq!(resealed, SEALED_ROWS);
    assert!(steps >= 8 + 3, "a large event has a step to itself: {steps}");
    // Answers are not sealed again but removed, those of one instant together. One that is kept now stays.
    assert_eq!(sealed.answers(&vault).await, 0);
    let kept = keep_answers(&sealed.given, &vault, sealed.answers[0].lane_id).await;
    assert_eq!(kept, sealed.answers);
    let rotation = sealed.sealing().await.rotation.unwrap();
    assert_eq!((rotation.resealed, rotation.resealed_in_pass, rotation.place.kind), (SEALED_ROWS, SEALED_ROWS, SealedKind::Payloads));
    assert!(rotation.looked_at >= 8 + 3 && rotation.unreadable > 0, "{rotation:?}");
    sealed.expect_readable(&vault).await;
    // A pass that found something does not end the rotation, whatever is said; nor does the end of another pass.
    sealed.store().end_pass(1, PassEnd::Finished(after(1))).await.unwrap();
    sealed.store().end_pass(2, PassEnd::Again(after(2))).await.unwrap();
    assert_eq!(sealed.sealing().await.rotation.unwrap().pass, 1);
    sealed.store().end_pass(1, PassEnd::Again(after(3))).await.unwrap();
    let rotation = sealed.sealing().await.rotation.unwrap();
    assert_eq!((rotation.pass, rotation.place, rotation.resealed_in_pass, rotation.not_before), (2, SealedPlace::FIRST, 0, after(3)));
    // The second one finds nothing.
    assert_eq!(sealed.pass().await.1, 0);
    sealed.store().end_pass(2, PassEnd::Finished(after(4))).await.unwrap();
    assert_eq!(sealed.sealing().await, Sealing { key: id(NEW), rotation: None, ended_at: Some(after(4)) });
    let alone = Arc::new(AesVault::from_key(NEW));
    let sealed = sealed.reopened(alone.clone()).await;
    sealed.expect_readable(&alone).await;
    assert_eq!(sealed.answers(&alone).await, usize::from(ANSWERS));
}

#[tokio::test]
async fn a_rotation_goes_on_where_it_stopped_and_only_from_there() {
    let vault = both();
    let sealed = Sealed::new().await.reopened(vault.clone()).await;
    sealed.store().begin_rotation(id(NEW), NOW).await.unwrap();
    assert!(vault.seal_with_key(id(NEW)));
    let Resealed { next, .. } = sealed.store().reseal(SealedPlace::FIRST).await.unwrap().unwrap();
    let next = next.unwrap();
    assert_eq!(sealed.place().await, next);
    // Somebody who is late does nothing.
    assert_eq!(sealed.store().reseal(SealedPlace::FIRST).await.unwrap(), None);
    // Nor does anybody while it is cancelled.
    let cancelled = sealed.store().set_rotation_cancelled(true, entry()).await.unwrap().unwrap();
    assert!(cancelled.rotation.unwrap().is_cancelled);
    assert_eq!(sealed.store().set_rotation_cancelled(true, entry()).await.unwrap(), None);
    assert_eq!(sealed.store().reseal(next).await.unwrap(), None);
    // Another process goes on; both keys open what is there meanwhile.
    let vault = both();
    assert!(vault.seal_with_key(id(NEW)));
    let sealed = sealed.reopened(vault.clone()).await;
    sealed.expect_readable(&vault).await;
    assert!(sealed.store().set_rotation_cancelled(false, entry()).await.unwrap().is_some());
    assert_eq!(sealed.place().await, next);
    sealed.pass().await;
    // And back to the first key.
    assert_eq!(sealed.store().begin_rotation(id(OLD), after(9)).await.unwrap(), RotationBegun::Begun);
    assert!(vault.seal_with_key(id(OLD)));
    assert_eq!(sealed.pass().await.1, SEALED_ROWS - u64::from(ANSWERS));
    let old = Arc::new(AesVault::from_key(OLD));
    sealed.reopened(old.clone()).await.expect_readable(&old).await;
}

#[tokio::test]
async fn what_was_erased_or_changed_meanwhile_stays_so() {
    let vault = both();
    let sealed = Sealed::new().await.reopened(vault.clone()).await;
    let erased: EventId = sealed.events[0].id;
    sealed.given.erase(erased).await;
    sealed.store().begin_rotation(id(NEW), NOW).await.unwrap();
    assert!(vault.seal_with_key(id(NEW)));
    assert_eq!(sealed.pass().await.1, SEALED_ROWS - 1);
    assert_eq!(EventStore::event(sealed.store(), erased).await.unwrap(), None);
}
