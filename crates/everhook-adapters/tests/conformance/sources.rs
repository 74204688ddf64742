//! Sources, and what happened at them last.

use std::time::Duration;

use everhook_core::{
    ids::{ApplicationId, OrganizationId, Ref, SourceId, Uid},
    model::{
        AuditEntry, Dedupe, DedupeBy, PauseMode, RecipeTexts, SealedSecret, Source, SourceActivity, SourceName, SourcePause,
        SourceRateLimit, SourceResponse,
    },
    ports::{AuditFilter, Created, Updated},
};

use super::{
    directory::ALL,
    given::{Given, NOW, after, deletion, entry, id, organization},
};

/// A source that says as little as it may.
pub fn source(organization: OrganizationId, application: ApplicationId, name: &str) -> Source {
    Source {
        id: SourceId::from_uuid(id()),
        organization,
        application,
        name: SourceName::parse(name).unwrap(),
        kind: "github".to_owned(),
        recipe: RecipeTexts::new(),
        secrets: Vec::new(),
        verify_token: None,
        subscription_id: None,
        app_id: None,
        audience: None,
        public_url: None,
        tolerance: None,
        ip_allowlist: Vec::new(),
        rate_limit: SourceRateLimit::default(),
        dedupe: None,
        forward: true,
        processor: None,
        forward_headers: Vec::new(),
        keep_headers: Vec::new(),
        response: None,
        paused: None,
        awaiting_handshake_until: None,
        created_at: NOW,
        updated_at: NOW,
    }
}

/// A source with something in every field.
pub fn full_source(organization: OrganizationId, application: ApplicationId, name: &str) -> Source {
    Source {
        kind: "custom".to_owned(),
        recipe: [("mac", "sha256 hex"), ("over", "{ts}.\"ü\"{body}")].map(|(name, text)| (name.to_owned(), text.to_owned())).into(),
        secrets: vec![SealedSecret(vec![0, 255, 1]), SealedSecret(vec![7; 60])],
        verify_token: Some(SealedSecret(vec![9, 0])),
        subscription_id: Some("120475".to_owned()),
        app_id: Some("WH-1".to_owned()),
        audience: Some("https://shop.example/\"a\"".to_owned()),
        public_url: Some("https://hooks.example/in/x?y=1".to_owned()),
        tolerance: Some(Duration::from_millis(300_500)),
        ip_allowlist: ["192.0.2.0/24", "2001:db8::/32"].map(|network| network.parse().unwrap()).to_vec(),
        rate_limit: SourceRateLimit { per_ip_per_minute: 7, per_user_per_minute: Some(3) },
        dedupe: Some(Dedupe { by: DedupeBy::Pointer("/data/~0id".to_owned()), window: Duration::from_secs(86_400) }),
        forward: false,
        processor: None,
        forward_headers: vec!["x-a".to_owned()],
        keep_headers: vec!["x-b".to_owned(), "x-c".to_owned()],
        response: Some(SourceResponse { status: 202, content_type: Some("text/plain".to_owned()), body: "[\"ok\"]\n".to_owned() }),
        paused: Some(SourcePause { at: after(3), mode: PauseMode::Refuse }),
        awaiting_handshake_until: Some(after(600)),
        ..source(organization, application, name)
    }
}

fn named(name: &str) -> Ref<SourceId> {
    Ref::Uid(Uid::parse(name).unwrap())
}

impl Given {
    async fn make_source(&self, source: &Source) {
        assert_eq!(self.store.create_source(source.clone(), 100, entry()).await.unwrap(), Created::Created);
    }

    async fn source_of(&self, source: &Source) -> Option<Source> {
        self.store.source(source.organization, &Ref::Id(source.id)).await.unwrap()
    }

    async fn activity_of(&self, id: SourceId) -> Option<SourceActivity> {
        self.store.source_activity(vec![id]).await.unwrap().pop().map(|(found, activity)| {
            assert_eq!(found, id);
            activity
        })
    }
}

