//! Channels: they follow the addresses of their organization, and their lanes outlive them for as long as anything names them.

use everhook_core::{
    ids::{ChannelId, LaneId, Ref, ScheduleVersion},
    model::{
        Channel, ChannelName, ChannelTarget, EmailAddress, EventTypePattern, NoticeSeverity, Organization, SealedSecret, ServiceChannel,
        ServiceKind, Stage,
    },
    policy::presets,
    ports::{Created, DueDeadLetters, EventStore, RetentionClass, Updated},
};

use super::{
    delivery_queue::{DELIVERED, dead},
    given::{Given, NOW, after, deletion, entry, failure, id as new_id, organization, settlement, success},
};

/// Later than everything that is kept here.
const LATER: everhook_core::time::Timestamp = everhook_core::time::Timestamp::from_secs(4_000_000_000);

fn email(text: &str) -> EmailAddress {
    EmailAddress::parse(text).unwrap()
}

impl Given {
    async fn set_emails(&self, texts: &[&str]) -> Updated {
        let read = self.store.organization(&Ref::Id(self.organization)).await.unwrap().unwrap();
        let changed = Organization { admin_emails: texts.iter().map(|text| email(text)).collect(), ..read.clone() };
        self.store.update_organization(read, changed, entry()).await.unwrap()
    }

    /// The addresses of the organization's channels.
    async fn channels(&self) -> Vec<String> {
        let definitions = self.store.definitions(self.organization).await.unwrap();
        definitions.channels.iter().map(|channel| channel.name().to_owned()).collect()
    }

    fn lane_of(&self, text: &str) -> LaneId {
        ChannelId::of_email(self.organization, &email(text)).into()
    }
}

#[tokio::test]
async fn they_follow_the_addresses_of_their_organization() {
    let given = Given::new().await;
    assert!(given.channels().await.is_empty());
    let version = given.config_version().await;
    assert_eq!(given.set_emails(&["ops@example.com", "dev@example.com"]).await, Updated::Updated);
    assert!(given.config_version().await > version, "publishers match again");
    let definitions = given.store.definitions(given.organization).await.unwrap();
    let notify = given.store.schedule_version(&presets::notify()).await.unwrap();
    for (channel, text) in definitions.channels.iter().zip(["dev@example.com", "ops@example.com"]) {
        assert_eq!((channel.id, channel.address()), (ChannelId::of_email(given.organization, &email(text)), Some(&email(text))));
        assert_eq!(channel.retry_schedule, notify);
    }
    let read = given.store.organization(&Ref::Id(given.organization)).await.unwrap().unwrap();
    assert_eq!(read.admin_emails, [email("ops@example.com"), email("dev@example.com")], "in their order");
    given.set_emails(&["dev@example.com", "new@example.com"]).await;
    assert_eq!(given.channels().await, ["dev@example.com", "new@example.com"]);
    given.set_emails(&[]).await;
    assert!(given.channels().await.is_empty());
    // One that was there before has its lane still.
    given.set_emails(&["ops@example.com"]).await;
    assert_eq!(given.channels().await, ["ops@example.com"]);
}

#[tokio::test]
async fn a_new_organization_has_those_of_its_addresses_and_no_other_sees_them() {
    let given = Given::new().await;
    let mut new = organization();
    new.organization.admin_emails = vec![email("ops@example.com")];
    assert_eq!(given.store.create_organization(new.clone(), entry()).await.unwrap(), Created::Created);
    let definitions = given.store.definitions(new.organization.id).await.unwrap();
    assert_eq!(definitions.channels.len(), 1);
    assert!(given.channels().await.is_empty());
    assert_eq!(given.store.organization(&Ref::Id(new.organization.id)).await.unwrap(), Some(new.organization));
}

#[tokio::test]
async fn a_lane_outlives_its_channel_until_nothing_names_it() {
    let given = Given::new().await;
    given.set_emails(&["ops@example.com", "dev@example.com"]).await;
    let lane_id = given.lane_of("ops@example.com");
    let mut new = given.event(&[given.endpoint]).await;
    new.deliveries[0].lane_id = lane_id;
    let (event, delivery) = (new.event.id, new.deliveries[0].id);
    given.record(new).await;
    given.set_emails(&[]).await;
    // A later lane, so that these are not the newest.
    given.set_emails(&["new@example.com"]).await;
    given.purge(RetentionClass::DeletedEndpoints, LATER).await;
    let mut settled = settlement(delivery, given.endpoint, success(1), DELIVERED);
    settled.lane_id = lane_id;
    given.store.settle(std::sync::Arc::new(vec![settled])).await.unwrap();
    assert!(matches!(given.stage(delivery).await, Stage::Delivered { .. }), "the lane was kept");
    given.purge_in_steps(RetentionClass::Events, LATER, 100).await;
    assert!(EventStore::event(&*given.store, event).await.unwrap().is_none());
    given.purge_in_steps(RetentionClass::Rollups, LATER, 100).await;
    given.purge(RetentionClass::DeletedEndpoints, after(1)).await;
    // Neither lane is left: both numbers are free of owners, and the addresses may come back.
    given.set_emails(&["ops@example.com"]).await;
    let mut again = given.event(&[given.endpoint]).await;
    again.deliveries[0].lane_id = lane_id;
    given.record(again).await;
}

