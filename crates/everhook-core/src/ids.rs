//! Identities. Each is a UUIDv7 of its own type, so that an endpoint's id cannot be passed where an event's is meant.
//!
//! Version 7 sorts by time of making, so that inserts append to the end of every index.

use std::{fmt, str::FromStr};

use uuid::Uuid;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// Wraps a UUID that is known to name this kind of thing.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The bare UUID, for stores and wire formats.
            pub const fn as_uuid(&self) -> &Uuid {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::try_parse(text).map(Self)
            }
        }
    )+};
}

ids! {
    /// The tenant.
    OrganizationId;
    /// One integration inside an organization.
    ApplicationId;
    /// A URL that events are delivered to.
    EndpointId;
    /// The deliveries that share one destination, with its concurrency, breaker, rate and order. The UUID is that of the destination.
    LaneId;
    /// A way to tell people something, such as the e-mail address of an administrator.
    ChannelId;
    /// Where webhooks of another provider come in.
    SourceId;
    /// What happened. Stable over retries and replays: it is the `webhook-id` that receivers see.
    EventId;
    /// One event for one endpoint: the unit that is retried.
    DeliveryId;
    /// An API key's record (never the key itself).
    ApiKeyId;
    /// A retry schedule that an organization named. Its versions come and go; this stays.
    ScheduleId;
    /// What an organization said about a type of events.
    EventTypeId;
    /// A long-running bulk action.
    OperationId;
    /// A line of the audit log.
    AuditEntryId;
    /// An alert rule that an organization wrote, or its own version of a default one.
    AlertRuleId;
    /// How one alert rule stands at one thing that it watches.
    AlertStatusId;
    /// That a health provider's user is a profile.
    HealthConnectionId;
    /// One measurement of a profile.
    HealthMetricId;
    /// A call that a person decides about.
    ApprovalId;
}

impl From<EndpointId> for LaneId {
    fn from(endpoint: EndpointId) -> Self {
        Self(endpoint.0)
    }
}

impl From<ChannelId> for LaneId {
    fn from(channel: ChannelId) -> Self {
        Self(channel.0)
    }
}

impl From<SourceId> for LaneId {
    fn from(source: SourceId) -> Self {
        Self(source.0)
    }
}

/// What happens in an application is counted under its own id, beside the lanes that it has.
impl From<ApplicationId> for LaneId {
    fn from(application: ApplicationId) -> Self {
        Self(application.0)
    }
}

/// As with an application.
impl From<OrganizationId> for LaneId {
    fn from(organization: OrganizationId) -> Self {
        Self(organization.0)
    }
}

impl LaneId {
    /// The endpoint that has this lane, if the lane's destination is an endpoint: the UUID is the same.
    pub const fn endpoint(self) -> EndpointId {
        EndpointId(self.0)
    }
}

/// Names one immutable version of a retry schedule. A delivery keeps the version of its making.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScheduleVersion(pub i64);

/// Names one revision of what shapes an endpoint's requests; counted from one in each endpoint. An attempt keeps the one that it was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RevisionNumber(pub u32);

impl RevisionNumber {
    /// What a new endpoint has.
    pub const FIRST: Self = Self(1);

    /// The one after.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A name given by the user at creation that stands in any path for the id: `^[A-Za-z0-9_.:-]{1,128}$`, and not a UUID.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Uid(String);

/// The longest `uid` that is taken.
pub const UID_CHARS_MAX: usize = 128;

impl Uid {
    /// Checks the spelling. A UUID is refused, because it could stand for another row's id.
    pub fn parse(text: &str) -> Option<Self> {
        let spelled = (1..=UID_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_name_byte);
        (spelled && Uuid::try_parse(text).is_err()).then(|| Self(text.to_owned()))
    }

    /// The text as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The bytes that uids and event types are made of.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-')
}

/// How a path names a row: by its id, or by the `uid` its owner gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ref<Id> {
    /// The id that Everhook made.
    Id(Id),
    /// The name that the user gave.
    Uid(Uid),
}

impl<Id: FromStr> Ref<Id> {
    /// Reads a path segment. `None` means that no row can have this name.
    pub fn parse(segment: &str) -> Option<Self> {
        match segment.parse() {
            Ok(id) => Some(Self::Id(id)),
            Err(_) => Uid::parse(segment).map(Self::Uid),
        }
    }
}
