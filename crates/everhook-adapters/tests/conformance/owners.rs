//! Owners of applications, and where their apps are: kept, followed by channels, and by the health check in the same write.

use everhook_core::{
    ids::{ApplicationId, ChannelId, Ref},
    model::{AppCheckPlan, Application, ChannelTarget, CheckChange, EmailAddress, KeptManifest, Organization},
    policy::presets,
    ports::{Created, ManifestChange, ManifestPut, Updated},
};

use super::{
    given::{Given, after, application, deletion, entry},
    manifests::{BOUNDS, manifest},
};

fn email(text: &str) -> EmailAddress {
    EmailAddress::parse(text).unwrap()
}

fn plan(url: &str) -> AppCheckPlan {
    AppCheckPlan { url: url.to_owned(), first_at: after(10) }
}

impl Given {
    async fn change(&self, of: ApplicationId, check: CheckChange, edit: impl FnOnce(&mut Application)) -> Updated {
        let read = self.find_application(of).await.unwrap();
        let mut changed = read.clone();
        edit(&mut changed);
        self.store.update_application(read, changed, check, entry()).await.unwrap()
    }

    async fn set_owner(&self, of: ApplicationId, owner: Option<&str>) {
        let change = self.change(of, CheckChange::Keep, |application| application.owner_email = owner.map(email));
        assert_eq!(change.await, Updated::Updated);
    }

    async fn set_admins(&self, texts: &[&str]) {
        let read = self.store.organization(&Ref::Id(self.organization)).await.unwrap().unwrap();
        let changed = Organization { admin_emails: texts.iter().map(|text| email(text)).collect(), ..read.clone() };
        assert_eq!(self.store.update_organization(read, changed, entry()).await.unwrap(), Updated::Updated);
    }

    /// Puts the next manifest, with this owner.
    async fn put_owned(&self, version: i64, owner: Option<&str>) {
        let manifest = KeptManifest { owner_email: owner.map(email), ..manifest(self.organization, self.application, version) };
        let read = self.read_application().await;
        let put = self
            .store
            .put_manifest(ManifestChange { read, manifest: manifest.clone() }, Vec::new(), None, Vec::new(), BOUNDS, entry())
            .await
            .unwrap();
        assert_eq!(put, ManifestPut::Kept);
        assert_eq!(self.store.manifest(self.application).await.unwrap(), Some(manifest));
    }

