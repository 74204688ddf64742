//! What can be said about a source, and the rules for each of its fields.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc, time::Duration};

use ipnet::IpNet;
use url::Url;

use super::super::{Change, Fault, Refusal, refuse_faults};
use crate::{
    inbound::{RecipeFault, SECRET_BYTES_MAX, SECRETS_MAX, Verifier},
    line::Line,
    model::{
        Dedupe, DedupeBy, KIND_CUSTOM, KIND_HMAC, ProcessorKind, RecipeTexts, SealedSecret, Secret, Source, SourceName, SourceRateLimit,
        SourceResponse,
    },
    policy::{
        headers::{HeaderFault, HeaderFaults, check_custom_headers},
        naming,
    },
    ports::StoreError,
    sources::{self, RecipeError},
};

/// How many fields a recipe may have, and how long each may be: templates of a few hundred characters are the longest known.
const RECIPE_FIELDS_MAX: usize = 32;
const RECIPE_TEXT_BYTES_MAX: usize = 1_024;
/// The longest text that a provider gives: a token, an id of a subscription, an audience.
const TEXT_BYTES_MAX: usize = 512;
/// The longest URL.
const URL_BYTES_MAX: usize = 2_048;
/// The longest prefix of a signature, and the longest name of a header.
const PREFIX_BYTES_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 128;
/// How far the time in a request may be off: past a week, nothing is left of what it protects from.
const TOLERANCE_MAX: Duration = Duration::from_secs(7 * 86_400);
/// How many networks may be listed: large providers name some dozens.
const NETWORKS_MAX: usize = 200;
/// The most requests in a minute that can be asked for.
const PER_MINUTE_MAX: u64 = 1_000_000;
/// For how long it is remembered what was received, where nobody says otherwise.
const WINDOW_DEFAULT: Duration = Duration::from_secs(86_400);
/// How many headers of a request may be kept, or forwarded.
const HEADERS_MAX: usize = 32;
/// The longest answer.
const RESPONSE_BYTES_MAX: usize = 4_096;

/// How a length of time is written.
const UNITS: &str = "as a number with a unit: ms, s, m, h, d or w (`5m`)";

/// What is asked of a source, as written.
#[derive(Clone, Debug, Default)]
pub struct SourceChange {
    /// Unique in the organization; needed at creation.
    pub name: Change<String>,
    /// Which preset reads its requests; needed at creation.
    pub kind: Change<String>,
    /// The fields of a recipe, for the kind `custom`. They are replaced together.
    pub recipe: Change<RecipeTexts>,
    /// Where the signature is, for the kind `hmac`.
    pub header: Change<String>,
    /// `sha1`, `sha256` or `sha512`, for the kind `hmac`.
    pub algorithm: Change<String>,
    /// `hex`, `base64` or `base64url`, for the kind `hmac`.
    pub encoding: Change<String>,
    /// The prefix of the signature, for the kind `hmac`.
    pub prefix: Change<String>,
    /// What the provider signs with. They are replaced together.
    pub secrets: Change<Vec<Secret<String>>>,
    /// What the provider shows in its handshake.
    pub verify_token: Change<Secret<String>>,
    /// The provider's subscription.
    pub subscription_id: Change<String>,
    /// The provider's id of the webhook or app.
    pub app_id: Change<String>,
    /// Who a JSON web token must be for.
    pub audience: Change<String>,
    /// The URL that the provider calls.
    pub public_url: Change<String>,
    /// How far the time in a request may be off.
    pub tolerance: Change<Duration>,
    /// The only addresses that may send.
    pub ip_allowlist: Change<Vec<String>>,
    /// How many requests may come.
    pub rate_limit: Change<RateLimitInput>,
    /// What makes two requests the same.
    pub dedupe: Change<DedupeInput>,
    /// Whether its events go to endpoints.
    pub forward: Change<bool>,
    /// The processor that handles its events.
    pub processor: Change<String>,
    /// The headers that endpoints get.
    pub forward_headers: Change<Vec<String>>,
    /// The headers that are kept.
    pub keep_headers: Change<Vec<String>>,
    /// What is answered.
    pub response: Change<ResponseInput>,
}

