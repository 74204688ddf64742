//! API keys, as the server knows them: by hash, never by text.

use crate::{
    ids::{ApiKeyId, ApplicationId, OrganizationId},
    time::Timestamp,
};

/// SHA-256 of a key's text. Keys are 160 bits of randomness or more, so that a fast hash is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ApiKeyHash(pub [u8; 32]);

/// What the server keeps of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Its identity, for listing and revoking.
    pub id: ApiKeyId,
    /// The tenant it acts for; an admin key acts for any.
    pub organization: OrganizationId,
    /// The only application that it reaches; all of its organization's if absent.
    pub application: Option<ApplicationId>,
    /// Shown to people.
    pub name: String,
    /// The first characters of its text, by which a person finds the key that they hold.
    pub prefix: String,
    /// What it may do.
    pub scopes: Scopes,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it is refused.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to the minute; `None` if it never was.
    pub last_used_at: Option<Timestamp>,
}

/// One permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Publish events.
    Publish,
    /// Read everything but secrets.
    Read,
    /// Everything inside one organization.
    Manage,
    /// Everything on the server.
    Admin,
}

impl Scope {
    /// All scopes, from the least to the most powerful.
    pub const ALL: [Self; 4] = [Self::Publish, Self::Read, Self::Manage, Self::Admin];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Read => "read",
            Self::Manage => "manage",
            Self::Admin => "admin",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// The set as a number, for stores.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set that a store kept as a number; unknown bits are dropped.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 0b1111)
    }

    /// Whether a holder may do what `needed` permits: `manage` includes reading and publishing, `admin` everything.
    pub const fn allow(self, needed: Scope) -> bool {
        let held_by = match needed {
            Scope::Publish | Scope::Read => needed.bit() | Scope::Manage.bit() | Scope::Admin.bit(),
            Scope::Manage => Scope::Manage.bit() | Scope::Admin.bit(),
            Scope::Admin => Scope::Admin.bit(),
        };
        self.0 & held_by != 0
    }

    /// The scopes that were granted, not those that they include.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.0 & scope.bit() != 0)
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}
