//! Where health providers are, and what this installation is to them.

use std::time::Duration;

use everhook_core::{
    model::{
        Secret,
        health::{BACKFILL_CHUNK_MIN, BACKFILL_SPAN_MAX},
    },
    policy::target::TargetRules,
    providers::{GarminSettings, ProviderSettings, StravaClient, StravaSettings},
};
use url::Url;

use super::{
    check::{Reader, parse_bool},
    units::parse_duration,
};

/// The longest id or secret of a client, in bytes.
const CLIENT_BYTES_MAX: usize = 256;

/// Reads all settings of providers. An id without its secret is a fault: somebody expects tokens to be refreshed.
pub(super) fn read(reader: &mut Reader<'_>, targets: Option<&TargetRules>) -> Option<ProviderSettings> {
    let allow_http = targets.is_some_and(|rules| rules.allow_http);
    let strava_api = reader.needed("strava_api_url", |text| parse_api(text, allow_http));
    let id = reader.optional("strava_client_id", parse_client);
    let secret = reader.optional("strava_client_secret", parse_client).map(Secret::new);
    match (reader.is_set("strava_client_id"), reader.is_set("strava_client_secret")) {
        (true, false) => reader.faults.push("strava_client_id: requires `strava_client_secret`".to_owned()),
        (false, true) => reader.faults.push("strava_client_secret: requires `strava_client_id`".to_owned()),
        _ => {}
    }
    let garmin_api = reader.needed("garmin_api_url", |text| parse_api(text, allow_http));
    let confirm = reader.needed("garmin_confirm", parse_bool);
    let backfill_chunk = reader.needed("garmin_backfill_chunk", parse_chunk);
    let client = id.zip(secret).map(|(id, secret)| StravaClient { id, secret });
    Some(ProviderSettings {
        strava: StravaSettings { api: strava_api?, client },
        garmin: GarminSettings { api: garmin_api?, confirm: confirm?, backfill_chunk: backfill_chunk? },
        ..ProviderSettings::default()
    })
}

/// Tokens of users travel there: in the clear only where the operator allows that for endpoints.
fn parse_api(text: &str, allow_http: bool) -> Result<Url, String> {
    let wrong = || "must be an https URL without user, query and fragment (http requires `allow_http`)".to_owned();
    let url = Url::parse(text).map_err(|_| wrong())?;
    let is_good = (url.scheme() == "https" || (url.scheme() == "http" && allow_http))
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if is_good { Ok(url) } else { Err(wrong()) }
}

fn parse_chunk(text: &str) -> Result<Duration, String> {
    let length = parse_duration(text)?;
    let is_good = (BACKFILL_CHUNK_MIN..=BACKFILL_SPAN_MAX).contains(&length);
    if is_good { Ok(length) } else { Err("must be 1d to 90d".to_owned()) }
}

fn parse_client(text: &str) -> Result<String, String> {
    let is_good = (1..=CLIENT_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_good { Ok(text.to_owned()) } else { Err(format!("must be 1 to {CLIENT_BYTES_MAX} visible ASCII characters")) }
}