/// How many requests may come, as written. What is absent is at its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimitInput {
    /// From one address, in a minute.
    pub per_ip_per_minute: Option<i64>,
    /// About one user of the provider, in a minute.
    pub per_user_per_minute: Option<i64>,
}

/// What makes two requests the same, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DedupeInput {
    /// `id`, `header`, `pointer` or `body`.
    pub by: Option<String>,
    /// With `header`: which.
    pub header: Option<String>,
    /// With `pointer`: where.
    pub pointer: Option<String>,
    /// For how long; a day if absent.
    pub window: Option<Duration>,
}

/// What is answered, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseInput {
    /// 200 if absent.
    pub status: Option<i64>,
    /// What the body is.
    pub content_type: Option<String>,
    /// The body; empty if absent.
    pub body: Option<String>,
}

/// What a new source cannot do without.
pub(super) fn require(asked: &SourceChange, faults: &mut Vec<Fault>) {
    for (field, change) in [("name", &asked.name), ("kind", &asked.kind)] {
        if *change == Change::Keep {
            faults.push(Fault::new(field, "is required"));
        }
    }
}

/// Changes a source, and tries whether what comes of it can read requests.
pub(super) fn apply(line: &Line, asked: SourceChange, mut source: Source, mut faults: Vec<Fault>) -> Result<Source, Refusal> {
    let found = &mut faults;
    for (field, is_cleared) in [("name", asked.name == Change::Clear), ("kind", asked.kind == Change::Clear)] {
        if is_cleared {
            found.push(Fault::new(field, "must not be null"));
        }
    }
    let name = asked.name.check("name", found, |name| SourceName::parse(&name).ok_or_else(|| SourceName::RULE.to_owned()));
    if let Change::Set(name) = name {
        source.name = name;
    }
    if let Change::Set(kind) = asked.kind.clone()
        && kind != source.kind
    {
        // The fields belong to the kind.
        source.recipe.clear();
        source.kind = kind;
    }
    let hmac = [("header", asked.header), ("algorithm", asked.algorithm), ("encoding", asked.encoding), ("prefix", asked.prefix)];
    apply_recipe(asked.recipe, hmac, &mut source, found);
    let (id, vault) = (source.id, &line.ports.vault);
    let seal = |secret: &Secret<String>| vault.seal(id.as_uuid(), secret.expose().as_bytes());
    let sealed = |secrets: Vec<Secret<String>>| check_secrets(&secrets).map(|()| secrets.iter().map(seal).collect::<Vec<SealedSecret>>());
    asked.secrets.check("secrets", found, sealed).apply(&mut source.secrets, Vec::new());
    let token = |token: Secret<String>| check_printable(token.expose(), TEXT_BYTES_MAX).map(|()| seal(&token));
    asked.verify_token.check("verify_token", found, token).apply_to_option(&mut source.verify_token);
    let text = |text: String| check_printable(&text, TEXT_BYTES_MAX).map(|()| text);
    asked.subscription_id.check("subscription_id", found, text).apply_to_option(&mut source.subscription_id);
    asked.app_id.check("app_id", found, text).apply_to_option(&mut source.app_id);
    asked.audience.check("audience", found, text).apply_to_option(&mut source.audience);
    asked.public_url.check("public_url", found, read_url).apply_to_option(&mut source.public_url);
    asked.tolerance.check("tolerance", found, read_tolerance).apply_to_option(&mut source.tolerance);
    asked.ip_allowlist.check("ip_allowlist", found, |networks| read_networks(&networks)).apply(&mut source.ip_allowlist, Vec::new());
    read_rate_limit(asked.rate_limit, found).apply(&mut source.rate_limit, SourceRateLimit::default());
    read_dedupe(asked.dedupe, line.idempotency_window, found).apply_to_option(&mut source.dedupe);
    asked.forward.apply(&mut source.forward, true);
    asked.processor.check("processor", found, |name| read_processor(&name)).apply_to_option(&mut source.processor);
    check_processor(&source, found);
    let forwarded = asked.forward_headers.check("forward_headers", found, |names| read_headers(&names, is_forwardable));
    forwarded.apply(&mut source.forward_headers, Vec::new());
    asked.keep_headers.check("keep_headers", found, |names| read_headers(&names, |_| Ok(()))).apply(&mut source.keep_headers, Vec::new());
    read_response(asked.response, found).apply_to_option(&mut source.response);
    try_out(line, &source, &mut faults)?;
    refuse_faults(faults)?;
    Ok(source)
}

