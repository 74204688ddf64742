//! Which headers an endpoint's owner may add to its requests. Asked when an endpoint is made or changed, never at sending.
//!
//! The danger is request smuggling (framing names, line breaks) and forged or doubled headers of ours; everything else is the owner's.
//!
//! Names are compared as receivers do that keep headers in environment variables (CGI, WSGI, Rack, PHP): there, `X_Webhook_Event` and
//! `X-Webhook-Event` are the same header, and the one that comes last wins.

use std::fmt;

use super::naming;

/// How many headers an endpoint may add.
pub const HEADERS_MAX: usize = 64;

/// How many bytes their names and values may have in all: what common servers take, with room for ours.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;

/// Belong to one connection or say where a message ends: to set them is to break or smuggle requests. `proxy` is here because CGI programs take it
/// for their own proxy setting.
const FRAMING: [&str; 12] = [
    "connection",
    "content-encoding",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
const FRAMING_PREFIX: &str = "proxy-";

/// Are ours to write, or to leave out.
const OURS: [&str; 7] = ["accept-encoding", "content-type", "cookie", "traceparent", "tracestate", "user-agent", "x-idempotency-key"];
const OUR_PREFIXES: [&str; 2] = ["webhook-", "x-webhook-"];

/// A header that was refused, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderFault {
    /// The name as it was written.
    pub name: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// Every header that was refused. Displayed as one text that names each of them, those with the same reason together: a batch of a thousand events may
/// have 64 wrong headers each, and the answer must not be many times the size of the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct HeaderFaults(pub Vec<HeaderFault>);

impl fmt::Display for HeaderFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut reasons: Vec<&'static str> = Vec::new();
        for fault in &self.0 {
            if reasons.contains(&fault.reason) {
                continue;
            }
            let separator = if reasons.is_empty() { "" } else { "; " };
            reasons.push(fault.reason);
            let names: Vec<&str> = self.0.iter().filter(|other| other.reason == fault.reason).map(|fault| &*fault.name).collect();
            write!(f, "{separator}{}", naming::refused(&names, fault.reason).unwrap_or_default())?;
        }
        Ok(())
    }
}

/// Checks the headers that an endpoint's owner wants on every request.
///
/// # Errors
/// [`HeaderFaults`] names every header that cannot be taken; where there are too many, those up to the one past the bound.
pub fn check_custom_headers(headers: &[(String, String)]) -> Result<(), HeaderFaults> {
    let mut bytes = 0;
    let mut faults = Vec::new();
    let mut seen: Vec<String> = Vec::with_capacity(headers.len().min(HEADERS_MAX));
    for (name, value) in headers {
        bytes += name.len() + value.len();
        let folded = fold(name);
        let past_bounds = check_bounds(seen.len(), bytes);
        let checked = past_bounds.and_then(|()| check_name(name, &folded)).and_then(|()| check_value(value));
        if let Err(reason) = checked.and_then(|()| check_once(&seen, &folded)) {
            faults.push(HeaderFault { name: name.clone(), reason });
        }
        if past_bounds.is_err() {
            break;
        }
        seen.push(folded);
    }
    if faults.is_empty() { Ok(()) } else { Err(HeaderFaults(faults)) }
}

const fn check_bounds(headers_before: usize, bytes: usize) -> Result<(), &'static str> {
    if headers_before >= HEADERS_MAX {
        return Err("exceeds the limit of 64 headers");
    }
    if bytes > HEADER_BYTES_MAX {
        return Err("exceeds the limit of 16 KiB for all names and values");
    }
    Ok(())
}

fn check_once(seen: &[String], folded: &String) -> Result<(), &'static str> {
    if seen.contains(folded) {
        return Err("is a duplicate: case, `-`, `_` and other punctuation make no difference to many receivers");
    }
    Ok(())
}

/// Whether receivers may take these two names for the same header.
pub fn is_same_name(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().map(fold_byte).eq(other.bytes().map(fold_byte))
}

/// A name as it is compared: lower case, and a dash for every sign.
fn fold(name: &str) -> String {
    name.bytes().map(|byte| char::from(fold_byte(byte))).collect()
}

const fn fold_byte(byte: u8) -> u8 {
    if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' }
}

fn check_name(name: &str, folded: &str) -> Result<(), &'static str> {
    if name.is_empty() || !name.bytes().all(is_token_byte) {
        return Err("is not a header name: only letters, digits and !#$%&'*+-.^_`|~ are allowed");
    }
    if FRAMING.contains(&folded) || folded.starts_with(FRAMING_PREFIX) {
        return Err("belongs to the connection and cannot be set");
    }
    if OURS.contains(&folded) || OUR_PREFIXES.iter().any(|prefix| folded.starts_with(prefix)) {
        return Err("is reserved for Everhook");
    }
    Ok(())
}

fn check_value(value: &str) -> Result<(), &'static str> {
    if value.chars().any(char::is_control) {
        return Err("has a line break or another control character in its value");
    }
    if value.trim() != value {
        return Err("has a blank at the beginning or end of its value");
    }
    Ok(())
}

