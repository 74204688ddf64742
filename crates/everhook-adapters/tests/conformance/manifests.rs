//! Manifests, and what signs the requests to applications.

use everhook_core::{
    ids::{ApplicationId, LaneId, OrganizationId, Ref},
    model::{Application, AuditEntry, EventType, FailingRule, JobLane, KeptManifest, SealedSecret, SealedSecrets, Tally, minute_of},
    policy::presets,
    ports::{Alert, AuditFilter, Deleted, ManifestBounds, ManifestChange, ManifestPut, SecretsChange},
};

use super::{
    directory::ALL,
    given::{Given, NOW, after, application, deletion, entry, id},
};

/// More than any of these tests has.
pub const BOUNDS: ManifestBounds = ManifestBounds { manifests: 1_000, bytes: 1 << 20, lanes: 1_000 };

/// A manifest of this version.
pub fn manifest(organization: OrganizationId, application: ApplicationId, version: i64) -> KeptManifest {
    let document = format!(r#"{{"base_url": "https://app.example", "n": {version}, "text": "ü\"\\"}}"#);
    KeptManifest { application, organization, version, document, owner_email: None, updated_at: after(version.unsigned_abs()) }
}

/// Lanes whose jobs are retried as the preset says.
pub fn job_lanes(lanes: impl IntoIterator<Item = LaneId>) -> Vec<JobLane> {
    lanes.into_iter().map(|lane_id| JobLane { lane_id, schedule: presets::job() }).collect()
}

/// Secrets with something in every field.
pub fn secrets() -> SealedSecrets {
    SealedSecrets { current: SealedSecret(vec![0, 255, 7]), previous: Some((SealedSecret(vec![1; 40]), after(60))) }
}

fn lane() -> LaneId {
    LaneId::from_uuid(id())
}

impl Given {
    async fn put(&self, manifest: &KeptManifest, lanes: Vec<LaneId>) -> bool {
        self.put_within(BOUNDS, manifest, lanes).await == ManifestPut::Kept
    }

    async fn put_within(&self, bounds: ManifestBounds, manifest: &KeptManifest, lanes: Vec<LaneId>) -> ManifestPut {
        let entry = AuditEntry { organization: self.organization, ..entry() };
        // One that is not there is as good as one that was changed.
        let Some(read) = self.find_application(manifest.application).await else { return ManifestPut::Outdated };
        self.store
            .put_manifest(ManifestChange { read, manifest: manifest.clone() }, job_lanes(lanes), None, Vec::new(), bounds, entry)
            .await
            .unwrap()
    }

    /// An application as it is now.
    pub async fn find_application(&self, id: ApplicationId) -> Option<Application> {
        self.store.application(self.organization, &Ref::Id(id)).await.unwrap()
    }

    /// The application of the test as it is now.
    pub async fn read_application(&self) -> Application {
        self.find_application(self.application).await.expect("it is there")
    }

    fn secrets_change(&self, read: Option<SealedSecrets>, secrets: SealedSecrets) -> SecretsChange {
        SecretsChange { organization: self.organization, application: self.application, read, secrets }
    }
}

#[tokio::test]
async fn what_an_organization_is_told_of_a_manifest_is_kept_with_it() {
    let given = Given::new().await;
    let alert = Alert {
        id: id(),
        organization: given.organization,
        event_type: EventType::parse("canary.withdrawn").unwrap(),
        data: vec![b'1'].into(),
    };
    for (version, told) in [(2, 0), (1, 1)] {
        let entry = AuditEntry { organization: given.organization, ..entry() };
        let manifest = manifest(given.organization, given.application, version);
        let put = given
            .store
            .put_manifest(
                ManifestChange { read: given.read_application().await, manifest },
                Vec::new(),
                None,
                vec![alert.clone()],
                BOUNDS,
                entry,
            )
            .await
            .unwrap();
        assert_eq!((put == ManifestPut::Kept, given.store.pending(10).await.unwrap().len()), (told == 1, told));
    }
    assert_eq!(given.store.pending(10).await.unwrap(), [alert]);
}

#[tokio::test]
async fn a_manifest_is_read_as_it_was_written_and_only_the_next_version_replaces_it() {
    let given = Given::new().await;
    let of = |version| manifest(given.organization, given.application, version);
    assert_eq!(given.store.manifest(given.application).await.unwrap(), None);
    assert!(!given.put(&of(2), vec![]).await, "the first is version 1");
    assert!(given.put(&of(1), vec![]).await);
    assert!(!given.put(&of(1), vec![]).await);
    assert!(!given.put(&of(3), vec![]).await);
    assert_eq!(given.store.manifest(given.application).await.unwrap(), Some(of(1)));
    assert!(given.put(&of(2), vec![]).await);
    assert_eq!(given.store.manifest(given.application).await.unwrap(), Some(of(2)));
    let log = given.store.audit_log(given.organization, AuditFilter::default(), ALL).await.unwrap();
    assert_eq!(log.rows.len(), 2, "only what took place is in the log");
}

#[tokio::test]
async fn a_manifest_makes_the_lanes_of_its_capabilities_once() {
    let given = Given::new().await;
    let (one, two) = (lane(), lane());
    assert!(given.put(&manifest(given.organization, given.application, 1), vec![one]).await);
    assert!(given.put(&manifest(given.organization, given.application, 2), vec![one, two]).await);
    // What is counted of a lane needs its number.
    let tally = |lane_id| {
        let mut tally = Tally::new(lane_id, minute_of(NOW));
        tally.count(None, std::time::Duration::from_millis(5), NOW);
        tally
    };
    given.store.add(vec![tally(one), tally(two)], FailingRule::default()).await.unwrap();
    for lane_id in [one, two] {
        assert_eq!(given.store.attempt_statistics(lane_id, NOW, after(60)).await.unwrap().successes, 1);
    }
}

#[tokio::test]
async fn an_organization_has_no_more_lanes_of_capabilities_than_it_may() {
    let given = Given::new().await;
    let (first, second) = (lane(), lane());
    let of = |version| manifest(given.organization, given.application, version);
    let bounds = ManifestBounds { lanes: 2, ..BOUNDS };
    assert_eq!(given.put_within(bounds, &of(1), vec![first]).await, ManifestPut::Kept);
    // The one that the manifest does not have any more counts.
    assert_eq!(given.put_within(bounds, &of(2), vec![second]).await, ManifestPut::Kept);
    assert_eq!(given.put_within(bounds, &of(3), vec![second, lane()]).await, ManifestPut::TooManyLanes);
    assert_eq!(given.store.manifest(given.application).await.unwrap(), Some(of(2)));
    // What needs no new one is always kept.
    let none = ManifestBounds { lanes: 0, ..BOUNDS };
    assert_eq!(given.put_within(none, &of(3), vec![first, second]).await, ManifestPut::Kept);
}

#[tokio::test]
async fn an_organization_has_no_more_manifests_and_bytes_than_it_may() {
    let given = Given::new().await;
    let (first, shop) = (manifest(given.organization, given.application, 1), application(given.organization));
    given.store.create_application(shop.clone(), entry()).await.unwrap();
    let second = manifest(given.organization, shop.id, 1);
    let length = first.document.len() as u64;
    assert_eq!(given.put_within(ManifestBounds { bytes: length - 1, ..BOUNDS }, &first, vec![]).await, ManifestPut::TooLarge);
    assert_eq!(given.put_within(ManifestBounds { bytes: length, ..BOUNDS }, &first, vec![]).await, ManifestPut::Kept);
    assert_eq!(given.put_within(ManifestBounds { manifests: 1, ..BOUNDS }, &second, vec![]).await, ManifestPut::TooMany);
    assert_eq!(given.put_within(ManifestBounds { bytes: 2 * length - 1, ..BOUNDS }, &second, vec![]).await, ManifestPut::TooLarge);
    assert_eq!(given.store.manifest(shop.id).await.unwrap(), None);
    assert_eq!(given.put_within(BOUNDS, &second, vec![]).await, ManifestPut::Kept);
    // What is not larger than before is always kept.
    let next = manifest(given.organization, given.application, 2);
    assert_eq!(given.put_within(ManifestBounds { manifests: 0, bytes: 0, lanes: 0 }, &next, vec![]).await, ManifestPut::Kept);
}

#[tokio::test]
async fn secrets_are_replaced_only_by_who_has_read_them() {
    let given = Given::new().await;
    let plain = SealedSecrets { current: SealedSecret(vec![9]), previous: None };
    assert_eq!(given.store.application_secrets(given.application).await.unwrap(), None);
    let put = |read, secrets| given.store.put_application_secrets(given.secrets_change(read, secrets), entry());
    assert!(!put(Some(plain.clone()), secrets()).await.unwrap(), "there was nothing to read");
    assert!(put(None, plain.clone()).await.unwrap());
    assert!(!put(None, secrets()).await.unwrap());
    assert!(put(Some(plain), secrets()).await.unwrap());
    assert_eq!(given.store.application_secrets(given.application).await.unwrap(), Some(secrets()));
}

#[tokio::test]
async fn nothing_is_kept_for_an_application_that_is_not_there_and_deleting_one_deletes_them() {
    let given = Given::new().await;
    let stranger = ApplicationId::from_uuid(id());
    assert!(!given.put(&manifest(given.organization, stranger, 1), vec![]).await);
    let change = SecretsChange { application: stranger, ..given.secrets_change(None, secrets()) };
    assert!(!given.store.put_application_secrets(change, entry()).await.unwrap());

    let shop = application(given.organization);
    given.store.create_application(shop.clone(), entry()).await.unwrap();
    assert!(given.put(&manifest(given.organization, shop.id, 1), vec![]).await);
    let change = SecretsChange { application: shop.id, ..given.secrets_change(None, secrets()) };
    assert!(given.store.put_application_secrets(change, entry()).await.unwrap());
    let deleted = given.store.delete_application(given.organization, shop.id, deletion()).await.unwrap();
    assert!(matches!(deleted, Deleted::Deleted(_)));
    assert_eq!(given.store.manifest(shop.id).await.unwrap(), None);
    assert_eq!(given.store.application_secrets(shop.id).await.unwrap(), None);
}

#[tokio::test]
async fn deleting_an_organization_deletes_its_manifests_and_no_other() {
    let given = Given::new().await;
    assert!(given.put(&manifest(given.organization, given.application, 1), vec![]).await);
    assert!(given.store.put_application_secrets(given.secrets_change(None, secrets()), entry()).await.unwrap());
    given.store.delete_organization(given.organization, NOW, deletion()).await.unwrap();
    assert_eq!(given.store.manifest(given.application).await.unwrap(), None);
    assert_eq!(given.store.application_secrets(given.application).await.unwrap(), None);
}