    /// The channels of e-mail: an owner's in brackets.
    async fn mailed(&self) -> String {
        let channels = self.store.channels(self.organization).await.unwrap();
        let words = channels.iter().map(|channel| match &channel.to {
            ChannelTarget::Admin(address) => address.to_string(),
            ChannelTarget::Owner(address) => format!("({address})"),
            ChannelTarget::Service(_) => panic!("nobody made one"),
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

#[tokio::test]
async fn an_application_keeps_its_owner_and_where_its_app_is() {
    let given = Given::new().await;
    let full = Application {
        owner_email: Some(email("shop@example.com")),
        base_url: Some("https://app.example/ü".to_owned()),
        health_path: Some("/up?deep=1".to_owned()),
        ..application(given.organization)
    };
    let bare = Application { health_path: None, ..application(given.organization) };
    for made in [&full, &bare] {
        assert_eq!(given.store.create_application(made.clone(), entry()).await.unwrap(), Created::Created);
        assert_eq!(given.find_application(made.id).await.as_ref(), Some(made));
    }
    // A change of something else leaves them alone, and each can be changed and taken away.
    assert_eq!(given.change(full.id, CheckChange::Keep, |application| application.name = "renamed".to_owned()).await, Updated::Updated);
    let renamed = Application { name: "renamed".to_owned(), ..full.clone() };
    assert_eq!(given.find_application(full.id).await, Some(renamed));
    let take_away = |application: &mut Application| {
        (application.owner_email, application.base_url, application.health_path) = (None, None, Some("/health".to_owned()));
    };
    assert_eq!(given.change(full.id, CheckChange::Keep, take_away).await, Updated::Updated);
    let read = given.find_application(full.id).await.unwrap();
    assert_eq!((read.owner_email, read.base_url, read.health_path.as_deref()), (None, None, Some("/health")));
    let listed = given.store.applications(given.organization, super::directory::ALL).await.unwrap().rows;
    assert!(listed.contains(&bare));
}

#[tokio::test]
async fn channels_follow_owners_of_applications_and_manifests() {
    let given = Given::new().await;
    let shop = Application { owner_email: Some(email("shop@example.com")), ..application(given.organization) };
    let version = given.config_version().await;
    given.store.create_application(shop.clone(), entry()).await.unwrap();
    assert_eq!(given.mailed().await, "(shop@example.com)");
    assert!(given.config_version().await > version, "publishers match again");
    let channels = given.store.channels(given.organization).await.unwrap();
    let notify = given.store.schedule_version(&presets::notify()).await.unwrap();
    assert_eq!((channels[0].id, channels[0].retry_schedule), (ChannelId::of_email(given.organization, &email("shop@example.com")), notify));
    // By the manifest of another application as well: it stays until both are gone.
    given.put_owned(1, Some("shop@example.com")).await;
    given.set_owner(shop.id, Some("other@example.com")).await;
    assert_eq!(given.mailed().await, "(other@example.com) (shop@example.com)");
    given.put_owned(2, None).await;
    assert_eq!(given.mailed().await, "(other@example.com)");
    given.set_owner(shop.id, None).await;
    assert_eq!(given.mailed().await, "");
    // One that comes back has its old lane.
    given.set_owner(shop.id, Some("shop@example.com")).await;
    assert_eq!(given.mailed().await, "(shop@example.com)");
}

#[tokio::test]
async fn an_address_has_one_channel_that_is_an_administrators_if_it_is_one() {
    let given = Given::new().await;
    given.set_owner(given.application, Some("ops@example.com")).await;
    given.set_admins(&["dev@example.com", "ops@example.com"]).await;
    assert_eq!(given.mailed().await, "dev@example.com ops@example.com");
    given.set_admins(&["dev@example.com"]).await;
    assert_eq!(given.mailed().await, "dev@example.com (ops@example.com)", "still an owner");
    given.set_admins(&["dev@example.com", "ops@example.com"]).await;
    given.set_owner(given.application, None).await;
    assert_eq!(given.mailed().await, "dev@example.com ops@example.com", "still an administrator");
    given.set_admins(&[]).await;
    assert_eq!(given.mailed().await, "");
}

#[tokio::test]
async fn deleting_an_application_takes_the_channels_of_its_owners() {
    let given = Given::new().await;
    let shop = Application { owner_email: Some(email("shop@example.com")), ..application(given.organization) };
    given.store.create_application(shop.clone(), entry()).await.unwrap();
    let owned = KeptManifest { owner_email: Some(email("app@example.com")), ..manifest(given.organization, shop.id, 1) };
    given
        .store
        .put_manifest(ManifestChange { read: shop.clone(), manifest: owned }, Vec::new(), None, Vec::new(), BOUNDS, entry())
        .await
        .unwrap();
    given.set_owner(given.application, Some("app@example.com")).await;
    assert_eq!(given.mailed().await, "(app@example.com) (shop@example.com)");
    given.store.delete_application(given.organization, shop.id, deletion()).await.unwrap();
    assert_eq!(given.mailed().await, "(app@example.com)", "the other one has it still");
}

#[tokio::test]
async fn the_health_check_follows_an_application_in_its_write_unless_the_manifest_was_changed() {
    let given = Given::new().await;
    let url = async || given.store.app_check(given.application).await.unwrap().map(|check| check.url);
    let moved = |version, plan| CheckChange::Replace { manifest_version: version, plan };
    let set = |base_url: &'static str| move |application: &mut Application| application.base_url = Some(base_url.to_owned());
    assert_eq!(given.change(given.application, moved(1, None), set("https://a.example")).await, Updated::Changed, "there is no manifest");
    assert_eq!(given.change(given.application, moved(0, None), set("https://a.example")).await, Updated::Updated);
    given.put_owned(1, None).await;
    assert_eq!(given.change(given.application, moved(0, None), set("https://b.example")).await, Updated::Changed, "there is one by now");
    let plan = Some(plan("https://b.example/health"));
    assert_eq!(given.change(given.application, moved(1, plan), set("https://b.example")).await, Updated::Updated);
    assert_eq!(url().await.as_deref(), Some("https://b.example/health"));
    assert_eq!(
        given.change(given.application, CheckChange::Keep, |application| application.name = "other".to_owned()).await,
        Updated::Updated
    );
    assert_eq!(url().await.as_deref(), Some("https://b.example/health"), "a change of something else leaves it alone");
    assert_eq!(given.change(given.application, moved(1, None), |application| application.health_path = None).await, Updated::Updated);
    assert_eq!(url().await, None);
}

#[tokio::test]
async fn a_manifest_is_not_put_for_an_application_that_was_changed_since_it_was_read() {
    let given = Given::new().await;
    let read = given.read_application().await;
    given.set_owner(given.application, Some("shop@example.com")).await;
    let next = manifest(given.organization, given.application, 1);
    let put = given
        .store
        .put_manifest(ManifestChange { read, manifest: next.clone() }, Vec::new(), None, Vec::new(), BOUNDS, entry())
        .await
        .unwrap();
    assert_eq!(put, ManifestPut::Outdated);
    let put = given
        .store
        .put_manifest(
            ManifestChange { read: given.read_application().await, manifest: next },
            Vec::new(),
            None,
            Vec::new(),
            BOUNDS,
            entry(),
        )
        .await
        .unwrap();
    assert_eq!(put, ManifestPut::Kept);
}