/// The `tchar` of RFC 9110.
const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&str, &str)]) -> Result<(), HeaderFaults> {
        let owned: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        check_custom_headers(&owned)
    }

    #[test]
    fn an_owner_may_add_headers_of_their_own() {
        let cases: &[&[(&str, &str)]] = &[
            &[],
            &[("Authorization", "Bearer abc.def=")],
            &[("X-Tenant", "42"), ("X-Region", "eu west")],
            &[("x-empty", "")],
            &[("X-City", "Zürich")],
            &[("X-Webhooks", "not ours: no dash after `webhook`")],
            &[("!#$%&'*+-.^_`|~09azAZ", "every byte of a token")],
        ];
        for headers in cases {
            assert_eq!(check(headers), Ok(()), "{headers:?}");
        }
    }

    #[test]
    fn names_of_the_connection_and_of_ours_are_refused_in_any_case() {
        let connection = "belongs to the connection and cannot be set";
        let ours = "is reserved for Everhook";
        let refused = [
            (connection, FRAMING.as_slice()),
            (connection, &["Host", "TE", "Content-Length", "Transfer-Encoding", "Proxy-Authorization", "proxy-anything"]),
            (connection, &["content_length", "Transfer_Encoding", "transfer.encoding", "Proxy", "PROXY_X", "keep~alive"]),
            (ours, OURS.as_slice()),
            (
                ours,
                &["x_webhook_event", "X_Webhook-Event", "X.Webhook.Event", "webhook_id", "Webhook~Signature", "user_agent", "Content_Type"],
            ),
            (ours, &["User-Agent", "Webhook-Id", "webhook-signature", "X-Webhook-Attempt", "X-WEBHOOK-ANYTHING", "X-Idempotency-Key"]),
        ];
        for (reason, names) in refused {
            for name in names {
                assert_eq!(check(&[(name, "value")]), Err(HeaderFaults(vec![HeaderFault { name: (*name).to_owned(), reason }])));
            }
        }
    }

    #[test]
    fn what_is_no_header_name_is_refused() {
        for name in ["", " ", "X Tenant", "X-Tenant ", "X-Tenant:", "X-Tenant\r\nEvil", "X-Zürich", "X(1)", "\0"] {
            let fault = check(&[(name, "value")]).unwrap_err();
            assert!(fault.0[0].reason.starts_with("is not a header name"), "`{name}`: {fault}");
        }
    }

    #[test]
    fn values_cannot_break_the_line_or_hide_blanks() {
        for value in ["a\rb", "a\nb", "a\r\nEvil: 1", "a\0b", "a\tb", "\x7f", "\u{85}", " a", "a "] {
            assert!(check(&[("X-Tenant", value)]).is_err(), "{value:?}");
        }
    }

    #[test]
    fn a_name_appears_once_whatever_its_case_and_signs() {
        let fault = check(&[("X-Tenant", "1"), ("x-tenant", "2")]).unwrap_err();
        assert!(fault.to_string().starts_with("`x-tenant` is a duplicate"), "{fault}");
        for twin in ["x_tenant", "X.Tenant", "X_TENANT"] {
            assert!(check(&[("X-Tenant", "1"), (twin, "2")]).is_err(), "{twin}");
            assert!(is_same_name("X-Tenant", twin), "{twin}");
        }
        assert!(!is_same_name("x-tenant", "x-tenants") && !is_same_name("x-tenant", "xtenant"));
    }

    #[test]
    fn number_and_size_are_bounded() {
        let many = |count: usize| (0..count).map(|n| (format!("x-{n}"), String::new())).collect::<Vec<_>>();
        assert_eq!(check_custom_headers(&many(64)), Ok(()));
        assert_eq!(check_custom_headers(&many(65)).unwrap_err().0[0].name, "x-64");

        let large = |bytes: usize| check(&[("x-1234", &"v".repeat(bytes - 6))]);
        assert_eq!(large(HEADER_BYTES_MAX), Ok(()));
        assert!(large(HEADER_BYTES_MAX + 1).unwrap_err().0[0].reason.contains("16 KiB"));
    }

    #[test]
    fn every_wrong_header_is_named_and_those_with_one_reason_together() {
        let faults = check(&[("Host", "a"), ("X-Tenant", "1"), ("TE", "b"), ("User-Agent", "c"), ("X-Tenant", "2")]).unwrap_err();
        assert_eq!(
            faults.to_string(),
            "`Host`, `TE`: each belongs to the connection and cannot be set; `User-Agent` is reserved for Everhook; \
             `X-Tenant` is a duplicate: case, `-`, `_` and other punctuation make no difference to many receivers"
        );
        // Names are cut, and nothing past the bound is looked at.
        let long: Vec<_> = (0..1_000).map(|n| (format!("é{n}{}", "x".repeat(200)), String::new())).collect();
        assert!(check_custom_headers(&long).unwrap_err().to_string().len() < 64 * (naming::SHOWN_CHARS_MAX + 8) + 300);
    }
}
