//! Sources: where webhooks of other providers come in, and what is done with them.
//!
//! What a source says is checked by `manage/sources` before one is made; what changes with every request is its [`SourceActivity`].

use std::{collections::BTreeMap, fmt, time::Duration};

use ipnet::IpNet;
use uuid::Uuid;

use crate::{
    ids::{ApplicationId, OrganizationId, SourceId},
    model::{ProcessorKind, SealedSecret, WaitsFor},
    time::Timestamp,
};

/// The longest name of a source.
pub const SOURCE_NAME_CHARS_MAX: usize = 64;

/// How many requests an address may make in a minute where nobody says otherwise.
pub const PER_IP_PER_MINUTE: u32 = 1_000;

/// The kind whose recipe is written by its owner, field by field.
pub const KIND_CUSTOM: &str = "custom";

/// The kind that is an HMAC of the body in one header.
pub const KIND_HMAC: &str = "hmac";

/// A place that a provider sends its webhooks to. Belongs to the application whose endpoints get them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its identity, and a segment of its URL.
    pub id: SourceId,
    /// The tenant that owns it.
    pub organization: OrganizationId,
    /// The application that its events are published to.
    pub application: ApplicationId,
    /// Unique in the organization. In the organization `default` it can be used in place of the id in the URL.
    pub name: SourceName,
    /// Which preset its requests are read by, such as `github`.
    pub kind: String,
    /// The recipe's fields as their owner wrote them, for the kinds `custom` and `hmac`; empty for others.
    pub recipe: RecipeTexts,
    /// What the provider signs with, the newest first. Any of them may have signed.
    pub secrets: Vec<SealedSecret>,
    /// What some providers show in their handshake.
    pub verify_token: Option<SealedSecret>,
    /// The provider's subscription that requests must name, where its kind examines it.
    pub subscription_id: Option<String>,
    /// The provider's id of the webhook or app, where its kind signs or checks it.
    pub app_id: Option<String>,
    /// Who a JSON web token must be for.
    pub audience: Option<String>,
    /// The URL that the provider calls, for those that sign it; what the request itself shows if absent.
    pub public_url: Option<String>,
    /// How far the time in a request may be off; what the kind says if absent.
    pub tolerance: Option<Duration>,
    /// The only addresses that may send; any if empty.
    pub ip_allowlist: Vec<IpNet>,
    /// How many requests may come in a minute.
    pub rate_limit: SourceRateLimit,
    /// What makes two requests the same.
    pub dedupe: Option<Dedupe>,
    /// Whether its events go to the application's endpoints; otherwise they are only kept.
    pub forward: bool,
    /// The built-in code that handles its events, beside the endpoints or instead of them.
    pub processor: Option<ProcessorKind>,
    /// The headers of a request that endpoints get with the event. Lower case.
    pub forward_headers: Vec<String>,
    /// The headers of a request that are kept with the event. Lower case.
    pub keep_headers: Vec<String>,
    /// What is answered to an accepted request, instead of what the kind says.
    pub response: Option<SourceResponse>,
    /// Whether it is paused, and how.
    pub paused: Option<SourcePause>,
    /// Until when a key that the provider sends in its handshake is taken.
    pub awaiting_handshake_until: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

impl Source {
    /// What deliveries wait for that are made now; `None` if they need not wait.
    pub fn hold(&self) -> Option<WaitsFor> {
        self.paused.filter(|pause| pause.mode == PauseMode::Hold)?;
        self.held_by_pause()
    }

    /// What deliveries wait for that were made during its pause, whatever the pause means by now; `None` if it is not paused. The end of the pause releases
    /// them. Each pause has a name of its own, which is released once and for all.
    pub fn held_by_pause(&self) -> Option<WaitsFor> {
        WaitsFor::parse(&format!("source:{}:{}", self.id, self.paused?.at.as_micros()))
    }

    /// Whether a key that comes in a handshake is taken now.
    pub fn is_awaiting_handshake(&self, now: Timestamp) -> bool {
        self.awaiting_handshake_until.is_some_and(|until| until > now)
    }

    /// Whether it takes requests from this address.
    pub fn admits(&self, address: std::net::IpAddr) -> bool {
        // An IPv4 address that came over an IPv6 socket is the same address.
        let address = address.to_canonical();
        self.ip_allowlist.is_empty() || self.ip_allowlist.iter().any(|network| network.contains(&address))
    }
}

/// A source's name: 1 to 64 of `A-Z a-z 0-9 _ -`, and not a UUID, because it is used where an id may be.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceName(Box<str>);

