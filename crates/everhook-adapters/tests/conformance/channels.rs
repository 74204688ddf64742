//! Channels: they follow the addresses of their organization, and their lanes outlive them for as long as anything names them.

use everhook_core::{
    ids::{ChannelId, LaneId, Ref},
    model::{EmailAddress, Organization, Stage},
    policy::presets,
    ports::{Created, DueDeadLetters, EventStore, RetentionClass, Updated},
};

use super::{
    delivery_queue::{DELIVERED, dead},
    given::{Given, NOW, after, entry, failure, organization, settlement, success},
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
        definitions.channels.iter().map(|channel| channel.address.to_string()).collect()
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
        assert_eq!((channel.id, &channel.address), (ChannelId::of_email(given.organization, &email(text)), &email(text)));
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
    given.store.delete_organization(given.organization, after(1), entry()).await.unwrap();
    assert!(given.channels().await.is_empty());
}
