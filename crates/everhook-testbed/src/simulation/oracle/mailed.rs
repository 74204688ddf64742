//! Rules about what administrators are told by e-mail.

use std::collections::BTreeMap;

use everhook_core::{ids::DeliveryId, model::Stage};

use super::Evidence;
use crate::simulation::log::{Happening, MailEnd, MailNo};

/// What is mailed: the type of the event that says that an endpoint is disabled.
const MAILED: &str = "endpoint.disabled";

/// One mail on its way, by the lines of the log.
struct Mailed<'a> {
    delivery: DeliveryId,
    to: &'a str,
    begun: usize,
    is_taken: bool,
    end: Option<(usize, MailEnd)>,
}

pub(super) fn a_mail_is_repeated_only_if_its_end_was_not_known(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut taken: BTreeMap<DeliveryId, Mailed<'_>> = BTreeMap::new();
    for mail in mails(evidence) {
        if let Some(earlier) = taken.get(&mail.delivery) {
            let is_known = matches!(earlier.end, Some((_, MailEnd::Replied)));
            if is_known && !evidence.may_be_lost(earlier.begun, earlier.end.map(|(line, _)| line)) {
                return Err(format!("the mail of delivery {} to {} was taken, and was sent again", mail.delivery, mail.to));
            }
        }
        if mail.is_taken {
            taken.insert(mail.delivery, mail);
        }
    }
    Ok(())
}

pub(super) fn every_administrator_has_one_mail_of_each_notification(evidence: &Evidence<'_>) -> Result<(), String> {
    for event in evidence.stored.events.values().filter(|event| event.event_type.as_str() == MAILED) {
        let Some(administrators) = evidence.stored.administrators.get(&event.application) else { continue };
        let told = evidence.stored.told.iter().filter(|delivery| delivery.event == event.id);
        let mut lanes: Vec<_> = told.map(|delivery| delivery.lane_id).collect();
        let deliveries = lanes.len();
        lanes.sort_unstable();
        lanes.dedup();
        if deliveries != *administrators || lanes.len() != *administrators {
            return Err(format!("event {} has {deliveries} mails to {} of {administrators} administrators", event.id, lanes.len()));
        }
    }
    Ok(())
}

pub(super) fn every_mail_was_taken(evidence: &Evidence<'_>) -> Result<(), String> {
    let taken: Vec<DeliveryId> = mails(evidence).filter(|mail| mail.is_taken).map(|mail| mail.delivery).collect();
    for delivery in &evidence.stored.told {
        let is_erased = evidence.stored.events.get(&delivery.event).is_some_and(|event| event.erased_at.is_some());
        let is_delivered = matches!(delivery.stage, Stage::Delivered { .. });
        if !(is_erased || is_delivered && taken.contains(&delivery.id)) {
            return Err(format!("the mail of delivery {} is {:?}, and was taken {} times", delivery.id, delivery.stage, {
                taken.iter().filter(|id| **id == delivery.id).count()
            }));
        }
    }
    Ok(())
}

/// All mails, in the order in which they were begun.
fn mails<'a>(evidence: &Evidence<'a>) -> impl Iterator<Item = Mailed<'a>> {
    let mut mails: BTreeMap<MailNo, Mailed<'a>> = BTreeMap::new();
    for (line, entry) in evidence.entries.iter().enumerate() {
        match &entry.what {
            Happening::MailBegan(mail, delivery, to) => {
                mails.insert(*mail, Mailed { delivery: *delivery, to, begun: line, is_taken: false, end: None });
            }
            Happening::MailTaken(mail) => mails.get_mut(mail).into_iter().for_each(|mail| mail.is_taken = true),
            Happening::MailEnded(mail, end) => mails.get_mut(mail).into_iter().for_each(|mail| mail.end = Some((line, *end))),
            _ => {}
        }
    }
    mails.into_values()
}
