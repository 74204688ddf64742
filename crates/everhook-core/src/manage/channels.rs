//! Channels: where notifications are sent. Those of services are created, changed and deleted here; those of e-mail follow from `admin_emails` and
//! `owner_email`.
//!
//! URLs and keys are sealed as they come in, and shown to nobody again.

use std::time::Duration;

use serde_json::json;

use super::{CHANGE_ROUNDS_MAX, Change, Conflict, Fault, Noun, Refusal, audit, changed_at, refuse_faults, unexpected};
use crate::{
    ids::{ChannelId, EventId, OrganizationId, ScheduleVersion},
    line::{
        Line,
        email::{self, Unsendable},
        service::{self, ServiceEvent},
    },
    model::{
        ApplicationKind, AuditAction, Author, CHANNELS_MAX, Channel, ChannelCredentials, ChannelName, ChannelTarget, EmailAddress,
        EventType, EventTypePattern, NoticeSeverity, Report, SealedSecret, Secret, Sent, ServiceChannel, ServiceKind, SigningKey,
    },
    policy::{
        audit::{changed, made, removed},
        notice::{self, routing::default_patterns},
        target::{self, TargetRules},
    },
    ports::{Created, EmailMessage, StoreError, Updated},
};

/// How many patterns of event types a channel may have: more than there are types.
const PATTERNS_MAX: usize = 50;

/// How long PagerDuty's routing keys are: letters and digits.
const ROUTING_KEY_CHARS: usize = 32;

/// How long a mail that tries a channel out may take.
const TEST_MAIL_TIMEOUT: Duration = Duration::from_secs(20);

/// What a channel is to be. An update needs only what changes.
#[derive(Clone, Debug, Default)]
pub struct ChannelChange {
    /// Unique in the organization.
    pub name: Change<String>,
    /// Only when it is made.
    pub kind: Change<String>,
    /// Of all kinds but `pagerduty`.
    pub url: Change<Secret<String>>,
    /// Of the kind `pagerduty`.
    pub routing_key: Change<Secret<String>>,
    /// What signs the requests of the kind `webhook`.
    pub secret: Change<Secret<String>>,
    /// Which events it gets.
    pub event_types: Change<Vec<String>>,
    /// What is less serious is left out.
    pub min_severity: Change<String>,
    /// Whether it gets any.
    pub enabled: Change<bool>,
}

/// All channels of an organization, with what may be shown of where they lead.
///
/// # Errors
/// [`StoreError`] if they cannot be read or opened.
pub async fn list(line: &Line, organization: OrganizationId) -> Result<Vec<(Channel, String)>, StoreError> {
    let channels = line.ports.channels.channels(organization).await?;
    channels.into_iter().map(|channel| shown_target(line, &channel).map(|shown| (channel, shown))).collect()
}

/// A channel by its name, its address or its id.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has none.
pub async fn find(line: &Line, organization: OrganizationId, name: &str) -> Result<Channel, Refusal> {
    let channels = line.ports.channels.channels(organization).await?;
    channels.into_iter().find(|channel| channel.name() == name || channel.id.to_string() == name).ok_or(Refusal::NotFound(Noun::Channel))
}

/// What may be shown of where a channel leads: an address, or the host of a URL.
///
/// # Errors
/// [`StoreError::Corrupt`] if it was sealed with another key.
pub fn shown_target(line: &Line, channel: &Channel) -> Result<String, StoreError> {
    let service = match &channel.to {
        ChannelTarget::Admin(address) | ChannelTarget::Owner(address) => return Ok(address.to_string()),
        ChannelTarget::Service(service) => service,
    };
    if service.kind == ServiceKind::PagerDuty {
        return Ok(crate::policy::audit::MASK.to_owned());
    }
    let credentials = service::open(line, channel.id, service)?;
    let url = credentials.target.expose();
    let host_end = url.find("://").map_or(0, |at| at + 3);
    let host_end = url[host_end..].find(['/', '?', '#']).map_or(url.len(), |at| host_end + at);
    Ok(format!("{}/{}", &url[..host_end], crate::policy::audit::MASK))
}