#[tokio::test]
async fn a_source_is_found_by_its_id_and_its_name_as_it_was_written_and_after_a_restart() {
    let given = Given::new().await;
    let (bare, full) = (source(given.organization, given.application, "bare"), full_source(given.organization, given.application, "full"));
    given.make_source(&bare).await;
    given.make_source(&full).await;
    let others: Vec<Source> = [DedupeBy::Id, DedupeBy::Header("x-id".to_owned()), DedupeBy::Body]
        .into_iter()
        .map(|by| {
            let name = format!("by-{}", by.as_str());
            let dedupe = Some(Dedupe { by, window: Duration::from_secs(1) });
            Source { dedupe, ..source(given.organization, given.application, &name) }
        })
        .collect();
    for other in &others {
        given.make_source(other).await;
    }
    let given = given.reopened().await;
    for source in [bare, full].iter().chain(&others) {
        assert_eq!(given.source_of(source).await.as_ref(), Some(source));
        assert_eq!(given.store.source(given.organization, &named(source.name.as_str())).await.unwrap().as_ref(), Some(source));
        assert_eq!(given.store.source_by_id(source.id).await.unwrap().as_ref(), Some(source));
    }
}

#[tokio::test]
async fn another_organization_finds_none_and_may_use_the_same_name() {
    let given = Given::new().await;
    let new = organization();
    given.store.create_organization(new.clone(), entry()).await.unwrap();
    let (own, other) = (source(given.organization, given.application, "shop"), source(new.organization.id, new.default.id, "shop"));
    given.make_source(&own).await;
    given.make_source(&other).await;
    assert_eq!(given.store.source(new.organization.id, &Ref::Id(own.id)).await.unwrap(), None);
    assert_eq!(given.store.source(new.organization.id, &named("shop")).await.unwrap(), Some(other.clone()));
    assert_eq!(given.store.sources(new.organization.id, None, ALL).await.unwrap().rows, [other]);
    assert!(!given.store.delete_source(new.organization.id, own.id, entry()).await.unwrap());
    let stolen = Source { organization: new.organization.id, name: SourceName::parse("stolen").unwrap(), ..own.clone() };
    assert_eq!(given.store.update_source(stolen, NOW, entry()).await.unwrap(), Updated::Changed);
    assert_eq!(given.source_of(&own).await, Some(own));
}

#[tokio::test]
async fn a_source_is_not_made_with_a_taken_name_without_its_application_or_past_the_limit() {
    let given = Given::new().await;
    let first = source(given.organization, given.application, "a");
    given.make_source(&first).await;
    let create = async |source: Source, count_max| given.store.create_source(source, count_max, entry()).await.unwrap();
    assert_eq!(create(source(given.organization, given.application, "a"), 100).await, Created::NameTaken);
    assert_eq!(create(source(given.organization, given.application, "b"), 1).await, Created::TooMany);
    let nowhere = ApplicationId::from_uuid(id());
    assert_eq!(create(source(given.organization, nowhere, "b"), 100).await, Created::NoSuchApplication);
    assert_eq!(given.store.sources(given.organization, None, ALL).await.unwrap().rows, [first]);
}

#[tokio::test]
async fn a_change_replaces_a_source_unless_somebody_was_faster_and_is_entered_in_the_log() {
    let given = Given::new().await;
    let before = source(given.organization, given.application, "a");
    given.make_source(&before).await;
    given.make_source(&source(given.organization, given.application, "taken")).await;
    let full = full_source(given.organization, given.application, "renamed");
    let changed = Source { id: before.id, updated_at: after(1), ..full };
    let telling = || AuditEntry { organization: given.organization, ..entry() };
    assert_eq!(given.store.update_source(changed.clone(), NOW, telling()).await.unwrap(), Updated::Updated);
    assert_eq!(given.source_of(&before).await, Some(changed.clone()));
    assert_eq!(given.store.source(given.organization, &named("a")).await.unwrap(), None);
    let late = Source { updated_at: after(2), forward: true, ..changed.clone() };
    assert_eq!(given.store.update_source(late.clone(), NOW, telling()).await.unwrap(), Updated::Changed);
    let taken = Source { name: SourceName::parse("taken").unwrap(), ..late };
    assert_eq!(given.store.update_source(taken, after(1), telling()).await.unwrap(), Updated::NameTaken);
    assert_eq!(given.source_of(&before).await, Some(changed));
    assert_eq!(given.store.audit_log(given.organization, AuditFilter::default(), ALL).await.unwrap().rows.len(), 1);
}

