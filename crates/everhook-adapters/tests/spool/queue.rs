//! The events that wait.

use bytes::Bytes;
use everhook_core::ports::{IncomingEvent, KeyOrigin, Spool, SpooledEvent, Taken};

use super::*;

/// The oldest events of every application that has any.
async fn oldest(spool: &SqliteSpool, limit: u32) -> Vec<SpooledEvent> {
    spool.oldest(spool.applications(), limit).await.unwrap()
}

async fn waiting(spool: &SqliteSpool) -> Vec<IncomingEvent> {
    oldest(spool, 100).await.into_iter().map(|spooled| spooled.incoming).collect()
}

async fn positions(spool: &SqliteSpool) -> Vec<i64> {
    oldest(spool, 100).await.into_iter().map(|spooled| spooled.position).collect()
}

#[tokio::test]
async fn what_is_taken_is_read_back_in_order_and_byte_for_byte_also_after_a_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let mut events: Vec<IncomingEvent> = (0..3).map(|n| event(&format!("key-{n}"))).collect();
    events[1].event.data = Bytes::from(vec![b'7'; 200_000]);
    events[2] = IncomingEvent { key: KeyOrigin::Made, only: None, ..events[2].clone() };
    let spool = open(&folder);
    assert_eq!(spool.take(events[..2].to_vec()).await.unwrap(), [Taken::Taken; 2]);
    assert_eq!(spool.take(events[2..].to_vec()).await.unwrap(), [Taken::Taken]);
    assert_eq!(waiting(&spool).await, events);
    let status = spool.status();
    assert_eq!(status.events, 3);
    drop(spool);
    let spool = open(&folder);
    assert_eq!(waiting(&spool).await, events);
    assert_eq!(spool.status(), status);
}

#[tokio::test]
async fn what_was_forwarded_is_gone_and_what_was_not_keeps_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(&folder);
    let empty = spool.status();
    let events: Vec<IncomingEvent> = (0..3).map(|n| event(&format!("key-{n}"))).collect();
    spool.take(events.clone()).await.unwrap();
    let all = positions(&spool).await;
    spool.forwarded(vec![all[0], all[2]]).await.unwrap();
    // Again, as after an answer that was lost.
    spool.forwarded(vec![all[0]]).await.unwrap();
    assert_eq!((waiting(&spool).await, spool.status().events), (vec![events[1].clone()], 1));
    spool.forwarded(vec![all[1]]).await.unwrap();
    assert_eq!(spool.status(), empty);
    drop(spool);
    // A place is never given twice, also not after the last one was removed.
    let spool = open(&folder);
    spool.take(vec![event("key-4")]).await.unwrap();
    assert!(positions(&spool).await[0] > all[2]);
}

#[tokio::test]
async fn another_event_under_a_key_that_waits_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(&folder);
    let (mut first, mut other) = (event("order-1"), event("order-1"));
    first.event.data = Bytes::from(vec![b'7'; 20_000]);
    other.event.data = Bytes::from(vec![b'7'; 20_001]);
    let mut same = event("order-1");
    same.event.data = first.event.data.clone();
    let id = first.event.id;
    let taken = spool.take(vec![first, other, same]).await.unwrap();
    assert_eq!(taken, [Taken::Taken, Taken::KeyReused(id), Taken::Duplicate(id)]);
}

#[tokio::test]
async fn a_key_waits_once_in_its_application() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(&folder);
    let (first, twin) = (event("order-1"), event("order-1"));
    let mut elsewhere = event("order-1");
    elsewhere.event.application = ApplicationId::from_uuid(id());
    let id = first.event.id;
    assert_eq!(spool.take(vec![first, twin, elsewhere]).await.unwrap(), [Taken::Taken, Taken::Duplicate(id), Taken::Taken]);
    assert_eq!(spool.take(vec![event("order-1")]).await.unwrap(), [Taken::Duplicate(id)]);
    let before = spool.status();
    assert_eq!(before.events, 2);
    drop(spool);
    assert_eq!(open(&folder).status(), before, "a duplicate takes no room");
    // Once it is forwarded, the store knows the key.
    let spool = open(&folder);
    spool.forwarded(positions(&spool).await).await.unwrap();
    assert_eq!(spool.take(vec![event("order-1")]).await.unwrap(), [Taken::Taken]);
}

#[tokio::test]
async fn past_its_bound_nothing_is_taken_and_nothing_overtakes_what_was_refused() {
    let folder = tempfile::tempdir().unwrap();
    let spool = SqliteSpool::open(settings(&folder, 5_000)).unwrap();
    let mut large = event("large");
    large.event.data = Bytes::from((0..4_000_u32).flat_map(|n| (n.wrapping_mul(2_654_435_761) >> 8).to_le_bytes()).collect::<Vec<u8>>());
    let answers = spool.take(vec![event("one"), large, event("small")]).await.unwrap();
    assert_eq!(answers, [Taken::Taken, Taken::Full, Taken::Full]);
    assert!(spool.status().bytes <= 5_000 && spool.status().events == 1);
    // There is room for what fits, until it is used up.
    let mut taken = 1;
    while spool.take(vec![event(&format!("n-{taken}"))]).await.unwrap() == [Taken::Taken] {
        taken += 1;
        assert!(taken < 20);
    }
    assert!(!spool.status().has_room_for(1_000));
    // Forwarding makes room.
    spool.forwarded(vec![positions(&spool).await[0]]).await.unwrap();
    assert_eq!(spool.take(vec![event("again")]).await.unwrap(), [Taken::Taken]);
}

