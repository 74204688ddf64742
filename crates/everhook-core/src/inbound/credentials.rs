//! What a source keeps beside its recipe: secrets, and what its provider gave to it.

use std::fmt;

/// How many secrets a source may have: a rotation has two, a provider with a key for each account some more. Each costs a MAC per request.
pub const SECRETS_MAX: usize = 10;

/// How many bytes a secret may have: an RSA public key of 8,192 bits as PEM has 1.4 KiB.
pub const SECRET_BYTES_MAX: usize = 4 * 1024;

/// What a source keeps beside its recipe.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Shared secrets or public keys, as the provider shows them. Any of them may have signed.
    pub secrets: Vec<String>,
    /// What a handshake must repeat.
    pub verify_token: Option<String>,
    /// The subscription that events must name.
    pub subscription_id: Option<String>,
    /// The provider's id of the hook or app, where the signed text or a check holds it: PayPal's webhook id, an SNS topic, a TikTok app key.
    pub app_id: Option<String>,
    /// Who a JSON web token must be for.
    pub audience: Option<String>,
    /// The URL that the provider calls, where it is signed.
    pub public_url: Option<String>,
}

/// Shows which are set, never what they are.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("secrets", &self.secrets.len())
            .field("verify_token", &self.verify_token.is_some())
            .field("subscription_id", &self.subscription_id)
            .field("app_id", &self.app_id)
            .field("audience", &self.audience)
            .field("public_url", &self.public_url)
            .finish()
    }
}

/// Something that a kind uses beside its recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The field of [`Credentials`], as the API spells it.
    pub field: &'static str,
    /// Whether a source cannot be created without it.
    pub required: bool,
}
