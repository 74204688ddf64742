//! Connections: which profile a provider's user is, and what reaches the provider for them.

use super::{ExternalUserId, Permissions, ProfileId, Provider};
use crate::{
    ids::{HealthConnectionId, OrganizationId},
    model::{SealedSecret, Secret},
    time::Timestamp,
};

/// The longest token that is taken, in bytes. Garmin's are JSON web tokens of some 1,500.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// That a provider's user is a profile of the organization. One user may be several profiles: each has a connection, and metrics are written for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its identity.
    pub id: HealthConnectionId,
    /// The tenant that owns it.
    pub organization: OrganizationId,
    /// The provider.
    pub provider: Provider,
    /// The user, by the provider's name.
    pub external_user: ExternalUserId,
    /// The profile.
    pub profile: ProfileId,
    /// What requests for this user are authorized by; `None` where nothing is fetched, and after a deregistration.
    pub tokens: Option<SealedTokens>,
    /// What the user lets the provider pass on; `None` until the provider said so.
    pub permissions: Option<Permissions>,
    /// Whether the user is still connected. A deregistration ends it; creating the connection again begins it anew.
    pub is_connected: bool,
    /// Since when the provider does not renew the tokens any more: the user has to connect again. Also where a refresh was cut off after the provider had
    /// replaced them.
    pub reauthorization_needed_since: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// Tokens as the store keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedTokens {
    /// Authorizes requests.
    pub access: SealedSecret,
    /// Gets the next one. Each refresh may replace it: the new one is stored before the new access token is used.
    pub refresh: Option<SealedSecret>,
    /// When the access token ends; `None` if nobody said.
    pub expires_at: Option<Timestamp>,
}

/// Tokens, opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Authorizes requests.
    pub access: Secret<String>,
    /// Gets the next one.
    pub refresh: Option<Secret<String>>,
    /// When the access token ends; `None` if nobody said.
    pub expires_at: Option<Timestamp>,
}
