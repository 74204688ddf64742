//! The health checks of apps: planned with the manifest, taken in turn, and gone with the application.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::{
    model::{AppCheck, AppCheckPlan, AppHealth, AppStatus, AuditEntry, FailingChecks},
    ports::{Alert, Deleted, Effect as _, ManifestChange},
};

use super::{
    given::{Given, NOW, after, application, deletion, entry, event_type, id},
    manifests::{BOUNDS, manifest},
};

const INTERVAL: Duration = Duration::from_secs(300);

fn plan(url: &str, first: u64) -> AppCheckPlan {
    AppCheckPlan { url: url.to_owned(), first_at: after(first) }
}

fn found(failures: u32) -> AppHealth {
    AppHealth {
        status: if failures > 0 { AppStatus::Unhealthy } else { AppStatus::Degraded },
        checked_at: after(7),
        took: Duration::from_micros(1_234_567),
        failing: (failures > 0).then_some(FailingChecks { count: failures, since: after(3) }),
        detail: "not ok: dätabase".to_owned(),
        checks: Some(r#"{"db":"ü\u0000"}"#.to_owned()),
    }
}

impl Given {
    async fn put_checked(&self, version: i64, check: Option<AppCheckPlan>) {
        let entry = AuditEntry { organization: self.organization, ..entry() };
        let manifest = manifest(self.organization, self.application, version);
        assert!(
            self.store
                .put_manifest(
                    ManifestChange { read: self.read_application().await, manifest },
                    Vec::new(),
                    check,
                    Vec::new(),
                    BOUNDS,
                    entry
                )
                .await
                .unwrap()
                .took_place()
        );
    }

    async fn check(&self) -> Option<AppCheck> {
        self.store.app_check(self.application).await.unwrap()
    }
}

#[tokio::test]
async fn a_check_is_planned_with_the_manifest_keeps_its_turn_and_goes_when_the_manifest_names_none() {
    let given = Given::new().await;
    assert_eq!((given.check().await, given.store.next_app_check().await.unwrap()), (None, None));
    given.put_checked(1, Some(plan("https://app.example/health", 5))).await;
    let expected = AppCheck {
        application: given.application,
        organization: given.organization,
        url: "https://app.example/health".to_owned(),
        next_at: after(5),
        found: None,
    };
    assert_eq!((given.check().await, given.store.next_app_check().await.unwrap()), (Some(expected.clone()), Some(after(5))));
    assert!(given.store.keep_app_health(given.application, found(2), Vec::new()).await.unwrap());
    given.put_checked(2, Some(plan("https://app.example/other", 99))).await;
    let moved = AppCheck { url: "https://app.example/other".to_owned(), found: Some(found(2)), ..expected };
    assert_eq!(given.check().await, Some(moved), "a new manifest is no new turn");
    given.put_checked(3, None).await;
    assert_eq!((given.check().await, given.store.next_app_check().await.unwrap()), (None, None));
    assert!(!given.store.keep_app_health(given.application, found(1), Vec::new()).await.unwrap(), "it is checked no more");
}

#[tokio::test]
async fn checks_are_taken_in_turn_and_keep_their_part_of_the_interval() {
    let given = Given::new().await;
    let mut applications = Vec::new();
    for first in [10, 20, 400] {
        let made = application(given.organization);
        given.store.create_application(made.clone(), entry()).await.unwrap();
        let check = plan("https://app.example/health", first);
        assert!(
            given
                .store
                .put_manifest(
                    ManifestChange { read: made.clone(), manifest: manifest(given.organization, made.id, 1) },
                    Vec::new(),
                    Some(check),
                    Vec::new(),
                    BOUNDS,
                    entry()
                )
                .await
                .unwrap()
                .took_place()
        );
        applications.push(made.id);
    }
    let take = async |at: u64, limit| {
        let taken = given.store.take_app_checks(after(at), INTERVAL, limit).await.unwrap();
        taken
            .into_iter()
            .map(|check| (applications.iter().position(|id| *id == check.application).unwrap(), check.next_at))
            .collect::<Vec<_>>()
    };
    assert_eq!(take(9, 10).await, []);
    assert_eq!(take(25, 1).await, [(0, after(310))], "the most overdue one");
    assert_eq!(take(25, 10).await, [(1, after(320))]);
    assert_eq!(take(25, 10).await, [], "each once");
    assert_eq!(given.store.next_app_check().await.unwrap(), Some(after(310)));
    // After a long stop each is taken once, and none is due in the past or at another time than before.
    let mut late = take(3_620, 10).await;
    late.sort_unstable();
    assert_eq!(late, [(0, after(3_910)), (1, after(3_920)), (2, after(3_700))]);
}

#[tokio::test]
async fn what_a_check_found_is_kept_with_its_alert_or_neither() {
    let given = Given::new().await;
    let alert =
        Alert { id: id(), organization: given.organization, event_type: event_type("app.unhealthy"), data: Bytes::from_static(b"{}") };
    assert!(!given.store.keep_app_health(given.application, found(3), vec![alert.clone()]).await.unwrap());
    assert_eq!(given.store.pending(10).await.unwrap(), []);
    given.put_checked(1, Some(plan("https://app.example/health", 5))).await;
    for failures in [3, 0] {
        let alerts = if failures > 0 { vec![alert.clone()] } else { Vec::new() };
        assert!(given.store.keep_app_health(given.application, found(failures), alerts).await.unwrap());
        assert_eq!(given.check().await.unwrap().found, Some(found(failures)));
    }
    let given = given.reopened().await;
    assert_eq!(given.store.pending(10).await.unwrap(), [alert]);
    assert_eq!(given.check().await.unwrap().found, Some(found(0)));
}

#[tokio::test]
async fn deleting_the_application_or_the_organization_ends_its_check() {
    let given = Given::new().await;
    let shop = application(given.organization);
    given.store.create_application(shop.clone(), entry()).await.unwrap();
    let check = Some(plan("https://app.example/health", 5));
    assert!(
        given
            .store
            .put_manifest(
                ManifestChange { read: shop.clone(), manifest: manifest(given.organization, shop.id, 1) },
                Vec::new(),
                check,
                Vec::new(),
                BOUNDS,
                entry()
            )
            .await
            .unwrap()
            .took_place()
    );
    let deleted = given.store.delete_application(given.organization, shop.id, deletion()).await.unwrap();
    assert!(matches!(deleted, Deleted::Deleted(_)), "{deleted:?}");
    assert_eq!(given.store.app_check(shop.id).await.unwrap(), None);
    given.put_checked(1, Some(plan("https://app.example/health", 5))).await;
    let deleted = given.store.delete_organization(given.organization, NOW, deletion()).await.unwrap();
    assert!(matches!(deleted, Deleted::Deleted(_)), "{deleted:?}");
    assert_eq!((given.check().await, given.store.next_app_check().await.unwrap()), (None, None));
}