fn read_processor(name: &str) -> Result<ProcessorKind, String> {
    let names = || ProcessorKind::ALL.map(ProcessorKind::as_str).join("`, `");
    ProcessorKind::parse(name).ok_or_else(|| format!("must be `{}` or null", names()))
}

/// A processor understands what some kinds send, and no other.
fn check_processor(source: &Source, faults: &mut Vec<Fault>) {
    let Some(processor) = source.processor else { return };
    let kinds = processor.source_kinds();
    if !source.kind.is_empty() && !kinds.contains(&source.kind.as_str()) {
        let reason = format!("`{}` is for the kinds `{}` only", processor.as_str(), kinds.join("`, `"));
        faults.push(Fault::new("processor", reason));
    }
}

/// The fields that only some kinds have. For another kind they are faults: nothing is ignored.
fn apply_recipe(recipe: Change<RecipeTexts>, hmac: [(&'static str, Change<String>); 4], source: &mut Source, faults: &mut Vec<Fault>) {
    if source.kind == KIND_CUSTOM {
        recipe.check("recipe", faults, check_recipe).apply(&mut source.recipe, RecipeTexts::new());
        // Without one, anybody's requests would be taken: who wants that says so with the kind `none`.
        if source.recipe.is_empty() && faults.iter().all(|fault| fault.field != "recipe") {
            faults.push(Fault::new("recipe", "is required for the kind `custom`"));
        }
    } else if let Change::Set(_) = recipe {
        faults.push(Fault::new("recipe", "is for the kind `custom` only"));
    }
    for (field, change) in hmac {
        match change {
            Change::Keep => {}
            Change::Set(_) if source.kind != KIND_HMAC => faults.push(Fault::new(field, "is for the kind `hmac` only")),
            Change::Clear => drop(source.recipe.remove(field)),
            Change::Set(text) => match check_hmac(field, &text) {
                Ok(()) => drop(source.recipe.insert(field.to_owned(), text)),
                Err(reason) => faults.push(Fault::new(field, reason)),
            },
        }
    }
    if source.kind == KIND_HMAC {
        for (field, default) in [("algorithm", "sha256"), ("encoding", "hex")] {
            source.recipe.entry(field.to_owned()).or_insert_with(|| default.to_owned());
        }
        if !source.recipe.contains_key("header") && faults.iter().all(|fault| fault.field != "header") {
            faults.push(Fault::new("header", "is required for the kind `hmac`"));
        }
    }
}

fn check_recipe(recipe: RecipeTexts) -> Result<RecipeTexts, String> {
    if recipe.len() > RECIPE_FIELDS_MAX {
        return Err(format!("must have at most {RECIPE_FIELDS_MAX} fields, and has {}", recipe.len()));
    }
    match recipe.values().find(|text| text.len() > RECIPE_TEXT_BYTES_MAX) {
        Some(text) => Err(format!("must have texts of at most {RECIPE_TEXT_BYTES_MAX} bytes, and has one of {}", text.len())),
        None => Ok(recipe),
    }
}

fn check_hmac(field: &str, text: &str) -> Result<(), String> {
    let one_of = |words: &[&str]| match words.contains(&text) {
        true => Ok(()),
        false => Err(format!("must be `{}`", words.join("`, `"))),
    };
    match field {
        "header" => check_header_name(text),
        "algorithm" => one_of(&["sha1", "sha256", "sha512"]),
        "encoding" => one_of(&["hex", "base64", "base64url"]),
        _ if text.contains([' ', '\'', '"']) => Err("must not contain spaces or quotation marks".to_owned()),
        _ => check_printable(text, PREFIX_BYTES_MAX),
    }
}

/// What reads its requests must be able to be made of it. Reported under the fields that the owner knows.
fn try_out(line: &Line, source: &Source, faults: &mut Vec<Fault>) -> Result<(), StoreError> {
    // What cannot be tried was reported already.
    if source.kind.is_empty() || (source.kind == KIND_HMAC && !source.recipe.contains_key("header")) {
        return Ok(());
    }
    let found: Vec<Fault> = match sources::compile(&source.kind, &source.recipe) {
        Err(RecipeError::UnknownKind) => vec![Fault::new("kind", "is not a kind of source: see `GET /v1/source-kinds`")],
        Err(RecipeError::Faults(found)) => found.into_iter().map(|fault| of_recipe(&source.kind, fault)).collect(),
        Ok(recipe) => {
            faults.extend(credentials_named(source, &recipe.credential_headers()));
            let credentials = sources::credentials(source, &*line.ports.vault)?;
            let found = Verifier::new(Arc::new(recipe), &credentials, source.tolerance).err().unwrap_or_default();
            found.into_iter().map(|fault| Fault::new(fault.field, fault.reason)).collect()
        }
    };
    // A field that was refused was not changed: what follows from that is no news.
    let reported: BTreeSet<String> = faults.iter().map(|fault| fault.field.clone()).collect();
    faults.extend(found.into_iter().filter(|fault| !reported.contains(&fault.field)));
    Ok(())
}

/// What carries the secret is neither kept with events nor sent on: everybody who sees an event would have it.
fn credentials_named(source: &Source, credentials: &[String]) -> Vec<Fault> {
    let lists = [("keep_headers", &source.keep_headers), ("forward_headers", &source.forward_headers)];
    let fault = |(field, names): (&str, &Vec<String>)| {
        let named: Vec<&str> = names.iter().filter(|name| credentials.contains(name)).map(String::as_str).collect();
        let carry = if named.len() == 1 { "carries" } else { "carry" };
        let reason = || format!("must not name {}, which {carry} the secret of the source", naming::shown(named.iter().copied()));
        (!named.is_empty()).then(|| Fault::new(field, reason()))
    };
    lists.into_iter().filter_map(fault).collect()
}

fn of_recipe(kind: &str, fault: RecipeFault) -> Fault {
    let field = match (kind, fault.field) {
        (KIND_HMAC, "sig") => "header".to_owned(),
        (KIND_HMAC, "mac") => "algorithm".to_owned(),
        (KIND_HMAC, _) => "encoding".to_owned(),
        (_, "recipe") => "recipe".to_owned(),
        (_, field) => format!("recipe.{field}"),
    };
    Fault::new(field, fault.reason)
}

fn check_secrets(secrets: &[Secret<String>]) -> Result<(), String> {
    if secrets.len() > SECRETS_MAX {
        return Err(format!("must have at most {SECRETS_MAX} items, and has {}", secrets.len()));
    }
    for secret in secrets {
        let text = secret.expose();
        if text.len() > SECRET_BYTES_MAX || text.bytes().all(|byte| byte == 0 || byte.is_ascii_whitespace()) {
            return Err(format!("must each have 1 to {SECRET_BYTES_MAX} bytes, not all of them blank"));
        }
        if text.contains('\0') {
            return Err("must not contain NUL".to_owned());
        }
    }
    Ok(())
}

fn check_printable(text: &str, bytes_max: usize) -> Result<(), String> {
    let is_good = (1..=bytes_max).contains(&text.len()) && text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && text.trim() == text;
    if is_good { Ok(()) } else { Err(format!("must be 1 to {bytes_max} printable ASCII characters with no blank at either end")) }
}

fn read_url(text: String) -> Result<String, String> {
    let wrong = || format!("must be an http or https URL of at most {URL_BYTES_MAX} bytes, without user, password and fragment");
    let url = Url::parse(&text).map_err(|_| wrong())?;
    let is_good = text.len() <= URL_BYTES_MAX
        && ["http", "https"].contains(&url.scheme())
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.fragment().is_none()
        // As it is signed: what a parser would drop must not be there.
        && text.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
    if is_good { Ok(text) } else { Err(wrong()) }
}

fn read_tolerance(tolerance: Duration) -> Result<Duration, String> {
    if (Duration::from_secs(1)..=TOLERANCE_MAX).contains(&tolerance) { Ok(tolerance) } else { Err(format!("must be 1s to 7d, {UNITS}")) }
}

fn read_networks(texts: &[String]) -> Result<Vec<IpNet>, String> {
    if texts.len() > NETWORKS_MAX {
        return Err(format!("must have at most {NETWORKS_MAX} items, and has {}", texts.len()));
    }
    let read =
        |text: &String| text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from)).map(|network| network.trunc());
    let networks: Vec<IpNet> = texts.iter().filter_map(read).collect();
    if networks.len() == texts.len() {
        return Ok(networks);
    }
    let wrong = naming::shown(texts.iter().filter(|text| read(text).is_none()).map(String::as_str));
    Err(format!("must be addresses (`192.0.2.7`) or CIDR blocks (`192.0.2.0/24`), and has {wrong}"))
}