#[tokio::test]
async fn its_dead_letters_come_back_by_themselves_for_as_long_as_there_is_one() {
    let given = Given::new().await;
    given.set_emails(&["ops@example.com"]).await;
    let mut new = given.event(&[given.endpoint]).await;
    new.deliveries[0].lane_id = given.lane_of("ops@example.com");
    let delivery = new.deliveries[0].id;
    given.record(new).await;
    let mut died = settlement(delivery, given.endpoint, failure(1), dead(NOW));
    died.lane_id = given.lane_of("ops@example.com");
    given.store.settle(std::sync::Arc::new(vec![died])).await.unwrap();
    let due = DueDeadLetters { organization: given.organization, failures: 1, died_until: after(60), limit: 10 };
    let found = given.store.due_dead_letters(due).await.unwrap();
    assert_eq!(found.iter().map(|letter| letter.id).collect::<Vec<_>>(), [delivery]);
    given.set_emails(&[]).await;
    assert_eq!(given.store.due_dead_letters(due).await.unwrap(), []);
}

#[tokio::test]
async fn the_schedule_of_a_channel_is_in_use_for_as_long_as_there_is_one() {
    let given = Given::new().await;
    given.set_emails(&["ops@example.com"]).await;
    let notify = given.store.schedule_version(&presets::notify()).await.unwrap();
    // A newer version, because the newest is never removed.
    given.store.schedule_version(&presets::preset("relay").unwrap()).await.unwrap();
    for _ in 0..3 {
        given.purge_in_steps(RetentionClass::ScheduleVersions, LATER, 100).await;
    }
    assert!(given.store.schedule(notify).await.unwrap().is_some());
    given.set_emails(&[]).await;
    given.purge_in_steps(RetentionClass::ScheduleVersions, LATER, 100).await;
    let much_later = LATER + std::time::Duration::from_secs(7_200);
    given.purge_in_steps(RetentionClass::ScheduleVersions, much_later, 100).await;
    assert!(given.store.schedule(notify).await.unwrap().is_none());
}

#[tokio::test]
async fn those_of_a_deleted_organization_are_gone() {
    let given = Given::new().await;
    given.set_emails(&["ops@example.com"]).await;
    given.store.delete_organization(given.organization, after(1), deletion()).await.unwrap();
    assert!(given.channels().await.is_empty());
}

/// A channel of a service, with everything set that can be.
pub fn service_channel(name: &str) -> Channel {
    let service = ServiceChannel {
        name: ChannelName::parse(name).unwrap(),
        kind: ServiceKind::Slack,
        credentials: SealedSecret(vec![1, 2, 3]),
        event_types: ["alert.*", "job.dead"].map(|text| EventTypePattern::parse(text).unwrap()).to_vec(),
        min_severity: Some(NoticeSeverity::Warning),
        enabled: false,
        created_at: NOW,
        updated_at: NOW,
    };
    Channel { id: ChannelId::from_uuid(new_id()), retry_schedule: ScheduleVersion(0), to: ChannelTarget::Service(Box::new(service)) }
}

/// The same with other credentials.
pub fn set_credentials(channel: &mut Channel, sealed: SealedSecret) {
    change(channel, |service| service.credentials = sealed);
}

fn change(channel: &mut Channel, edit: impl FnOnce(&mut ServiceChannel)) {
    let ChannelTarget::Service(service) = &mut channel.to else { panic!("it is a service's") };
    edit(service);
}

impl Given {
    async fn create(&self, channel: &Channel) -> Created {
        self.store.create_channel(self.organization, channel.clone(), 3, entry()).await.unwrap()
    }

    /// The organization's channels, but for the versions of their schedules.
    async fn services(&self) -> Vec<Channel> {
        let channels = self.store.channels(self.organization).await.unwrap();
        channels.into_iter().map(|channel| Channel { retry_schedule: ScheduleVersion(0), ..channel }).collect()
    }
}

