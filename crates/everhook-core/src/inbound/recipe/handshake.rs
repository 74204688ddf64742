//! Requests that prove the URL instead of carrying an event: `handshake` of a recipe.

use crate::inbound::{
    RecipeFault,
    document::Pointer,
    fields::shown,
    text::{header_name, parameter_name},
};

/// The shapes of handshakes, and how each is written.
pub const HANDSHAKES: [(&str, &str); 12] = [
    ("get-echo-text", "get-echo-text parameter [token=parameter]: GET, answered with the parameter as text"),
    ("get-echo-json", "get-echo-json parameter|H:Header [as=member] [token=parameter]: GET, answered with {\"member\": value}"),
    ("get-hmac", "get-hmac x|linkedin|ebay|braintree: GET, answered with a MAC of the challenge"),
    ("get-compare", "get-compare parameter: GET, answered with 204 where it is the verify token and 404 where not; get-compare any: 200"),
    ("post-echo", "post-echo slack|monday|msgraph|twitch|eventgrid: POST, answered with the challenge"),
    ("post-hmac", "post-hmac zoom: POST, answered with a MAC of the token"),
    ("header-echo", "header-echo X-Hook-Secret: POST, the header becomes the secret and is repeated"),
    ("capture", "capture /pointer: POST, the value becomes the secret"),
    ("head-ok", "head-ok: HEAD, answered with 200"),
    ("options", "options: OPTIONS with WebHook-Request-Origin, as CloudEvents has it"),
    ("visit", "visit sns: POST, signed, with a URL that must be requested"),
    ("ping", "ping polar|discord|woocommerce: POST, answered and not stored"),
];

/// How many handshakes a recipe may have.
const HANDSHAKES_MAX: usize = 4;

/// One handshake.
#[derive(Clone, Debug)]
pub(in crate::inbound) enum HandshakeRule {
    GetEcho {
        echo: Echo,
        from: EchoFrom,
        token: Option<String>,
    },
    GetHmac(HmacStyle),
    GetCompare {
        parameter: Option<String>,
    },
    PostEcho(PostEchoStyle),
    PostHmacZoom,
    /// `X-Hook-Secret`.
    HeaderEcho,
    Capture {
        pointer: Pointer,
    },
    HeadOk,
    Options,
    VisitSns,
    Ping(PingStyle),
}

/// How a value is repeated.
#[derive(Clone, Debug)]
pub(in crate::inbound) enum Echo {
    Text,
    Json { member: String },
}

/// Where the value to repeat is.
#[derive(Clone, Debug)]
pub(in crate::inbound) enum EchoFrom {
    Parameter(String),
    Header(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::inbound) enum HmacStyle {
    X,
    LinkedIn,
    Ebay,
    Braintree,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::inbound) enum PostEchoStyle {
    Slack,
    Monday,
    MsGraph,
    Twitch,
    EventGrid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::inbound) enum PingStyle {
    Polar,
    Discord,
    WooCommerce,
}

impl HandshakeRule {
    pub(super) fn uses_verify_token(&self) -> bool {
        matches!(self, Self::GetEcho { token: Some(_), .. } | Self::GetCompare { parameter: Some(_) } | Self::GetHmac(HmacStyle::Ebay))
    }

    pub(super) fn uses_app_id(&self) -> bool {
        matches!(self, Self::GetHmac(HmacStyle::Braintree))
    }
}

/// Reads `handshake`.
pub(super) fn parse(text: &str, faults: &mut Vec<RecipeFault>) -> Vec<HandshakeRule> {
    let texts: Vec<&str> = text.split(';').map(str::trim).filter(|text| !text.is_empty()).collect();
    if texts.len() > HANDSHAKES_MAX {
        faults.push(RecipeFault::new("handshake", format!("has {} shapes; at most {HANDSHAKES_MAX} are possible", texts.len())));
        return Vec::new();
    }
    let mut rules = Vec::new();
    for text in texts {
        match one(text) {
            Some(rule) => rules.push(rule),
            None => faults.push(RecipeFault::new("handshake", format!("holds `{}`; {}", shown(text), right(text)))),
        }
    }
    rules
}

fn right(text: &str) -> String {
    let name = text.split(' ').next().unwrap_or("");
    match HANDSHAKES.iter().find(|(shape, _)| *shape == name) {
        Some((_, how)) => format!("write {how}"),
        None => format!("there are {}", HANDSHAKES.map(|(shape, _)| shape).join(", ")),
    }
}

fn one(text: &str) -> Option<HandshakeRule> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (name, rest) = words.split_first()?;
    Some(match (*name, rest) {
        ("get-echo-text", rest) => echo(rest, |_, member| member.is_none().then_some(Echo::Text))?,
        ("get-echo-json", rest) => echo(rest, |name, member| Some(Echo::Json { member: member.unwrap_or(name).to_owned() }))?,
        ("get-hmac", ["x"]) => HandshakeRule::GetHmac(HmacStyle::X),
        ("get-hmac", ["linkedin"]) => HandshakeRule::GetHmac(HmacStyle::LinkedIn),
        ("get-hmac", ["ebay"]) => HandshakeRule::GetHmac(HmacStyle::Ebay),
        ("get-hmac", ["braintree"]) => HandshakeRule::GetHmac(HmacStyle::Braintree),
        ("get-compare", ["any"]) => HandshakeRule::GetCompare { parameter: None },
        ("get-compare", [name]) => HandshakeRule::GetCompare { parameter: Some(parameter_name(name)?) },
        ("post-echo", ["slack"]) => HandshakeRule::PostEcho(PostEchoStyle::Slack),
        ("post-echo", ["monday"]) => HandshakeRule::PostEcho(PostEchoStyle::Monday),
        ("post-echo", ["msgraph"]) => HandshakeRule::PostEcho(PostEchoStyle::MsGraph),
        ("post-echo", ["twitch"]) => HandshakeRule::PostEcho(PostEchoStyle::Twitch),
        ("post-echo", ["eventgrid"]) => HandshakeRule::PostEcho(PostEchoStyle::EventGrid),
        ("post-hmac", ["zoom"]) => HandshakeRule::PostHmacZoom,
        ("header-echo", ["X-Hook-Secret"]) => HandshakeRule::HeaderEcho,
        ("capture", [text]) => HandshakeRule::Capture { pointer: Pointer::parse(text).filter(|pointer| !pointer.0.is_empty())? },
        ("head-ok", []) => HandshakeRule::HeadOk,
        ("options", []) => HandshakeRule::Options,
        ("visit", ["sns"]) => HandshakeRule::VisitSns,
        ("ping", ["polar"]) => HandshakeRule::Ping(PingStyle::Polar),
        ("ping", ["discord"]) => HandshakeRule::Ping(PingStyle::Discord),
        ("ping", ["woocommerce"]) => HandshakeRule::Ping(PingStyle::WooCommerce),
        _ => return None,
    })
}

fn echo(words: &[&str], echo: impl Fn(&str, Option<&str>) -> Option<Echo>) -> Option<HandshakeRule> {
    let (value, options) = words.split_first()?;
    let (mut member, mut token) = (None, None);
    for option in options {
        match option.split_once('=')? {
            ("as", name) if member.is_none() => member = Some(name),
            ("token", name) if token.is_none() => token = Some(parameter_name(name)?),
            _ => return None,
        }
    }
    let from = match value.strip_prefix("H:") {
        Some(name) => EchoFrom::Header(header_name(name)?),
        None => EchoFrom::Parameter(parameter_name(value)?),
    };
    Some(HandshakeRule::GetEcho { echo: echo(value, member)?, from, token })
}
