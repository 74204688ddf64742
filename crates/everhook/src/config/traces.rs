//! Where spans of traces go, and which: settings that also have the names that OpenTelemetry gives them.

use std::fmt;

use everhook_adapters::otlp::Sampler;
use everhook_core::model::Target;
use http::HeaderName;

use super::check::Reader;

/// Below a collector's address, where it takes traces.
const PATH: &str = "/v1/traces";

/// What no header of the operator's may be called: the exporter writes these itself.
const OURS: [&str; 4] = ["content-type", "content-length", "host", "user-agent"];

/// Where spans go, and which.
#[derive(Clone)]
pub struct TracesConfig {
    /// Where the collector takes traces.
    pub target: Target,
    /// Headers that it asks for, which may be secret.
    pub headers: Vec<(String, String)>,
    /// Which traces are recorded.
    pub sampler: Sampler,
}

impl fmt::Debug for TracesConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracesConfig").field("target", &self.target).field("sampler", &self.sampler).finish_non_exhaustive()
    }
}

/// Reads all four. Without a collector the others say nothing, and are not looked at: they may be set for other programs.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<TracesConfig> {
    if !reader.is_set("otlp_endpoint") {
        return None;
    }
    let target = reader.optional("otlp_endpoint", parse_endpoint);
    let headers = reader.optional("otlp_headers", parse_headers).unwrap_or_default();
    let share = reader.optional("traces_sampler_arg", parse_share).unwrap_or(1.0);
    let sampler =
        reader.optional("traces_sampler", |name| Sampler::parse(name, share).ok_or_else(|| format!("must be {}", Sampler::NAMES)));
    Some(TracesConfig { target: target?, headers, sampler: sampler? })
}

/// The address of a collector, as OpenTelemetry has it: without the path for traces.
fn parse_endpoint(text: &str) -> Result<Target, String> {
    let wrong = || "must be an http or https URL without user, query and fragment, as in http://127.0.0.1:4318".to_owned();
    let mut url = url::Url::parse(text).map_err(|_| wrong())?;
    let is_good = ["http", "https"].contains(&url.scheme())
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if !is_good {
        return Err(wrong());
    }
    let path = format!("{}{PATH}", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(Target { written: url.to_string(), url })
}

/// `name=value,name=value`, as OpenTelemetry writes it.
fn parse_headers(text: &str) -> Result<Vec<(String, String)>, String> {
    let wrong = || "must be name=value pairs with commas between".to_owned();
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().to_owned());
        let is_good = HeaderName::from_bytes(name.as_bytes()).is_ok()
            && !OURS.contains(&name.as_str())
            && value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        is_good.then_some((name, value)).ok_or_else(wrong)
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(pair).collect()
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share: f64 = text.trim().parse().map_err(|_| "must be a number from 0 to 1".to_owned())?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("must be a number from 0 to 1".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_for_traces_is_below_the_address() {
        for (text, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://collector:4318/", "http://collector:4318/v1/traces"),
            ("https://otlp.example.com/team/otlp", "https://otlp.example.com/team/otlp/v1/traces"),
        ] {
            assert_eq!(parse_endpoint(text).unwrap().requested(), expected, "{text}");
        }
        for text in ["", "collector:4318", "grpc://a:4317", "http://", "http://user:word@a", "http://a?b=c", "http://a#b"] {
            assert!(parse_endpoint(text).is_err(), "{text}");
        }
    }

    #[test]
    fn headers_are_pairs_that_the_exporter_does_not_write_itself() {
        let found = parse_headers("Authorization=Bearer abc=, x-team = a ,").unwrap();
        assert_eq!(found, [("authorization".to_owned(), "Bearer abc=".to_owned()), ("x-team".to_owned(), "a".to_owned())]);
        for text in ["authorization", "host=a", "Content-Type=a", "a b=c", "a=b\nc", "=a"] {
            assert!(parse_headers(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_is_from_nothing_to_all() {
        assert_eq!([parse_share("0"), parse_share(" 0.25 "), parse_share("1.0")], [Ok(0.0), Ok(0.25), Ok(1.0)]);
        for text in ["", "1.1", "-0.1", "NaN", "half"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }
}