#[tokio::test]
async fn what_is_set_aside_is_kept_with_its_reason_and_in_nobodys_way() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(&folder);
    let events = vec![event("one"), event("two")];
    spool.take(events.clone()).await.unwrap();
    let bytes = spool.status().bytes;
    spool.set_aside(positions(&spool).await[0], "nobody wants it".to_owned(), NOW).await.unwrap();
    assert_eq!((waiting(&spool).await, spool.status().events, spool.status().bytes), (vec![events[1].clone()], 1, bytes));
    drop(spool);
    let file = rusqlite::Connection::open(folder.path().join("spool/spool.db")).unwrap();
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
    let kept = file.query_row("SELECT idempotency_key, reason FROM unforwarded", [], read).unwrap();
    assert_eq!(kept, ("one".to_owned(), "nobody wants it".to_owned()));
}

#[tokio::test]
async fn a_row_that_was_damaged_is_set_aside_and_those_behind_it_come_through() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(&folder);
    let events = vec![event("one"), event("two")];
    spool.take(events.clone()).await.unwrap();
    let file = rusqlite::Connection::open(folder.path().join("spool/spool.db")).unwrap();
    file.execute_batch("UPDATE spooled_events SET labels = 'none' WHERE idempotency_key = 'one'").unwrap();
    let [SpooledEvent { incoming, .. }] = &oldest(&spool, 100).await[..] else { panic!("one is left") };
    assert_eq!((incoming, spool.status().events), (&events[1], 1));
}

#[tokio::test]
async fn many_takers_at_once_are_all_there() {
    let folder = tempfile::tempdir().unwrap();
    let spool = std::sync::Arc::new(open(&folder));
    let taking: Vec<_> = (0..200)
        .map(|n| {
            let spool = spool.clone();
            tokio::spawn(async move { spool.take(vec![event(&format!("key-{n}"))]).await.unwrap() })
        })
        .collect();
    for taken in taking {
        assert_eq!(taken.await.unwrap(), [Taken::Taken]);
    }
    assert_eq!((spool.status().events, oldest(&spool, 500).await.len()), (200, 200));
}

/// An event of this application.
fn event_of(application: ApplicationId, key: &str) -> IncomingEvent {
    let mut incoming = event(key);
    incoming.event.application = application;
    incoming
}

#[tokio::test]
async fn each_application_is_read_by_itself_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(&folder);
    let [first, second, third] = [id(), id(), id()].map(ApplicationId::from_uuid);
    let events: Vec<IncomingEvent> =
        [(second, "a"), (first, "z"), (second, "b"), (first, "y"), (third, "c"), (first, "x")].map(|(of, key)| event_of(of, key)).into();
    spool.take(events).await.unwrap();
    let keys = async |of: &[ApplicationId], limit| {
        let read = spool.oldest(of.to_vec(), limit).await.unwrap();
        read.into_iter().map(|spooled| spooled.incoming.event.idempotency_key).collect::<Vec<_>>().join(" ")
    };
    // Whose, how many of each, and what comes: by the order in which they came, not by their keys.
    let table: [(&[ApplicationId], u32, &str); 5] = [
        (&[first], 10, "z y x"),
        (&[first, second, third], 10, "z y x a b c"),
        (&[second, first], 1, "a z"),
        (&[ApplicationId::from_uuid(id())], 10, ""),
        (&[], 10, ""),
    ];
    for (of, limit, expected) in table {
        assert_eq!(keys(of, limit).await, expected, "{of:?}, {limit}");
    }
}

#[tokio::test]
async fn it_knows_of_which_applications_events_wait_also_after_a_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(&folder);
    let [first, second, third] = [id(), id(), id()].map(ApplicationId::from_uuid);
    let events: Vec<IncomingEvent> = [(second, "a"), (first, "b"), (first, "c"), (third, "d")].map(|(of, key)| event_of(of, key)).into();
    spool.take(events).await.unwrap();
    assert_eq!(spool.applications(), [first, second, third]);
    let spool = {
        drop(spool);
        open(&folder)
    };
    assert_eq!((spool.applications(), spool.status().events), (vec![first, second, third], 4));
    // What is forwarded, and what is set aside, waits no longer.
    let place = async |of, n: usize| spool.oldest(vec![of], 10).await.unwrap()[n].position;
    spool.forwarded(vec![place(second, 0).await, place(first, 0).await]).await.unwrap();
    spool.set_aside(place(third, 0).await, "nobody wants it".to_owned(), NOW).await.unwrap();
    assert_eq!((spool.applications(), spool.status().events), (vec![first], 1));
    assert!(spool.any_waits(&|application| application == first));
    assert!(!spool.any_waits(&|application| application != first));
    spool.forwarded(vec![place(first, 0).await]).await.unwrap();
    assert_eq!((spool.applications(), spool.status().events), (vec![], 0));
    assert!(!spool.any_waits(&|_| true));
}

