//! Who owns what: organizations (the tenants) and their applications.

use crate::{
    ids::{ApplicationId, OrganizationId, Uid},
    model::OrganizationLimits,
    time::Timestamp,
};

/// The tenant. Owns applications, endpoints, events and API keys; everything of it is invisible to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Organization {
    /// Its identity.
    pub id: OrganizationId,
    /// The name that its owner uses for it in paths.
    pub uid: Option<Uid>,
    /// Shown to people.
    pub name: String,
    /// What it may use.
    pub limits: OrganizationLimits,
    /// When it was made.
    pub created_at: Timestamp,
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
    /// When it was made.
    pub created_at: Timestamp,
}

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