/// Makes a channel of a service. Says also what signs its requests, if anything does: this is the only time.
///
/// # Errors
/// [`Refusal`] lists what is wrong, or says that the name is taken or there are too many.
pub async fn create(
    line: &Line,
    rules: &TargetRules,
    by: &Author,
    asked: ChannelChange,
) -> Result<(Channel, Option<Secret<String>>), Refusal> {
    let (channel, credentials) = draft(line, rules, asked)?;
    let service = channel.service().expect("only channels of services are drafted");
    let note = made(&audit::of_channel(service));
    let entry = audit::entry(line, by, AuditAction::ChannelCreate, channel.id.as_uuid(), note);
    match line.ports.channels.create_channel(by.organization, channel.clone(), CHANNELS_MAX, entry).await? {
        Created::Created => {
            line.catalog.forget_organization(by.organization);
            Ok((channel, credentials.signing_secret))
        }
        Created::NameTaken => Err(Refusal::name_taken(channel.name())),
        Created::TooMany => {
            let words = format!("the organization has reached the limit of {CHANNELS_MAX} channels");
            Err(Refusal::Conflict(Conflict::LimitReached, words))
        }
        Created::UidTaken | Created::NoSuchSchedule | Created::NoSuchApplication | Created::ConfigTooLarge => Err(unexpected()),
    }
}

/// Changes the fields that are given, for notifications from now on.
///
/// # Errors
/// [`Refusal`] lists what is wrong, or says what is missing or taken.
pub async fn change(line: &Line, rules: &TargetRules, by: &Author, name: &str, asked: ChannelChange) -> Result<Channel, Refusal> {
    let mut found = find(line, by.organization, name).await?;
    for _ in 0..CHANGE_ROUNDS_MAX {
        let ChannelTarget::Service(read) = &found.to else { return Err(follows_from_emails()) };
        let mut edited = apply(line, rules, asked.clone(), found.id, read)?;
        edited.updated_at = changed_at(line, read.updated_at);
        let note = changed(&audit::of_channel(read), &audit::of_channel(&edited));
        if note.says_nothing() {
            return Ok(found);
        }
        let entry = audit::entry(line, by, AuditAction::ChannelUpdate, found.id.as_uuid(), note);
        let read_at = read.updated_at;
        let channel = Channel { to: ChannelTarget::Service(Box::new(edited)), ..found.clone() };
        match line.ports.channels.update_channel(by.organization, channel.clone(), read_at, entry).await? {
            Updated::Updated => {
                announce(line, by.organization, channel.id).await?;
                return Ok(channel);
            }
            Updated::NameTaken => return Err(Refusal::name_taken(channel.name())),
            Updated::Changed => {
                let again = line.ports.channels.channels(by.organization).await?.into_iter().find(|channel| channel.id == found.id);
                found = again.ok_or(Refusal::NotFound(Noun::Channel))?;
            }
            Updated::UidTaken | Updated::NoSuchSchedule => return Err(unexpected()),
        }
    }
    Err(Refusal::concurrent_change("channel"))
}

/// Deletes a channel of a service. What still waits for it is cancelled.
///
/// # Errors
/// [`Refusal`] if there is none, or it follows from `admin_emails`.
pub async fn delete(line: &Line, by: &Author, name: &str) -> Result<(), Refusal> {
    let found = find(line, by.organization, name).await?;
    let ChannelTarget::Service(service) = &found.to else { return Err(follows_from_emails()) };
    let entry = audit::entry(line, by, AuditAction::ChannelDelete, found.id.as_uuid(), removed(&audit::of_channel(service)));
    let is_deleted = line.ports.channels.delete_channel(by.organization, found.id, entry).await?;
    announce(line, by.organization, found.id).await?;
    if is_deleted { Ok(()) } else { Err(Refusal::NotFound(Noun::Channel)) }
}