fn read_rate_limit(asked: Change<RateLimitInput>, faults: &mut Vec<Fault>) -> Change<SourceRateLimit> {
    let Change::Set(input) = asked else { return without_value(&asked) };
    let mut read = |field: &str, count: Option<i64>| {
        let read = count.map(|count| u32::try_from(count).ok().filter(|count| (1..=PER_MINUTE_MAX).contains(&u64::from(*count))));
        if read == Some(None) {
            faults.push(Fault::new(format!("rate_limit.{field}"), format!("must be 1 to {PER_MINUTE_MAX}")));
        }
        read.flatten()
    };
    let per_ip = read("per_ip_per_minute", input.per_ip_per_minute).unwrap_or(SourceRateLimit::default().per_ip_per_minute);
    Change::Set(SourceRateLimit { per_ip_per_minute: per_ip, per_user_per_minute: read("per_user_per_minute", input.per_user_per_minute) })
}

/// Duplicates are found by keys that the server remembers: no longer than it does.
fn read_dedupe(asked: Change<DedupeInput>, window_max: Duration, faults: &mut Vec<Fault>) -> Change<Dedupe> {
    let Change::Set(DedupeInput { by, header, pointer, window }) = asked else { return without_value(&asked) };
    let before = faults.len();
    for (field, is_given, owner) in [("header", header.is_some(), "header"), ("pointer", pointer.is_some(), "pointer")] {
        if is_given && by.as_deref() != Some(owner) {
            faults.push(Fault::new(format!("dedupe.{field}"), format!("requires `by` to be `{owner}`")));
        }
    }
    let missing = |field: &str| Err(Fault::new(format!("dedupe.{field}"), "is required"));
    let by = match (by.as_deref(), header, pointer) {
        (None, ..) => missing("by"),
        (Some("id"), ..) => Ok(DedupeBy::Id),
        (Some("body"), ..) => Ok(DedupeBy::Body),
        (Some("header"), None, _) => missing("header"),
        (Some("header"), Some(name), _) => match check_header_name(&name) {
            Ok(()) => Ok(DedupeBy::Header(name.to_ascii_lowercase())),
            Err(reason) => Err(Fault::new("dedupe.header", reason)),
        },
        (Some("pointer"), _, None) => missing("pointer"),
        (Some("pointer"), _, Some(pointer)) => match is_pointer(&pointer) {
            true => Ok(DedupeBy::Pointer(pointer)),
            false => Err(Fault::new("dedupe.pointer", format!("must be a JSON pointer (`/data/id`) of at most {TEXT_BYTES_MAX} bytes"))),
        },
        (Some(_), ..) => Err(Fault::new("dedupe.by", format!("must be `{}`", DedupeBy::NAMES.join("`, `")))),
    };
    let window = window.unwrap_or(WINDOW_DEFAULT.min(window_max));
    if !(Duration::from_secs(1)..=window_max).contains(&window) {
        let reason = format!("must be 1s to the server's `idempotency_window` ({} s), {UNITS}", window_max.as_secs());
        faults.push(Fault::new("dedupe.window", reason));
    }
    match by {
        Ok(by) if faults.len() == before => Change::Set(Dedupe { by, window }),
        Ok(_) => Change::Keep,
        Err(fault) => {
            faults.push(fault);
            Change::Keep
        }
    }
}

