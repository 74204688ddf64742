//! What can be said about an endpoint, and the rules for each of its fields. Pure.

use std::time::Duration;

use super::{
    super::{
        Change, DESCRIPTION_CHARS_MAX, Fault, Refusal, check_name, check_text, check_timeout, check_uid,
        schedules::{self, ScheduleChange, ScheduleChoice},
    },
    flow::{BreakerInput, RateInput, read_ordering},
};
use crate::{
    ids::Uid,
    model::{BreakerConfig, Endpoint, EndpointState, EventTypePattern, OrderingMode, PayloadStyle, RateLimit, SignatureStyle, Target},
    policy::{
        filter::Filter,
        headers::check_custom_headers,
        labels::{self, Labels},
        naming,
        presets::{self, RetryConfig},
        target::{self, TargetRules},
    },
    ports::ScheduleRef,
    time::Timestamp,
};

/// How many patterns an endpoint may have: more is a `*` or a family in disguise.
const EVENT_TYPES_MAX: usize = 200;
/// The largest metadata, in bytes.
const METADATA_BYTES_MAX: usize = 16 * 1024;
/// How far `max_concurrency` may be set.
const CONCURRENCY_MAX: u64 = 1_000;

/// What is asked of an endpoint, as written.
#[derive(Clone, Debug, Default)]
pub struct EndpointChange {
    /// Where requests go.
    pub url: Change<String>,
    /// Whether a new URL must return a challenge.
    pub verify_url: Change<bool>,
    /// Patterns of the events it gets.
    pub event_types: Change<Vec<String>>,
    /// The labels that an event must have.
    pub labels: Change<Labels>,
    /// What an event's data must say, as written.
    pub filter: Change<String>,
    /// Shown to people.
    pub name: Change<String>,
    /// Can be used in place of the id in paths.
    pub uid: Change<String>,
    /// Shown to people.
    pub description: Change<String>,
    /// Added to every request.
    pub headers: Change<Vec<(String, String)>>,
    /// A JSON object, as written.
    pub metadata: Change<String>,
    /// When failed deliveries are tried again: a schedule by name.
    pub retry_schedule: Change<String>,
    /// The same, by id.
    pub retry_schedule_id: Change<String>,
    /// A schedule of its own, written in place of a name.
    pub inline_schedule: Change<ScheduleChange>,
    /// The same, as the `backoff` preset with numbers of one's own.
    pub retry_config: Change<RetryConfig>,
    /// How long one attempt may take.
    pub timeout: Change<Duration>,
    /// How much longer each further one may take.
    pub timeout_growth_factor: Change<f64>,
    /// How many requests may be under way at once.
    pub max_concurrency: Change<u64>,
    /// How many requests may start in a time.
    pub rate_limit: Change<RateInput>,
    /// When it is left alone because it fails.
    pub circuit_breaker: Change<BreakerInput>,
    /// Which of its deliveries go one after the other.
    pub ordering: Change<String>,
    /// How `X-Webhook-Signature` is written.
    pub signature_style: Change<String>,
    /// What the body is.
    pub payload_style: Change<String>,
    /// Whether it gets events.
    pub enabled: Change<bool>,
}

/// The same, checked.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    target: Change<Target>,
    verify_url: Change<bool>,
    event_types: Change<Vec<EventTypePattern>>,
    labels: Change<Labels>,
    filter: Change<String>,
    name: Change<String>,
    uid: Change<Uid>,
    description: Change<String>,
    headers: Change<Vec<(String, String)>>,
    metadata: Change<String>,
    pub(super) retry: Change<ScheduleChoice>,
    timeout: Change<Duration>,
    timeout_growth_factor: Change<f64>,
    max_concurrency: Change<u32>,
    rate_limit: Change<RateLimit>,
    circuit_breaker: Change<BreakerInput>,
    ordering: Change<OrderingMode>,
    signature_style: Change<SignatureStyle>,
    payload_style: Change<PayloadStyle>,
    enabled: Change<bool>,
}