/// Sends a test notification through a channel, also one that is turned off, and waits for what the other side says.
///
/// # Errors
/// [`Refusal`] if there is none, or too many were tried out.
pub async fn test(line: &Line, organization: OrganizationId, name: &str) -> Result<Report, Refusal> {
    let channel = find(line, organization, name).await?;
    let now = line.ports.clock.now();
    let _counted = line.on_demand_limit.begin(organization, now)?;
    let event_type = EventType::parse(notice::TEST_EVENT_TYPE).expect("our own event types are well-formed");
    let data = json!({
        "organization_id": organization.to_string(),
        "channel_id": channel.id.to_string(),
        "channel": channel.name(),
        "sent_at": now.to_string(),
    });
    let event = EventId::from_uuid(line.ports.entropy.uuid(now));
    let text = data.to_string();
    let report = match &channel.to {
        ChannelTarget::Service(service) => {
            let event = ServiceEvent { id: event, event_type: &event_type, data: text.as_bytes(), at: now, attempt: None };
            service::send(line, organization, channel.id, service, &event).await?
        }
        ChannelTarget::Admin(address) | ChannelTarget::Owner(address) => {
            send_mail(line, event, address, &notice::of_event(&event_type, &data)).await
        }
    };
    if let Sent::OutOfResources { error } = &report.sent {
        line.log_shortage(error);
    }
    Ok(report)
}

async fn send_mail(line: &Line, event: EventId, to: &EmailAddress, notice: &Option<notice::Notice>) -> Report {
    let Some(notifier) = &line.ports.notifier else { return email::unsendable(Unsendable::NoMailServer) };
    let Some(notice) = notice else { return email::unsendable(Unsendable::NoWords) };
    let written = notice::email::write(notice, &line.notifications.brand);
    let mail = EmailMessage {
        id: *event.as_uuid(),
        to: to.clone(),
        subject: written.subject,
        text: written.text,
        html: Some(written.html),
        created_at: line.ports.clock.now(),
        timeout: TEST_MAIL_TIMEOUT,
    };
    notifier.send(&mail).await
}

/// A channel was changed or deleted: the next event meets it as it is now, and what waits for one that gets nothing any more is cancelled.
async fn announce(line: &Line, organization: OrganizationId, channel: ChannelId) -> Result<(), StoreError> {
    line.catalog.forget_organization(organization);
    let operational = line.ports.applications.built_in_application(organization, ApplicationKind::Operational).await?;
    if let Some(operational) = operational {
        line.wake_up.changed(operational.id, channel.into());
    }
    Ok(())
}

fn follows_from_emails() -> Refusal {
    let words = "an e-mail channel follows from `admin_emails` of its organization, and from `owner_email` of applications and manifests: change these".to_owned();
    Refusal::Conflict(Conflict::BuiltIn, words)
}

/// A new channel, with its credentials as they were given.
fn draft(line: &Line, rules: &TargetRules, asked: ChannelChange) -> Result<(Channel, ChannelCredentials), Refusal> {
    let mut faults = Vec::new();
    let kind = match asked.kind.clone().check("kind", &mut faults, read_kind) {
        Change::Set(kind) => Some(kind),
        Change::Keep | Change::Clear if faults.is_empty() => {
            faults.push(Fault::new("kind", "is required"));
            None
        }
        Change::Keep | Change::Clear => None,
    };
    if matches!(asked.name, Change::Keep) {
        faults.push(Fault::new("name", "is required"));
    }
    // The placeholder for a missing kind is never stored: the fault is reported.
    let checked = Checked::of(&asked, kind.unwrap_or(ServiceKind::Webhook), rules, &mut faults);
    if let Some(kind) = kind
        && checked.target.is_none()
        && !faults.iter().any(|fault| fault.field == target_field(kind))
    {
        faults.push(Fault::new(target_field(kind), "is required"));
    }
    refuse_faults(faults)?;
    let (Some(kind), Some(name), Some(target)) = (kind, checked.name, checked.target) else { return Err(unexpected()) };
    let now = line.ports.clock.now();
    let id = ChannelId::from_uuid(line.ports.entropy.uuid(now));
    let signing_secret = (kind == ServiceKind::Webhook).then(|| checked.secret.unwrap_or_else(|| new_secret(line)));
    let credentials = ChannelCredentials { target, signing_secret };
    let service = ServiceChannel {
        name,
        kind,
        credentials: seal(line, id, &credentials),
        event_types: checked.event_types.unwrap_or_else(|| default_patterns(kind)),
        min_severity: checked.min_severity.flatten(),
        enabled: checked.enabled.unwrap_or(true),
        created_at: now,
        updated_at: now,
    };
    // The store knows which version the preset `notify` has.
    let channel = Channel { id, retry_schedule: ScheduleVersion(0), to: ChannelTarget::Service(Box::new(service)) };
    Ok((channel, credentials))
}