/// RFC 6901: `~` only as `~0` and `~1`.
fn is_pointer(text: &str) -> bool {
    let is_escaped = |(at, _): (usize, &str)| matches!(text.as_bytes().get(at + 1), Some(b'0' | b'1'));
    text.starts_with('/') && text.len() <= TEXT_BYTES_MAX && !text.chars().any(char::is_control) && text.match_indices('~').all(is_escaped)
}

/// Names of headers, in lower case and each once.
fn read_headers(names: &[String], check: impl Fn(&str) -> Result<(), HeaderFaults>) -> Result<Vec<String>, String> {
    if names.len() > HEADERS_MAX {
        return Err(format!("must have at most {HEADERS_MAX} items, and has {}", names.len()));
    }
    let mut read: Vec<String> = Vec::with_capacity(names.len());
    let mut faults = HeaderFaults(Vec::new());
    for name in names {
        match check_header_name(name) {
            Err(_) => faults
                .0
                .push(HeaderFault { name: name.clone(), reason: "is not the name of a header: use 1 to 128 letters, digits and hyphens" }),
            Ok(()) => faults.0.extend(check(name).err().into_iter().flat_map(|HeaderFaults(found)| found)),
        }
        let name = name.to_ascii_lowercase();
        if !read.contains(&name) {
            read.push(name);
        }
    }
    if faults.0.is_empty() { Ok(read) } else { Err(faults.to_string()) }
}

