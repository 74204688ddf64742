//! Which channels of an organization get an operational event.
//!
//! An administrator's e-mail gets only what calls for action, that of an application's owner only alerts about the application; a channel of a service gets
//! what its owner asked for. An alert names its own recipients.

use serde_json::Value;

use super::{Notice, has_words_for, of_event};
use crate::{
    model::{Channel, ChannelTarget, EventType, EventTypePattern, NoticeSeverity, ServiceChannel, ServiceKind},
    policy::matching,
};

/// The events that are sent by e-mail. That an app fails its health checks is an alert: `app.unhealthy` would say it twice.
pub const EMAILED_TYPES: [&str; 5] = ["alert.fired", "alert.resolved", "endpoint.warning", "endpoint.disabled", "endpoint.recovered"];

/// What a channel gets whose owner does not say: what somebody should act on.
const DEFAULT_PATTERNS: [&str; 8] = [
    "alert.*",
    "endpoint.warning",
    "endpoint.disabled",
    "endpoint.recovered",
    "amqp.*",
    "job.dead",
    "dlq.replay_failed",
    "approval.requested",
];

/// The same for PagerDuty: what has an end, so that its incidents are resolved.
const DEFAULT_PATTERNS_OF_INCIDENTS: [&str; 5] = ["alert.*", "endpoint.warning", "endpoint.disabled", "endpoint.recovered", "amqp.*"];

/// What a channel of this kind gets whose owner does not say.
pub fn default_patterns(kind: ServiceKind) -> Vec<EventTypePattern> {
    let texts: &[&str] = if kind == ServiceKind::PagerDuty { &DEFAULT_PATTERNS_OF_INCIDENTS } else { &DEFAULT_PATTERNS };
    texts.iter().map(|text| EventTypePattern::parse(text).expect("our own patterns are well-formed")).collect()
}

/// Whether a channel may get events of this type, whatever their data says. Asked once for each type.
pub fn may_get(channel: &Channel, event_type: &EventType) -> bool {
    match &channel.to {
        ChannelTarget::Admin(_) => EMAILED_TYPES.contains(&event_type.as_str()),
        ChannelTarget::Owner(_) => is_alert(event_type),
        ChannelTarget::Service(service) => {
            service.enabled && has_words_for(event_type) && (is_alert(event_type) || matching::wants(&service.event_types, event_type))
        }
    }
}

/// Which of the channels that may get an event's type get the event.
pub fn choose<'a>(channels: &[&'a Channel], event_type: &EventType, data: &Value) -> Vec<&'a Channel> {
    let Some(notice) = of_event(event_type, data) else { return Vec::new() };
    let recipients = Recipients::of(event_type, data, channels);
    channels.iter().copied().filter(|channel| recipients.include(channel, event_type, &notice)).collect()
}

/// Why a channel does not get an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omission {
    /// There is no text for events of this type.
    NoText,
    /// It is turned off.
    Disabled,
    /// It gets other types.
    TypeDiffers,
    /// It gets only what is more serious.
    LessSerious,
    /// The alert names others.
    NotARecipient,
}

/// Why a channel does not get an event, by its settings; `None` if it gets it. `channels` are all of its organization.
pub fn omission(channel: &Channel, channels: &[&Channel], event_type: &EventType, data: &Value) -> Option<Omission> {
    let Some(notice) = of_event(event_type, data) else { return Some(Omission::NoText) };
    if channel.service().is_some_and(|service| !service.enabled) {
        return Some(Omission::Disabled);
    }
    if !may_get(channel, event_type) {
        return Some(Omission::TypeDiffers);
    }
    let candidates: Vec<&Channel> = channels.iter().copied().filter(|channel| may_get(channel, event_type)).collect();
    let recipients = Recipients::of(event_type, data, &candidates);
    if recipients.include(channel, event_type, &notice) {
        return None;
    }
    if !recipients.address(channel) {
        return Some(Omission::NotARecipient);
    }
    let wants_type = channel.service().is_none_or(|service| matching::wants(&service.event_types, event_type));
    Some(if wants_type { Omission::LessSerious } else { Omission::TypeDiffers })
}

/// Whom an event is for.
struct Recipients<'a> {
    /// Services that asked for such events.
    services: bool,
    /// The administrators of the organization.
    admins: bool,
    /// These in any case.
    named: Vec<&'a str>,
    /// Whether administrators were notified already, by the node itself.
    is_sent: bool,
}

impl<'a> Recipients<'a> {
    /// An alert names its recipients. The administrators stand in for an owner who has no address, and get it with everyone if it names only channels that
    /// are not there, or are turned off: somebody must.
    fn of(event_type: &EventType, data: &'a Value, channels: &[&Channel]) -> Self {
        let recipients = &data["recipients"];
        if !is_alert(event_type) || !recipients.is_object() {
            return Self { services: true, admins: true, named: Vec::new(), is_sent: false };
        }
        let mut named: Vec<&str> = recipients["channels"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let finds_one = channels.iter().any(|channel| named.contains(&channel.name()));
        let (for_owner, for_admins) = (recipients["owner"] == true, recipients["admins"] == true);
        let is_there = |address: &&str| channels.iter().any(|channel| channel.address().is_some_and(|other| other.as_str() == *address));
        let owner = recipients["owner_email"].as_str().filter(|_| for_owner).filter(is_there);
        named.extend(owner);
        let is_sent = data["sent_directly"] == true;
        let services = !is_sent && (for_owner || for_admins || !finds_one);
        Self { services, admins: !is_sent && (for_admins || (services && owner.is_none())), named, is_sent }
    }

    fn include(&self, channel: &Channel, event_type: &EventType, notice: &Notice) -> bool {
        if self.named.contains(&channel.name()) {
            return !self.is_sent || channel.service().is_some();
        }
        self.address(channel) && channel.service().is_none_or(|service| asks_for(service, event_type, notice.severity))
    }

    /// Whether it is for such channels, if they want it.
    fn address(&self, channel: &Channel) -> bool {
        match &channel.to {
            ChannelTarget::Admin(_) => self.admins,
            ChannelTarget::Owner(_) => false,
            ChannelTarget::Service(_) => self.services,
        }
    }
}

fn asks_for(service: &ServiceChannel, event_type: &EventType, severity: NoticeSeverity) -> bool {
    matching::wants(&service.event_types, event_type) && service.min_severity.is_none_or(|min| severity >= min)
}

fn is_alert(event_type: &EventType) -> bool {
    event_type.as_str().starts_with("alert.")
}