/// A channel with what was asked for.
fn apply(line: &Line, rules: &TargetRules, asked: ChannelChange, id: ChannelId, read: &ServiceChannel) -> Result<ServiceChannel, Refusal> {
    let mut faults = Vec::new();
    if let Change::Set(kind) = &asked.kind
        && kind != read.kind.as_str()
    {
        faults.push(Fault::new("kind", "can only be set at creation"));
    }
    let checked = Checked::of(&asked, read.kind, rules, &mut faults);
    refuse_faults(faults)?;
    let mut service = read.clone();
    if checked.target.is_some() || checked.secret.is_some() {
        let opened = service::open(line, id, read)?;
        let secret = checked.secret.or_else(|| opened.signing_secret.clone());
        let edited = ChannelCredentials { target: checked.target.unwrap_or_else(|| opened.target.clone()), signing_secret: secret };
        // Sealed anew, the same would look different.
        if edited != opened {
            service.credentials = seal(line, id, &edited);
        }
    }
    if let Some(name) = checked.name {
        service.name = name;
    }
    if let Some(patterns) = checked.event_types {
        service.event_types = patterns;
    }
    if let Some(severity) = checked.min_severity {
        service.min_severity = severity;
    }
    if let Some(enabled) = checked.enabled {
        service.enabled = enabled;
    }
    Ok(service)
}

/// The fields that are given, read.
struct Checked {
    name: Option<ChannelName>,
    target: Option<Secret<String>>,
    secret: Option<Secret<String>>,
    event_types: Option<Vec<EventTypePattern>>,
    min_severity: Option<Option<NoticeSeverity>>,
    enabled: Option<bool>,
}

impl Checked {
    fn of(asked: &ChannelChange, kind: ServiceKind, rules: &TargetRules, faults: &mut Vec<Fault>) -> Self {
        let asked = asked.clone();
        let is_pagerduty = kind == ServiceKind::PagerDuty;
        let url = asked.url.check("url", faults, |url| read_url(&url, is_pagerduty, rules));
        let key = asked.routing_key.check("routing_key", faults, |key| read_routing_key(key, is_pagerduty));
        let secret = asked.secret.check("secret", faults, |secret| read_secret(secret, kind));
        for (field, is_null) in [
            ("url", matches!(url, Change::Clear)),
            ("routing_key", matches!(key, Change::Clear)),
            ("secret", matches!(secret, Change::Clear)),
            ("name", matches!(asked.name, Change::Clear)),
        ] {
            if is_null {
                faults.push(Fault::new(field, "must not be null"));
            }
        }
        let event_types = asked.event_types.check("event_types", faults, |texts| read_patterns(&texts));
        Self {
            name: set(asked.name.check("name", faults, |name| ChannelName::parse(&name).ok_or_else(|| ChannelName::RULE.to_owned()))),
            target: set(url).or_else(|| set(key)),
            secret: set(secret),
            event_types: match event_types {
                Change::Keep => None,
                Change::Clear => Some(default_patterns(kind)),
                Change::Set(patterns) => Some(patterns),
            },
            min_severity: match asked.min_severity.check("min_severity", faults, |name| read_severity(&name)) {
                Change::Keep => None,
                Change::Clear => Some(None),
                Change::Set(severity) => Some(Some(severity)),
            },
            enabled: match asked.enabled {
                Change::Keep => None,
                Change::Clear => Some(true),
                Change::Set(enabled) => Some(enabled),
            },
        }
    }
}

