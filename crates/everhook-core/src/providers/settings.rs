//! Where providers are, and what this installation is to them. Made by the binary's configuration.

use std::time::Duration;

use url::Url;

use crate::model::Secret;

const STRAVA_API: &str = "https://www.strava.com/api/v3";
const GARMIN_API: &str = "https://apis.garmin.com";

/// Garmin takes requests for data of the past of at most 30 days each.
const BACKFILL_CHUNK: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Providers answer within seconds; an event has a minute for all that it needs.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The settings of all providers.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// Of Strava.
    pub strava: StravaSettings,
    /// Of Garmin.
    pub garmin: GarminSettings,
    /// How long an answer may take.
    pub request_timeout: Duration,
}

/// How Strava is reached.
#[derive(Clone, Debug)]
pub struct StravaSettings {
    /// Where its API is.
    pub api: Url,
    /// What this installation is to it; without it tokens are used until they end.
    pub client: Option<StravaClient>,
}

/// An application that is registered with Strava.
#[derive(Clone, Debug)]
pub struct StravaClient {
    /// Its id.
    pub id: String,
    /// Its secret.
    pub secret: Secret<String>,
}

/// How Garmin is reached.
#[derive(Clone, Debug)]
pub struct GarminSettings {
    /// Where its API is. Addresses of pings must lead there.
    pub api: Url,
    /// Whether deregistrations and permission changes are confirmed before they take effect, where a token is kept.
    pub confirm: bool,
    /// The longest piece that a backfill asks for at once.
    pub backfill_chunk: Duration,
}

impl Default for ProviderSettings {
    fn default() -> Self {
        let url = |text| Url::parse(text).expect("our own addresses are well-formed");
        Self {
            strava: StravaSettings { api: url(STRAVA_API), client: None },
            garmin: GarminSettings { api: url(GARMIN_API), confirm: true, backfill_chunk: BACKFILL_CHUNK },
            request_timeout: REQUEST_TIMEOUT,
        }
    }
}

/// An address below that of an API.
pub(super) fn below(api: &Url, path: &str) -> Url {
    let mut url = api.clone();
    url.set_path(&format!("{}{path}", api.path().trim_end_matches('/')));
    url
}