#[tokio::test]
async fn sources_are_listed_newest_first_page_by_page_and_by_application() {
    let given = Given::new().await;
    let other = given.another_application().await;
    let mut made = Vec::new();
    for (n, application) in [given.application, other, given.application, other, given.application].into_iter().enumerate() {
        made.push(source(given.organization, application, &format!("s{n}")));
        given.make_source(&made[n]).await;
    }
    made.reverse();
    assert_eq!(given.store.sources(given.organization, None, ALL).await.unwrap().rows, made);
    let of_other: Vec<Source> = made.iter().filter(|source| source.application == other).cloned().collect();
    assert_eq!(given.store.sources(given.organization, Some(other), ALL).await.unwrap().rows, of_other);
    let mut page = everhook_core::model::PageRequest { limit: 2, ..ALL };
    let first = given.store.sources(given.organization, None, page).await.unwrap();
    assert_eq!((&first.rows[..], first.prev), (&made[..2], None));
    page.cursor = first.next.unwrap();
    let second = given.store.sources(given.organization, None, page).await.unwrap();
    assert_eq!(&second.rows[..], &made[2..4]);
    page.cursor = second.prev.unwrap();
    assert_eq!(given.store.sources(given.organization, None, page).await.unwrap().rows, first.rows);
}

#[tokio::test]
async fn of_what_happened_at_a_source_the_latest_of_each_is_kept() {
    let given = Given::new().await;
    let (one, two) = (source(given.organization, given.application, "one"), source(given.organization, given.application, "two"));
    given.make_source(&one).await;
    given.make_source(&two).await;
    assert_eq!(given.activity_of(one.id).await, None);
    let refused = |secs, why: &str| Some((after(secs), why.to_owned()));
    let news = SourceActivity { accepted_at: Some(after(5)), refused: None, handshake_at: Some(after(1)) };
    let gone = SourceId::from_uuid(id());
    given.store.note_source_activity(vec![(one.id, news.clone()), (gone, news.clone())]).await.unwrap();
    assert_eq!(given.activity_of(one.id).await, Some(news));
    assert_eq!(given.activity_of(gone).await, None, "there is no such source");
    let earlier = SourceActivity { accepted_at: Some(after(4)), refused: refused(7, "bad_signature"), handshake_at: None };
    let other = SourceActivity { accepted_at: None, refused: refused(9, "too_many"), handshake_at: None };
    given.store.note_source_activity(vec![(one.id, earlier), (two.id, other.clone())]).await.unwrap();
    let older = SourceActivity { refused: refused(6, "unreadable_body"), ..SourceActivity::default() };
    given.store.note_source_activity(vec![(one.id, older)]).await.unwrap();
    let expected = SourceActivity { accepted_at: Some(after(5)), refused: refused(7, "bad_signature"), handshake_at: Some(after(1)) };
    let mut found = given.store.source_activity(vec![one.id, two.id, gone]).await.unwrap();
    found.sort_by_key(|(id, _)| *id);
    assert_eq!(found, [(one.id, expected), (two.id, other)]);
}

#[tokio::test]
async fn a_deleted_source_is_gone_with_what_happened_there() {
    let given = Given::new().await;
    let one = source(given.organization, given.application, "one");
    given.make_source(&one).await;
    let news = || vec![(one.id, SourceActivity { accepted_at: Some(NOW), ..SourceActivity::default() })];
    given.store.note_source_activity(news()).await.unwrap();
    assert!(given.store.delete_source(given.organization, one.id, entry()).await.unwrap());
    assert!(!given.store.delete_source(given.organization, one.id, entry()).await.unwrap());
    assert_eq!(given.store.source_by_id(one.id).await.unwrap(), None);
    given.store.note_source_activity(news()).await.unwrap();
    assert_eq!(given.activity_of(one.id).await, None);
    given.make_source(&source(given.organization, given.application, "one")).await;
}

#[tokio::test]
async fn sources_are_deleted_in_the_write_that_deletes_their_application_or_organization() {
    let given = Given::new().await;
    let shop = given.another_application().await;
    let (own, other) = (source(given.organization, given.application, "own"), source(given.organization, shop, "other"));
    for source in [&own, &other] {
        given.make_source(source).await;
        let news = SourceActivity { accepted_at: Some(NOW), ..SourceActivity::default() };
        given.store.note_source_activity(vec![(source.id, news)]).await.unwrap();
    }
    given.store.delete_application(given.organization, shop, deletion()).await.unwrap();
    assert_eq!(given.store.source_by_id(other.id).await.unwrap(), None);
    assert_eq!(given.activity_of(other.id).await, None);
    assert_eq!(given.source_of(&own).await.as_ref(), Some(&own));
    given.store.delete_organization(given.organization, after(1), deletion()).await.unwrap();
    assert_eq!(given.store.source_by_id(own.id).await.unwrap(), None);
    assert_eq!(given.activity_of(own.id).await, None);
}