#[tokio::test]
async fn one_read_brings_a_bounded_number_of_bytes_however_many_applications_it_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(&folder);
    let applications: Vec<ApplicationId> = (0..4).map(|_| ApplicationId::from_uuid(id())).collect();
    for application in &applications {
        let mut large = event_of(*application, "large");
        // Noise, which does not become smaller when it is compressed.
        let noise = |n: u32| n.wrapping_mul(2_654_435_761).rotate_left(n % 31).wrapping_mul(2_246_822_519).to_le_bytes();
        large.event.data = Bytes::from((0..1_250_000_u32).flat_map(noise).collect::<Vec<u8>>());
        assert_eq!(spool.take(vec![large]).await.unwrap(), [Taken::Taken]);
    }
    let read = spool.oldest(applications, 10).await.unwrap();
    assert_eq!(read.len(), 3, "of four of 5 MB each, in 16 MiB");
}

#[tokio::test]
async fn what_is_sealed_is_nowhere_in_the_files_and_is_read_as_it_was() {
    const SECRET: &str = "a-very-private-thing";
    let folder = tempfile::tempdir().unwrap();
    let spool = open(&folder);
    let mut sealed = event("key-1");
    sealed.event.data = Bytes::from(format!("\"{SECRET}\""));
    sealed.event.received.as_mut().unwrap().headers = vec![("x-user".to_owned(), SECRET.to_owned())];
    sealed.event.sealed = true;
    assert_eq!(spool.take(vec![sealed.clone()]).await.unwrap(), [Taken::Taken]);
    // The same again is a duplicate: what was said is compared, not how it is kept.
    assert_eq!(spool.take(vec![sealed.clone()]).await.unwrap(), [Taken::Duplicate(sealed.event.id)]);
    let holds_secret = || {
        let files =
            std::fs::read_dir(settings(&folder, ROOMY).folder).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file());
        files.map(|path| std::fs::read(path).unwrap()).any(|bytes| bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()))
    };
    assert!(!holds_secret());
    drop(spool);
    assert_eq!(waiting(&open(&folder)).await, [sealed.clone()]);
    assert!(!holds_secret());
    let mut plain = event("key-2");
    plain.event.data = sealed.event.data;
    let spool = open(&folder);
    assert_eq!(spool.take(vec![plain]).await.unwrap(), [Taken::Taken]);
    assert!(holds_secret(), "the test can see it");
}

#[tokio::test]
async fn what_waits_and_what_was_set_aside_is_sealed_again_with_the_key_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let old = AesVault::from_key([7; 32]).key_id();
    let events: Vec<IncomingEvent> = (0..120)
        .map(|n| {
            let mut event = event(&format!("key-{n}"));
            event.event.sealed = n != 0;
            event
        })
        .collect();
    let spool = open(&folder);
    spool.take(events.clone()).await.unwrap();
    let position = positions(&spool).await[1];
    spool.set_aside(position, "for a test".to_owned(), NOW).await.unwrap();
    assert_eq!(spool.seal_keys().await.unwrap(), [old]);
    drop(spool);
    // Another process has both keys, and uses the new one.
    let vault = AesVault::from_key([9; 32]).with_old_key([7; 32]);
    let new = vault.key_id();
    let spool = SqliteSpool::open(settings(&folder, ROOMY)).unwrap();
    spool.seal_with(Arc::new(vault));
    let (mut after, mut steps) = (i64::MIN, 0);
    while let Some(next) = spool.reseal(after).await.unwrap() {
        (after, steps) = (next, steps + 1);
    }
    assert!(steps >= 3, "{steps} steps of fifty");
    assert_eq!(spool.seal_keys().await.unwrap(), [new]);
    assert_eq!(spool.reseal(i64::MIN).await.unwrap(), None, "the second time there is nothing to do");
    drop(spool);
    // The new key alone reads all of it.
    let spool = SqliteSpool::open(settings(&folder, ROOMY)).unwrap();
    spool.seal_with(Arc::new(AesVault::from_key([9; 32])));
    let mut read: Vec<String> = oldest(&spool, 500).await.into_iter().map(|spooled| spooled.incoming.event.idempotency_key).collect();
    let mut expected: Vec<String> = events.iter().map(|event| event.event.idempotency_key.clone()).collect();
    read.sort();
    expected.sort();
    assert_eq!(read, expected);
}