#[tokio::test]
async fn a_channel_of_a_service_is_kept_as_it_is_with_the_schedule_of_notifications() {
    let given = Given::new().await;
    given.set_emails(&["ops@example.com"]).await;
    let version = given.config_version().await;
    let (first, mut second) = (service_channel("zeta"), service_channel("alpha"));
    change(&mut second, |service| {
        (service.kind, service.min_severity, service.enabled) = (ServiceKind::Webhook, None, true);
    });
    for channel in [&first, &second] {
        assert_eq!(given.create(channel).await, Created::Created);
    }
    assert!(given.config_version().await > version, "publishers match again");
    assert_eq!(given.channels().await, ["ops@example.com", "alpha", "zeta"], "administrators first, then by name");
    assert_eq!(given.services().await[1..], [second, first]);
    let notify = given.store.schedule_version(&presets::notify()).await.unwrap();
    let definitions = given.store.definitions(given.organization).await.unwrap();
    assert!(definitions.channels.iter().all(|channel| channel.retry_schedule == notify));
    assert_eq!(definitions.channels, given.store.channels(given.organization).await.unwrap());
    // Addresses come and go without them.
    given.set_emails(&[]).await;
    assert_eq!(given.channels().await, ["alpha", "zeta"]);
}

#[tokio::test]
async fn names_of_channels_are_unique_and_their_number_is_bounded() {
    let given = Given::new().await;
    given.set_emails(&["a@example.com", "b@example.com", "c@example.com"]).await;
    for name in ["one", "two", "three"] {
        assert_eq!(given.create(&service_channel(name)).await, Created::Created, "those of administrators do not count");
    }
    assert_eq!(given.create(&service_channel("one")).await, Created::NameTaken);
    assert_eq!(given.create(&service_channel("four")).await, Created::TooMany);
    let stranger = organization();
    given.store.create_organization(stranger.clone(), entry()).await.unwrap();
    let theirs = service_channel("one");
    assert_eq!(given.store.create_channel(stranger.organization.id, theirs.clone(), 3, entry()).await.unwrap(), Created::Created);
    // Nobody reaches another organization's.
    assert_eq!(given.store.update_channel(given.organization, theirs.clone(), NOW, entry()).await.unwrap(), Updated::NameTaken);
    assert!(!given.store.delete_channel(given.organization, theirs.id, entry()).await.unwrap());
    assert_eq!(given.store.channels(stranger.organization.id).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_channel_is_changed_unless_somebody_else_was_faster_and_deleted_once() {
    let given = Given::new().await;
    let (mut channel, other) = (service_channel("ops"), service_channel("other"));
    for channel in [&channel, &other] {
        given.create(channel).await;
    }
    let version = given.config_version().await;
    change(&mut channel, |service| {
        service.name = ChannelName::parse("oncall").unwrap();
        service.credentials = SealedSecret(vec![9]);
        service.event_types = vec![EventTypePattern::Any];
        (service.min_severity, service.enabled, service.updated_at) = (None, true, after(1));
    });
    let update = |channel: Channel, read_at| given.store.update_channel(given.organization, channel, read_at, entry());
    assert_eq!(update(channel.clone(), after(9)).await.unwrap(), Updated::Changed);
    assert_eq!(update(channel.clone(), NOW).await.unwrap(), Updated::Updated);
    assert_eq!(update(channel.clone(), NOW).await.unwrap(), Updated::Changed);
    assert!(given.config_version().await > version);
    assert_eq!(given.services().await, [channel.clone(), other.clone()]);
    let mut taken = channel.clone();
    change(&mut taken, |service| service.name = ChannelName::parse("other").unwrap());
    assert_eq!(update(taken, after(1)).await.unwrap(), Updated::NameTaken);
    assert!(given.store.delete_channel(given.organization, channel.id, entry()).await.unwrap());
    assert!(!given.store.delete_channel(given.organization, channel.id, entry()).await.unwrap());
    assert_eq!(given.services().await, [other]);
    // What follows from addresses is not deleted so.
    given.set_emails(&["ops@example.com"]).await;
    let id = ChannelId::of_email(given.organization, &email("ops@example.com"));
    assert!(!given.store.delete_channel(given.organization, id, entry()).await.unwrap());
}

#[tokio::test]
async fn services_of_a_deleted_organization_are_gone() {
    let given = Given::new().await;
    given.create(&service_channel("ops")).await;
    given.store.delete_organization(given.organization, after(1), deletion()).await.unwrap();
    assert!(given.services().await.is_empty());
}