fn set<T>(change: Change<T>) -> Option<T> {
    match change {
        Change::Set(value) => Some(value),
        Change::Keep | Change::Clear => None,
    }
}

/// The field that says where a channel of this kind leads.
const fn target_field(kind: ServiceKind) -> &'static str {
    match kind {
        ServiceKind::PagerDuty => "routing_key",
        ServiceKind::Slack | ServiceKind::Teams | ServiceKind::Webhook => "url",
    }
}

fn read_kind(name: String) -> Result<ServiceKind, String> {
    match ServiceKind::parse(&name) {
        Some(kind) => Ok(kind),
        None if name == "email" => Err("must not be `email`: such channels follow from `admin_emails` of the organization".to_owned()),
        None => Err("must be `slack`, `pagerduty`, `teams` or `webhook`".to_owned()),
    }
}

fn read_url(url: &Secret<String>, is_pagerduty: bool, rules: &TargetRules) -> Result<Secret<String>, String> {
    if is_pagerduty {
        return Err("must be absent for the kind `pagerduty`, which has a `routing_key`".to_owned());
    }
    // A channel speaks HTTP, whatever endpoints may.
    let rules = TargetRules { allow_amqp: false, ..rules.clone() };
    target::check(url.expose(), &rules).map(|target| Secret::new(target.written)).map_err(|fault| fault.to_string())
}

fn read_routing_key(key: Secret<String>, is_pagerduty: bool) -> Result<Secret<String>, String> {
    if !is_pagerduty {
        return Err("must be absent except for the kind `pagerduty`".to_owned());
    }
    check_routing_key(key.expose()).map(|()| key)
}

/// Whether a text may be the key of an integration of PagerDuty.
///
/// # Errors
/// Says what it must be.
pub fn check_routing_key(text: &str) -> Result<(), String> {
    let is_spelled = text.len() == ROUTING_KEY_CHARS && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_spelled { Ok(()) } else { Err(format!("must be the {ROUTING_KEY_CHARS} letters and digits of an integration's key")) }
}

fn read_secret(secret: Secret<String>, kind: ServiceKind) -> Result<Secret<String>, String> {
    if kind != ServiceKind::Webhook {
        return Err("must be absent except for the kind `webhook`".to_owned());
    }
    SigningKey::parse(secret.expose()).map(|_| secret).map_err(|fault| fault.to_string())
}

fn read_patterns(texts: &[String]) -> Result<Vec<EventTypePattern>, String> {
    if texts.is_empty() || texts.len() > PATTERNS_MAX {
        return Err(format!("must have 1 to {PATTERNS_MAX} patterns"));
    }
    let mut patterns = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let pattern = EventTypePattern::parse(text);
        patterns.push(pattern.ok_or_else(|| format!("[{index}] must be an event type, or one that ends in `.*`, or `*`"))?);
    }
    Ok(patterns)
}

fn read_severity(name: &str) -> Result<NoticeSeverity, String> {
    NoticeSeverity::parse(name).ok_or_else(|| "must be `info`, `warning` or `critical`".to_owned())
}

fn new_secret(line: &Line) -> Secret<String> {
    SigningKey::hmac_from_random(line.ports.entropy.secret_bytes()).text().clone()
}

fn seal(line: &Line, id: ChannelId, credentials: &ChannelCredentials) -> SealedSecret {
    line.ports.vault.seal(id.as_uuid(), credentials.write().as_bytes())
}
