//! Endpoints: where events go, and how.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use url::{Host, Position, Url};

use crate::{
    ids::{ApplicationId, EndpointId, OrganizationId, RevisionNumber, ScheduleId, ScheduleVersion, Uid},
    model::{BreakerConfig, EventTypePattern, Ordering, RateLimit, SealedSecrets},
    time::Timestamp,
};

/// A URL with event types, secrets and policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    /// Its identity, and its lane's.
    pub id: EndpointId,
    /// The tenant that owns it.
    pub organization: OrganizationId,
    /// The application whose events it gets.
    pub application: ApplicationId,
    /// The name that its owner uses for it in paths; unique in the application.
    pub uid: Option<Uid>,
    /// Shown to people.
    pub name: Option<String>,
    /// Shown to people.
    pub description: Option<String>,
    /// Where requests go.
    pub target: Target,
    /// Whether a new URL must prove that it expects our requests.
    pub verify_url: bool,
    /// Which events it gets.
    pub event_types: Vec<EventTypePattern>,
    /// The labels that an event must have for it, all of them.
    pub labels: BTreeMap<String, String>,
    /// What an event's data must say for it: a JSON object, byte for byte. Checked: it parses.
    pub filter: Option<String>,
    /// What signs its requests.
    pub secrets: SealedSecrets,
    /// How `X-Webhook-Signature` is written.
    pub signature_style: SignatureStyle,
    /// What the body is.
    pub payload_style: PayloadStyle,
    /// Added to every request, as the owner wrote them. Checked: they override nothing of ours.
    pub headers: Vec<(String, String)>,
    /// Which revision of URL, secrets, styles and headers that is: the one that its attempts keep.
    pub revision: RevisionNumber,
    /// The owner's own data about it: a JSON object, byte for byte.
    pub metadata: Option<String>,
    /// The schedule version that new deliveries keep.
    pub retry_schedule: ScheduleVersion,
    /// The organization's schedule whose newest version that is; `None` for a preset and for numbers of its own.
    pub follows: Option<ScheduleId>,
    /// How long one attempt may take; the schedule's or 15 s if absent.
    pub timeout: Option<Duration>,
    /// The factor by which each further attempt may take longer, at most three times as long in all.
    pub timeout_growth_factor: f64,
    /// How many requests may be under way at once.
    pub max_concurrency: u32,
    /// Which of its deliveries go one after the other.
    pub ordering: Ordering,
    /// How many requests may start in a time.
    pub rate_limit: Option<RateLimit>,
    /// When it is left alone because it fails.
    pub breaker: BreakerConfig,
    /// How fast what gathered during a pause is sent; `None` once that is done.
    pub drain: Option<RateLimit>,
    /// Since when nothing is sent to it, though its deliveries are made; `None` if it is not paused.
    pub paused_at: Option<Timestamp>,
    /// Whether it gets events now.
    pub state: EndpointState,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// Whether an endpoint gets events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointState {
    /// It does.
    Enabled,
    /// New events make no delivery for it, and its waiting deliveries are cancelled.
    Disabled {
        /// Since when.
        at: Timestamp,
        /// Who decided.
        reason: DisabledReason,
    },
    /// As disabled, for good. The row stays, so that history can be read.
    Deleted {
        /// Since when.
        at: Timestamp,
    },
}

/// Who disabled an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisabledReason {
    /// Its owner.
    ByOwner,
    /// The endpoint itself, by answering `410 Gone`.
    Gone,
    /// Everhook, because it failed for days.
    Failing,
}

impl DisabledReason {
    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ByOwner => "by_owner",
            Self::Gone => "gone",
            Self::Failing => "failing",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::ByOwner, Self::Gone, Self::Failing].into_iter().find(|reason| reason.as_str() == name)
    }
}

/// Where requests go. An address that was allowed when the endpoint was registered is vetted again on each connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The URL as its owner wrote it.
    pub written: String,
    /// The same, parsed: what is requested.
    pub url: Url,
}

impl Target {
    /// The URL that is requested: as it was parsed, without what browsers keep to themselves.
    pub fn requested(&self) -> &str {
        &self.url[..Position::AfterQuery]
    }

    /// What the first line of a request names.
    pub fn path_and_query(&self) -> &str {
        &self.url[Position::BeforePath..Position::AfterQuery]
    }

    /// What `host` says: the host, and the port unless it is the scheme's own.
    pub fn authority(&self) -> &str {
        &self.url[Position::BeforeHost..Position::AfterPort]
    }

    /// The address, if the URL names one instead of a host.
    pub fn literal_address(&self) -> Option<IpAddr> {
        match self.host()? {
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
            Host::Domain(_) => None,
        }
    }

    /// The host, understood as for `https` whatever the scheme: the URL's own parser takes the host of an unknown scheme for mere text, and
    /// `amqp://0x7f.1` would be a name.
    pub fn host(&self) -> Option<Host> {
        match self.url.host()? {
            Host::Domain(_) if self.is_amqp() => Host::parse(self.url.host_str()?).ok(),
            host => Some(host.to_owned()),
        }
    }

    /// The port, or the scheme's own if none is named.
    pub fn port(&self) -> Option<u16> {
        match self.url.scheme() {
            "amqp" => Some(self.url.port().unwrap_or(5672)),
            "amqps" => Some(self.url.port().unwrap_or(5671)),
            _ => self.url.port_or_known_default(),
        }
    }

    /// Whether it is a message broker instead of a web server.
    pub fn is_amqp(&self) -> bool {
        matches!(self.url.scheme(), "amqp" | "amqps")
    }

    /// Whether the connection is encrypted.
    pub fn is_secure(&self) -> bool {
        matches!(self.url.scheme(), "https" | "amqps")
    }
}

/// How `X-Webhook-Signature` is written. The Standard Webhooks headers are always there beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SignatureStyle {
    /// `t=<unix>,v1=<hex hmac of "t.body">`; two `v1=` during a rotation.
    #[default]
    Timestamped,
    /// `sha256=<hex hmac of body>`; the old secret's during a rotation, the new one's in `X-Webhook-Signature-Next`.
    Sha256,
    /// As `Sha256`, without the prefix.
    Hex,
}

impl SignatureStyle {
    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timestamped => "timestamped",
            Self::Sha256 => "sha256",
            Self::Hex => "hex",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Timestamped, Self::Sha256, Self::Hex].into_iter().find(|style| style.as_str() == name)
    }
}

/// What the body of a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadStyle {
    /// `{"id","type","timestamp","data",…}`.
    #[default]
    Envelope,
    /// The event's `data` alone.
    Raw,
}

impl PayloadStyle {
    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Envelope => "envelope",
            Self::Raw => "raw",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Envelope, Self::Raw].into_iter().find(|style| style.as_str() == name)
    }
}