impl Checked {
    /// Checks every field and adds what is wrong to the faults. What a breaker may become depends on what it is.
    pub(super) fn read(asked: EndpointChange, breaker: BreakerConfig, rules: &TargetRules, faults: &mut Vec<Fault>) -> Self {
        let has_no_default = [
            ("url", asked.url == Change::Clear),
            ("event_types", asked.event_types == Change::Clear),
            ("enabled", asked.enabled == Change::Clear),
        ];
        faults.extend(has_no_default.into_iter().filter(|(_, cleared)| *cleared).map(|(field, _)| Fault::new(field, "must not be null")));
        Self {
            target: asked.url.check("url", faults, |url| target::check(&url, rules).map_err(|fault| fault.to_string())),
            verify_url: asked.verify_url,
            event_types: asked.event_types.check("event_types", faults, |patterns| read_patterns(&patterns)),
            labels: asked.labels.check("labels", faults, |labels| labels::check(&labels).map(|()| labels)),
            filter: asked.filter.check("filter", faults, |text| Filter::parse(&text).map(|_| text)),
            name: asked.name.check("name", faults, check_name),
            uid: asked.uid.check("uid", faults, check_uid),
            description: asked.description.check("description", faults, |text| check_text(text, DESCRIPTION_CHARS_MAX)),
            headers: asked.headers.check("headers", faults, read_headers),
            metadata: asked.metadata.check("metadata", faults, read_metadata),
            retry: read_retry(asked.retry_schedule_id, asked.retry_schedule, asked.inline_schedule, asked.retry_config, faults),
            timeout: asked.timeout.check("timeout_ms", faults, check_timeout),
            timeout_growth_factor: asked.timeout_growth_factor.check("timeout_growth_factor", faults, read_growth),
            max_concurrency: asked.max_concurrency.check("max_concurrency", faults, read_concurrency),
            rate_limit: read_rate_limit(asked.rate_limit, faults),
            circuit_breaker: read_breaker(asked.circuit_breaker, breaker, faults),
            ordering: asked.ordering.check("ordering", faults, |name| read_ordering(&name)),
            signature_style: asked.signature_style.check("signature_style", faults, |name| {
                SignatureStyle::parse(&name).ok_or_else(|| "must be `timestamped`, `sha256` or `hex`".to_owned())
            }),
            payload_style: asked
                .payload_style
                .check("payload_style", faults, |name| PayloadStyle::parse(&name).ok_or_else(|| "must be `envelope` or `raw`".to_owned())),
            enabled: asked.enabled,
        }
    }

    /// Changes the endpoint. The retry schedule is the caller's to change: its version is found in the store.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] if the breaker was changed meanwhile, so that what is asked of it no longer fits.
    pub(super) fn apply(self, endpoint: &mut Endpoint, now: Timestamp) -> Result<(), Refusal> {
        if let Change::Set(target) = self.target {
            endpoint.target = target;
        }
        if let Change::Set(patterns) = self.event_types {
            endpoint.event_types = patterns;
        }
        self.verify_url.apply(&mut endpoint.verify_url, false);
        self.labels.apply(&mut endpoint.labels, Labels::new());
        self.filter.apply_to_option(&mut endpoint.filter);
        self.name.apply_to_option(&mut endpoint.name);
        self.uid.apply_to_option(&mut endpoint.uid);
        self.description.apply_to_option(&mut endpoint.description);
        self.headers.apply(&mut endpoint.headers, Vec::new());
        self.metadata.apply_to_option(&mut endpoint.metadata);
        self.timeout.apply_to_option(&mut endpoint.timeout);
        self.timeout_growth_factor.apply(&mut endpoint.timeout_growth_factor, 1.0);
        self.max_concurrency.apply(&mut endpoint.max_concurrency, super::CONCURRENCY_DEFAULT);
        self.signature_style.apply(&mut endpoint.signature_style, SignatureStyle::default());
        self.payload_style.apply(&mut endpoint.payload_style, PayloadStyle::default());
        self.rate_limit.apply_to_option(&mut endpoint.rate_limit);
        self.ordering.apply(&mut endpoint.ordering.mode, OrderingMode::default());
        match self.circuit_breaker {
            Change::Keep => {}
            Change::Clear => endpoint.breaker = BreakerConfig::window(),
            Change::Set(input) => endpoint.breaker = input.on(endpoint.breaker).map_err(Refusal::Invalid)?,
        }
        if let Change::Set(enabled) = self.enabled {
            super::switch(&mut endpoint.state, enabled, now);
        }
        Ok(())
    }

