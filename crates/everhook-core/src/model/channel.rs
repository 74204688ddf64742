//! Channels: how people are notified. A channel is a destination of deliveries, as an endpoint is.
//!
//! What a channel of a service says is checked by `manage/channels` before one is made.

use std::fmt;

use aws_lc_rs::digest::{Context, SHA256};
use uuid::Uuid;

use crate::{
    ids::{ChannelId, OrganizationId, ScheduleVersion},
    model::{DisabledReason, EmailAddress, EndpointState, EventTypePattern, SealedSecret, Secret},
    time::Timestamp,
};

/// How many administrators of an organization get its notifications by e-mail.
pub const ADMIN_EMAILS_MAX: usize = 20;

/// How many addresses of owners an organization may have, beside those of its administrators: its channels are read as a whole.
pub const OWNER_EMAILS_MAX: usize = 1_000;

/// How many channels of services an organization may have: each is a request for each notification.
pub const CHANNELS_MAX: u32 = 20;

/// The longest name of a channel of a service.
pub const CHANNEL_NAME_CHARS_MAX: usize = 64;

/// Where an organization's notifications go. It takes its deliveries from the organization's application `operational`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its identity, which is also that of its lane.
    pub id: ChannelId,
    /// The version of the retry schedule that new deliveries keep.
    pub retry_schedule: ScheduleVersion,
    /// Whom it leads to.
    pub to: ChannelTarget,
}

/// Whom a channel leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelTarget {
    /// An administrator of the organization. It follows from `admin_emails`.
    Admin(EmailAddress),
    /// An owner of applications who is no administrator. It follows from `owner_email` of applications and manifests.
    Owner(EmailAddress),
    /// A service that somebody set up.
    Service(Box<ServiceChannel>),
}

/// A channel that somebody set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceChannel {
    /// Unique in the organization.
    pub name: ChannelName,
    /// Which service.
    pub kind: ServiceKind,
    /// Its [`ChannelCredentials`].
    pub credentials: SealedSecret,
    /// Which operational events it gets.
    pub event_types: Vec<EventTypePattern>,
    /// What is less serious is left out.
    pub min_severity: Option<NoticeSeverity>,
    /// Whether it gets any.
    pub enabled: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

impl Channel {
    /// What it is addressed by: its name, or the e-mail address.
    pub fn name(&self) -> &str {
        match &self.to {
            ChannelTarget::Admin(address) | ChannelTarget::Owner(address) => address.as_str(),
            ChannelTarget::Service(service) => service.name.as_str(),
        }
    }

    /// The kind, on every wire.
    pub fn kind(&self) -> &'static str {
        match &self.to {
            ChannelTarget::Admin(_) | ChannelTarget::Owner(_) => "email",
            ChannelTarget::Service(service) => service.kind.as_str(),
        }
    }

    /// The e-mail address, if it leads to one.
    pub fn address(&self) -> Option<&EmailAddress> {
        match &self.to {
            ChannelTarget::Admin(address) | ChannelTarget::Owner(address) => Some(address),
            ChannelTarget::Service(_) => None,
        }
    }

    /// What somebody set up; `None` of an e-mail address.
    pub fn service(&self) -> Option<&ServiceChannel> {
        match &self.to {
            ChannelTarget::Admin(_) | ChannelTarget::Owner(_) => None,
            ChannelTarget::Service(service) => Some(service),
        }
    }

    /// Whether it gets deliveries.
    pub fn state(&self) -> EndpointState {
        match self.service() {
            Some(service) if !service.enabled => EndpointState::Disabled { at: service.updated_at, reason: DisabledReason::ByOwner },
            _ => EndpointState::Enabled,
        }
    }
}

impl ChannelId {
    /// Of the channel that leads to an e-mail address of an organization. It follows from the two, so that an address that is removed and added again has the same
    /// lane.
    pub fn of_email(organization: OrganizationId, address: &EmailAddress) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(organization.as_uuid().as_bytes());
        context.update(b"email");
        context.update(address.as_str().as_bytes());
        let digest = context.finish();
        let (bytes, _) = digest.as_ref().split_first_chunk().expect("SHA-256 has 32 bytes");
        Self::from_uuid(uuid::Builder::from_custom_bytes(*bytes).into_uuid())
    }
}

/// The services that notifications are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// An incoming webhook of Slack, or of what understands the same (Mattermost, Rocket.Chat, Discord under `/slack`).
    Slack,
    /// Version 2 of PagerDuty's Events API.
    PagerDuty,
    /// A workflow of Microsoft Teams.
    Teams,
    /// A signed JSON object to any URL.
    Webhook,
}

