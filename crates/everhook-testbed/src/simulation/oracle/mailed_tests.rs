//! The rules about mails: each has a short log that breaks it.

use everhook_core::model::{EventType, LaneKind, Stage};

use super::{
    tests::{Story, delivery, died, endpoint, event, expect},
    *,
};
use crate::{
    simulation::log::{MailEnd, MailNo},
    world::BEGINNING,
};

const DELIVERED: Stage = Stage::Delivered { at: BEGINNING };

impl Story {
    /// The mail of the delivery `of` is taken at a second, and its sender hears so or not.
    fn mailed(&mut self, second: u64, mail: usize, of: u128, end: Option<MailEnd>) -> &mut Self {
        let mail = MailNo(mail);
        self.then(second, Happening::MailBegan(mail, delivery(of), "admin@example.com".to_owned()))
            .then(second, Happening::MailTaken(mail));
        if let Some(end) = end {
            self.then(second, Happening::MailEnded(mail, end));
        }
        self
    }

    /// An endpoint was disabled, and this many administrators are to be told.
    fn disabled(&mut self, administrators: usize) -> &mut Self {
        self.stores_event(event(), "k");
        let stored = self.stored.events.get_mut(&event()).expect("it was just made");
        stored.event_type = EventType::parse("endpoint.disabled").expect("a type");
        self.stored.administrators.insert(endpoint().application, administrators);
        self
    }

    /// The delivery of a mail, through a lane of its own.
    fn told(&mut self, of: u128, stage: Stage) -> &mut Self {
        self.stores_delivery(of, stage, 1);
        let mut delivery = self.stored.deliveries.pop().expect("it was just made");
        delivery.kind = LaneKind::Channel;
        delivery.lane_id = EndpointId::from_uuid(uuid::Uuid::from_u128(100 + of)).into();
        self.stored.told.push(delivery);
        self
    }
}

#[test]
fn a_mail_comes_twice_only_if_nobody_knew_that_it_had_come() {
    const RULE: Option<&str> = Some("a mail is repeated only if its end was not known");
    let (replied, broken) = (Some(MailEnd::Replied), Some(MailEnd::Broken));
    expect(ALWAYS, None, |story| _ = story.mailed(1, 0, 1, broken).mailed(9, 1, 1, replied));
    expect(ALWAYS, None, |story| _ = story.mailed(1, 0, 1, replied).then(2, died()).mailed(9, 1, 1, replied));
    expect(ALWAYS, None, |story| _ = story.mailed(1, 0, 1, None).then(2, died()).mailed(9, 1, 1, replied));
    expect(ALWAYS, None, |story| _ = story.mailed(1, 0, 1, replied).mailed(2, 1, 2, replied));
    expect(ALWAYS, RULE, |story| _ = story.mailed(1, 0, 1, replied).mailed(9, 1, 1, replied));
    // What happened long after the end has nothing to do with it.
    expect(ALWAYS, RULE, |story| _ = story.mailed(1, 0, 1, replied).then(60, died()).mailed(90, 1, 1, replied));
}

#[test]
fn a_notification_is_one_mail_to_each_administrator() {
    const RULE: Option<&str> = Some("every administrator has one mail of each notification");
    let both = |story: &mut Story| _ = story.disabled(2).mailed(1, 0, 1, Some(MailEnd::Replied)).mailed(1, 1, 2, Some(MailEnd::Replied));
    expect(AT_THE_END, None, |story| {
        both(story);
        story.told(1, DELIVERED).told(2, DELIVERED);
    });
    expect(AT_THE_END, RULE, |story| {
        both(story);
        story.told(1, DELIVERED);
    });
    expect(AT_THE_END, RULE, |story| {
        both(story);
        story.told(1, DELIVERED).told(2, DELIVERED).told(2, DELIVERED);
    });
}

#[test]
fn a_mail_that_counts_as_delivered_was_taken() {
    const RULE: Option<&str> = Some("every mail was taken");
    expect(AT_THE_END, RULE, |story| _ = story.disabled(1).told(1, DELIVERED));
    expect(AT_THE_END, RULE, |story| {
        story.disabled(1).mailed(1, 0, 1, Some(MailEnd::Broken)).told(1, Stage::Waiting { due_at: BEGINNING });
    });
}