    /// Whether a disabled endpoint is to get events again.
    pub(super) fn enables(&self, endpoint: &Endpoint) -> bool {
        self.enabled == Change::Set(true) && matches!(endpoint.state, EndpointState::Disabled { .. })
    }
}

fn read_patterns(patterns: &[String]) -> Result<Vec<EventTypePattern>, String> {
    if patterns.is_empty() || patterns.len() > EVENT_TYPES_MAX {
        return Err(format!("must name 1 to {EVENT_TYPES_MAX} event types; `*` means all"));
    }
    let read: Vec<EventTypePattern> = patterns.iter().filter_map(|pattern| EventTypePattern::parse(pattern)).collect();
    if read.len() == patterns.len() {
        return Ok(read);
    }
    let wrong: Vec<&str> = patterns.iter().map(String::as_str).filter(|pattern| EventTypePattern::parse(pattern).is_none()).collect();
    let rule = "is not an event type (1 to 128 of A-Z a-z 0-9 _ . : -), a prefix (`order.*`) or `*`";
    Err(naming::refused(&wrong, rule).unwrap_or_default())
}

fn read_headers(headers: Vec<(String, String)>) -> Result<Vec<(String, String)>, String> {
    match check_custom_headers(&headers) {
        Ok(()) => Ok(headers),
        Err(faults) => Err(faults.to_string()),
    }
}

fn read_metadata(metadata: String) -> Result<String, String> {
    if metadata.len() > METADATA_BYTES_MAX {
        return Err(format!("must be at most {METADATA_BYTES_MAX} bytes, and has {}", metadata.len()));
    }
    if metadata.starts_with('{') { Ok(metadata) } else { Err("must be a JSON object".to_owned()) }
}

/// Three ways to say the same: at most one of them may say anything. One of them takes a name or a whole schedule.
fn read_retry(
    id: Change<String>,
    name: Change<String>,
    inline: Change<ScheduleChange>,
    config: Change<RetryConfig>,
    faults: &mut Vec<Fault>,
) -> Change<ScheduleChoice> {
    let is_named = is_set(&name) || is_set(&inline);
    let said = [("retry_schedule_id", is_set(&id)), ("retry_schedule", is_named), ("retry_config", is_set(&config))];
    let mut said = said.into_iter().filter(|(_, is_set)| *is_set).map(|(field, _)| field);
    if let (Some(first), Some(second)) = (said.next(), said.next()) {
        faults.push(Fault::new(second, format!("cannot be combined with `{first}`")));
        return Change::Keep;
    }
    if let Change::Set(asked) = inline {
        return read_inline(asked, faults);
    }
    match (id, name, config) {
        (Change::Set(id), ..) => Change::Set(id).check("retry_schedule_id", faults, |id| match id.parse() {
            Ok(id) => Ok(ScheduleChoice::Schedule(ScheduleRef::Id(id), "retry_schedule_id")),
            Err(_) => Err("must be a UUID; `retry_schedule` takes a name".to_owned()),
        }),
        (_, Change::Set(name), _) => Change::Set(ScheduleChoice::Schedule(ScheduleRef::parse(&name), "retry_schedule")),
        (_, _, Change::Set(config)) => match presets::from_retry_config(&config) {
            Ok(schedule) => Change::Set(ScheduleChoice::Policy(schedule)),
            Err(fault) => {
                faults.push(Fault::new(format!("retry_config.{}", fault.field), format!("must be {}", fault.expected)));
                Change::Keep
            }
        },
        (Change::Keep, Change::Keep, Change::Keep) => Change::Keep,
        _ => Change::Clear,
    }
}