impl ServiceKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Slack, Self::PagerDuty, Self::Teams, Self::Webhook];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Slack => "slack",
            Self::PagerDuty => "pagerduty",
            Self::Teams => "teams",
            Self::Webhook => "webhook",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Its name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Slack => "Slack",
            Self::PagerDuty => "PagerDuty",
            Self::Teams => "Microsoft Teams",
            Self::Webhook => "the webhook",
        }
    }
}

/// What a channel needs to reach its service. Kept sealed as one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelCredentials {
    /// The URL, or PagerDuty's routing key.
    pub target: Secret<String>,
    /// What signs the requests of the kind `webhook`; `None` of others.
    pub signing_secret: Option<Secret<String>>,
}

/// Separates the two. Neither has line breaks.
const SEPARATOR: char = '\n';

impl ChannelCredentials {
    /// The text that is sealed.
    pub fn write(&self) -> String {
        match &self.signing_secret {
            Some(secret) => format!("{}{SEPARATOR}{}", self.target.expose(), secret.expose()),
            None => self.target.expose().clone(),
        }
    }

    /// Reads what [`ChannelCredentials::write`] wrote.
    pub fn read(text: &str) -> Self {
        let (target, secret) = text.split_once(SEPARATOR).map_or((text, None), |(target, secret)| (target, Some(secret)));
        Self { target: Secret::new(target.to_owned()), signing_secret: secret.map(|secret| Secret::new(secret.to_owned())) }
    }
}

/// How serious the cause of a notification is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeSeverity {
    /// Nobody has to do anything.
    Info,
    /// It needs attention.
    Warning,
    /// Somebody must act.
    Critical,
}

impl NoticeSeverity {
    /// All of them, in their order.
    pub const ALL: [Self; 3] = [Self::Info, Self::Warning, Self::Critical];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|severity| severity.as_str() == name)
    }
}

/// The name of a channel of a service: 1 to 64 of `A-Z a-z 0-9 _ -`, and not a UUID. It never looks like an e-mail address, by which others are addressed.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelName(Box<str>);

impl ChannelName {
    /// What a name must be, as the rest of a sentence.
    pub const RULE: &'static str = "must be 1 to 64 of the characters A-Z a-z 0-9 _ - and not a UUID";

    /// Checks the spelling.
    pub fn parse(text: &str) -> Option<Self> {
        let is_spelled = (1..=CHANNEL_NAME_CHARS_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        (is_spelled && Uuid::try_parse(text).is_err()).then(|| Self(text.into()))
    }

    /// The text as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChannelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ChannelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_an_organization_has_one_channel_and_no_other_has_it() {
        let organization = |number| OrganizationId::from_uuid(Uuid::from_u128(number));
        let channel = |number, address: &str| ChannelId::of_email(organization(number), &EmailAddress::parse(address).unwrap());
        assert_eq!(channel(1, "ops@example.com"), channel(1, "ops@example.com"));
        assert_ne!(channel(1, "ops@example.com"), channel(2, "ops@example.com"));
        assert_ne!(channel(1, "ops@example.com"), channel(1, "dev@example.com"));
    }

    #[test]
    fn credentials_are_read_as_they_were_written_and_never_shown() {
        let secret = |text: &str| Secret::new(text.to_owned());
        for signing_secret in [None, Some(secret("whsec_x"))] {
            let credentials = ChannelCredentials { target: secret("https://example.com/a?b=c"), signing_secret };
            assert_eq!(ChannelCredentials::read(&credentials.write()), credentials);
            assert!(!format!("{credentials:?}").contains("example"));
        }
    }

    #[test]
    fn a_name_is_never_an_address_or_an_id() {
        for good in ["a", "Ops-alerts_2", &"x".repeat(64)] {
            assert_eq!(ChannelName::parse(good).expect(good).as_str(), good);
        }
        for bad in ["", "a b", "ops@example.com", "a.b", "a/b", "ü", &"x".repeat(65), "01920000-0000-7000-8000-000000000000"] {
            assert_eq!(ChannelName::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn names_of_kinds_and_severities_are_read_as_they_are_written() {
        assert!(ServiceKind::ALL.into_iter().all(|kind| ServiceKind::parse(kind.as_str()) == Some(kind)));
        assert!(NoticeSeverity::ALL.into_iter().all(|severity| NoticeSeverity::parse(severity.as_str()) == Some(severity)));
        assert!(NoticeSeverity::Info < NoticeSeverity::Warning && NoticeSeverity::Warning < NoticeSeverity::Critical);
    }
}
