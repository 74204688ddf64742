//! Who owns what: organizations (the tenants) and their applications.

use crate::{
    ids::{ApplicationId, OrganizationId, Uid},
    model::{EmailAddress, PoolName},
    time::Timestamp,
};

/// The uid of the organization that exists on every server, in which admins act unless they name another. Its sources are reached by their names.
pub const DEFAULT_ORGANIZATION_UID: &str = "default";

/// The tenant. Owns applications, endpoints, events and API keys; everything of it is invisible to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Organization {
    /// Its identity.
    pub id: OrganizationId,
    /// The name that its owner uses for it in paths.
    pub uid: Option<Uid>,
    /// Shown to people.
    pub name: String,
    /// How much it may have and do.
    pub limits: OrganizationLimits,
    /// Whose nodes send for it.
    pub worker_pool: PoolName,
    /// Who gets the e-mails for its administrators. No address twice.
    pub admin_emails: Vec<EmailAddress>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// How much an organization may have and do, over all its applications. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrganizationLimits {
    /// How many requests may be begun in a minute; past it deliveries wait.
    pub deliveries_per_minute: Option<u32>,
    /// How many events may be published in a minute; past it they are refused.
    pub events_per_minute: Option<u32>,
    /// How many requests may be under way at once.
    pub concurrency: Option<u32>,
    /// How many endpoints there may be, the deleted not counted.
    pub endpoints: Option<u32>,
    /// How many applications there may be, the built-in ones not counted.
    pub applications: Option<u32>,
    /// How many deliveries may be retried by hand in a minute.
    pub manual_retries_per_minute: Option<u32>,
}

/// One integration inside an organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// Its identity.
    pub id: ApplicationId,
    /// The tenant that owns it.
    pub organization: OrganizationId,
    /// The name that its owner uses for it in paths.
    pub uid: Option<Uid>,
    /// Shown to people; unique in the organization.
    pub name: String,
    /// What it is for.
    pub kind: ApplicationKind,
    /// Whether only types that the organization defined can be published to it.
    pub strict_event_types: bool,
    /// Who gets the alerts about it, unless its manifest names somebody; `None` if the administrators of its organization do.
    pub owner_email: Option<EmailAddress>,
    /// What the paths of its capabilities are appended to, unless its manifest says it.
    pub base_url: Option<String>,
    /// Where the health of its app is checked, behind the base URL, unless its manifest says it; `None` if it is not checked.
    pub health_path: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Where the health of an app is checked if nobody says where.
pub const DEFAULT_HEALTH_PATH: &str = "/health";

/// What an application is for. Every organization is born with one `Default` and one `Operational`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplicationKind {
    /// Named `default`: meant whenever a request names none, so that a small user never meets the word.
    Default,
    /// Named `operational`: carries Everhook's own events about the organization. Its deliveries raise none themselves.
    Operational,
    /// Made by the user.
    Custom,
}