fn read_inline(asked: ScheduleChange, faults: &mut Vec<Fault>) -> Change<ScheduleChoice> {
    match schedules::inline(asked) {
        Ok(schedule) => return Change::Set(ScheduleChoice::Policy(schedule)),
        Err(Refusal::Invalid(found)) => {
            faults.extend(found.into_iter().map(|fault| Fault::new(format!("retry_schedule.{}", fault.field), fault.reason)));
        }
        Err(other) => faults.push(Fault::new("retry_schedule", other.to_string())),
    }
    Change::Keep
}

fn is_set<T>(change: &Change<T>) -> bool {
    matches!(change, Change::Set(_))
}

fn read_growth(factor: f64) -> Result<f64, String> {
    if (1.0..=10.0).contains(&factor) { Ok(factor) } else { Err("must be 1 to 10".to_owned()) }
}

fn read_rate_limit(asked: Change<RateInput>, faults: &mut Vec<Fault>) -> Change<RateLimit> {
    match asked {
        Change::Keep => Change::Keep,
        Change::Clear => Change::Clear,
        Change::Set(input) => input.check(faults).map_or(Change::Keep, Change::Set),
    }
}

/// The input is kept as it is, to be applied to the endpoint as it is when it is written.
fn read_breaker(asked: Change<BreakerInput>, current: BreakerConfig, faults: &mut Vec<Fault>) -> Change<BreakerInput> {
    if let Change::Set(input) = &asked
        && let Err(wrong) = input.on(current)
    {
        faults.extend(wrong);
    }
    asked
}