impl SourceName {
    /// What a name must be, as the rest of a sentence.
    pub const RULE: &'static str = "must be 1 to 64 of the characters A-Z a-z 0-9 _ - and not a UUID";

    /// Checks the spelling.
    pub fn parse(text: &str) -> Option<Self> {
        let is_spelled = (1..=SOURCE_NAME_CHARS_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        (is_spelled && Uuid::try_parse(text).is_err()).then(|| Self(text.into()))
    }

    /// The text as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// The fields of a recipe, by their names.
pub type RecipeTexts = BTreeMap<String, String>;

/// How many requests a source takes in a minute. Past it they are refused, and the provider sends them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRateLimit {
    /// From one address.
    pub per_ip_per_minute: u32,
    /// About one user of the provider; as many as come if absent.
    pub per_user_per_minute: Option<u32>,
}

impl Default for SourceRateLimit {
    fn default() -> Self {
        Self { per_ip_per_minute: PER_IP_PER_MINUTE, per_user_per_minute: None }
    }
}

/// When an event is the same as an earlier one, and is kept but not delivered again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dedupe {
    /// What the two have in common.
    pub by: DedupeBy,
    /// For how long that is remembered.
    pub window: Duration,
}

/// What distinguishes events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DedupeBy {
    /// The id that the provider gave it, where its kind finds one.
    Id,
    /// The value of this header. Lower case.
    Header(String),
    /// The value at this place of the body: a JSON pointer.
    Pointer(String),
    /// The body, byte for byte.
    Body,
}

impl DedupeBy {
    /// Its names on every wire.
    pub const NAMES: [&'static str; 4] = ["id", "header", "pointer", "body"];

    /// Its name on every wire.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Header(_) => "header",
            Self::Pointer(_) => "pointer",
            Self::Body => "body",
        }
    }
}

/// What is answered to an accepted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceResponse {
    /// 200 to 299.
    pub status: u16,
    /// What the body is.
    pub content_type: Option<String>,
    /// The body.
    pub body: String,
}

/// A source that is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcePause {
    /// Since when.
    pub at: Timestamp,
    /// What becomes of requests.
    pub mode: PauseMode,
}

/// What becomes of the requests to a paused source. Never 404 or 410: providers delete the webhook then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PauseMode {
    /// They are accepted, and their deliveries wait until it is resumed.
    #[default]
    Hold,
    /// They are answered with 503, and the provider sends them again.
    Refuse,
}

impl PauseMode {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Hold, Self::Refuse];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Refuse => "refuse",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

/// What happened at a source last. Kept apart from it: it changes with every request, and is written now and then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceActivity {
    /// When a request was accepted.
    pub accepted_at: Option<Timestamp>,
    /// When one was refused, and why: a word such as `bad_signature`.
    pub refused: Option<(Timestamp, String)>,
    /// When a handshake was answered.
    pub handshake_at: Option<Timestamp>,
}

impl SourceActivity {
    /// What is known when this is known, too: of each the later.
    pub fn merge(&mut self, other: Self) {
        self.accepted_at = self.accepted_at.max(other.accepted_at);
        self.handshake_at = self.handshake_at.max(other.handshake_at);
        if other.refused.as_ref().map(|(at, _)| *at) > self.refused.as_ref().map(|(at, _)| *at) {
            self.refused = other.refused;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_path_segment_that_is_no_id() {
        for good in ["a", "github", "Shop_2-eu", &"x".repeat(64)] {
            assert_eq!(SourceName::parse(good).expect(good).as_str(), good);
        }
        let ids = ["01920000-0000-7000-8000-000000000000", "01920000000070008000000000000000"];
        for bad in ["", "a b", "a.b", "a/b", "ü", "a\0", &"x".repeat(65)].into_iter().chain(ids) {
            assert_eq!(SourceName::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn of_two_activities_the_later_of_each_is_kept() {
        let at = Timestamp::from_secs;
        let refused = |secs, why: &str| Some((at(secs), why.to_owned()));
        let mut known = SourceActivity { accepted_at: Some(at(5)), refused: refused(3, "bad_signature"), handshake_at: None };
        known.merge(SourceActivity { accepted_at: Some(at(4)), refused: refused(9, "too_many"), handshake_at: Some(at(1)) });
        let expected = SourceActivity { accepted_at: Some(at(5)), refused: refused(9, "too_many"), handshake_at: Some(at(1)) };
        assert_eq!(known, expected);
        known.merge(SourceActivity { refused: refused(8, "bad_signature"), ..SourceActivity::default() });
        assert_eq!(known, expected);
    }
}