/// What an endpoint's owner may not set, a provider may not, either.
fn is_forwardable(name: &str) -> Result<(), HeaderFaults> {
    check_custom_headers(&[(name.to_owned(), String::new())])
}

fn check_header_name(name: &str) -> Result<(), String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if (1..=HEADER_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_token) {
        return Ok(());
    }
    Err(format!("must be the name of a header: 1 to {HEADER_BYTES_MAX} letters, digits and hyphens"))
}

fn read_response(asked: Change<ResponseInput>, faults: &mut Vec<Fault>) -> Change<SourceResponse> {
    let Change::Set(ResponseInput { status, content_type, body }) = asked else { return without_value(&asked) };
    let (before, status, body) = (faults.len(), status.unwrap_or(200), body.unwrap_or_default());
    if !(200..=299).contains(&status) {
        faults.push(Fault::new("response.status", "must be 200 to 299"));
    }
    if body.len() > RESPONSE_BYTES_MAX {
        faults.push(Fault::new("response.body", format!("must be at most {RESPONSE_BYTES_MAX} bytes, and has {}", body.len())));
    }
    if status == 204 && !body.is_empty() {
        faults.push(Fault::new("response.body", "must be empty with the status 204"));
    }
    if let Some(Err(reason)) = content_type.as_deref().map(|text| check_printable(text, HEADER_BYTES_MAX)) {
        faults.push(Fault::new("response.content_type", reason));
    }
    match u16::try_from(status) {
        Ok(status) if faults.len() == before => Change::Set(SourceResponse { status, content_type, body }),
        _ => Change::Keep,
    }
}

/// The same change for another type, where it has no value.
fn without_value<T, U>(change: &Change<T>) -> Change<U> {
    if let Change::Clear = change { Change::Clear } else { Change::Keep }
}