fn read_concurrency(requests: u64) -> Result<u32, String> {
    match u32::try_from(requests) {
        Ok(n) if (1..=CONCURRENCY_MAX).contains(&requests) => Ok(n),
        _ => Err(format!("must be 1 to {CONCURRENCY_MAX}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::address::AddressRules;

    fn faults(asked: EndpointChange) -> Vec<String> {
        let rules = TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() };
        let mut faults = Vec::new();
        Checked::read(asked, BreakerConfig::window(), &rules, &mut faults);
        faults.into_iter().map(|fault| fault.field).collect()
    }

    #[test]
    fn every_field_has_its_rule() {
        let set = |text: &str| Change::Set(text.to_owned());
        let types = |list: &[&str]| Change::Set(list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let nothing = EndpointChange::default;
        let ms = |n| Change::Set(Duration::from_millis(n));
        let config = |attempts| Change::Set(RetryConfig { max_attempts: Some(attempts), ..RetryConfig::default() });
        let header = |name: &str| Change::Set(vec![(name.to_owned(), "1".to_owned())]);
        #[rustfmt::skip]
        let table: Vec<(EndpointChange, &[&str])> = vec![
            (nothing(), &[]),
            (EndpointChange { url: set("https://example.com/hook"), ..nothing() }, &[]),
            (EndpointChange { url: set("http://example.com/hook"), ..nothing() }, &["url"]),
            (EndpointChange { url: Change::Clear, ..nothing() }, &["url"]),
            (EndpointChange { event_types: types(&["user.created", "order.*", "*"]), ..nothing() }, &[]),
            (EndpointChange { event_types: types(&[]), ..nothing() }, &["event_types"]),
            (EndpointChange { event_types: types(&["or*er"]), ..nothing() }, &["event_types"]),
            (EndpointChange { event_types: Change::Clear, ..nothing() }, &["event_types"]),
            (EndpointChange { labels: Change::Set(Labels::from([("a b".to_owned(), String::new())])), ..nothing() }, &["labels"]),
            (EndpointChange { filter: set(r#"{"data.amount": {"gte": 100}}"#), ..nothing() }, &[]),
            (EndpointChange { filter: set(r#"{"amount": 1}"#), ..nothing() }, &["filter"]),
            (EndpointChange { name: set("nul\0"), ..nothing() }, &["name"]),
            (EndpointChange { uid: set("a b"), ..nothing() }, &["uid"]),
            (EndpointChange { description: set(&"x".repeat(4_097)), ..nothing() }, &["description"]),
            (EndpointChange { headers: header("x-team"), ..nothing() }, &[]),
            (EndpointChange { headers: header("content-length"), ..nothing() }, &["headers"]),
            (EndpointChange { metadata: set("{}"), ..nothing() }, &[]),
            (EndpointChange { metadata: set("[]"), ..nothing() }, &["metadata"]),
            (EndpointChange { retry_schedule: set("patient"), ..nothing() }, &[]),
            (EndpointChange { retry_schedule_id: set("patient"), ..nothing() }, &["retry_schedule_id"]),
            (EndpointChange { retry_config: config(5), ..nothing() }, &[]),
            (EndpointChange { retry_config: config(0), ..nothing() }, &["retry_config.max_attempts"]),
            (EndpointChange { retry_schedule: set("patient"), retry_config: config(5), ..nothing() }, &["retry_config"]),
            (EndpointChange { retry_schedule_id: set("01890a5d-ac96-774b-bcce-b302099a8057"), retry_schedule: set("patient"), ..nothing() }, &["retry_schedule"]),
            (EndpointChange { enabled: Change::Clear, ..nothing() }, &["enabled"]),
            (EndpointChange { timeout: ms(100), ..nothing() }, &[]),
            (EndpointChange { timeout: ms(60_001), ..nothing() }, &["timeout_ms"]),
            (EndpointChange { timeout_growth_factor: Change::Set(0.9), ..nothing() }, &["timeout_growth_factor"]),
            (EndpointChange { timeout_growth_factor: Change::Set(f64::NAN), ..nothing() }, &["timeout_growth_factor"]),
            (EndpointChange { max_concurrency: Change::Set(1_000), ..nothing() }, &[]),
            (EndpointChange { max_concurrency: Change::Set(0), ..nothing() }, &["max_concurrency"]),
            (EndpointChange { max_concurrency: Change::Set(u64::MAX), ..nothing() }, &["max_concurrency"]),
            (EndpointChange { rate_limit: Change::Set(RateInput { requests_per_minute: Some(60), burst: None }), ..nothing() }, &[]),
            (EndpointChange { rate_limit: Change::Set(RateInput::default()), ..nothing() }, &["rate_limit.requests_per_minute"]),
            (EndpointChange { circuit_breaker: Change::Set(BreakerInput { minimum_throughput: Some(0), ..BreakerInput::default() }), ..nothing() },
             &["circuit_breaker.minimum_throughput"]),
            (EndpointChange { ordering: set("per_event_type"), ..nothing() }, &[]),
            (EndpointChange { ordering: set("fifo"), ..nothing() }, &["ordering"]),
            (EndpointChange { signature_style: set("md5"), ..nothing() }, &["signature_style"]),
            (EndpointChange { payload_style: set("xml"), ..nothing() }, &["payload_style"]),
        ];
        for (asked, expected) in table {
            assert_eq!(faults(asked.clone()), expected, "{asked:?}");
        }
    }

    #[test]
    fn all_faults_are_found_at_once() {
        let asked = EndpointChange {
            url: Change::Set("ftp://example.com".into()),
            event_types: Change::Set(vec![]),
            max_concurrency: Change::Set(0),
            ..EndpointChange::default()
        };
        assert_eq!(faults(asked), ["url", "event_types", "max_concurrency"]);
    }
}
