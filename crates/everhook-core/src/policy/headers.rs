//! Which headers an endpoint's owner may add to its requests. Asked when an endpoint is made or changed, never at sending.
//!
//! The danger is request smuggling (framing names, line breaks) and forged or doubled headers of ours; everything else is the owner's.
//!
//! Names are compared as receivers do that keep headers in environment variables (CGI, WSGI, Rack, PHP): there, `X_Webhook_Event` and
//! `X-Webhook-Event` are the same header, and the one that comes last wins.

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

/// Which header was refused and why, in words for the endpoint's owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("header `{name}` {reason}")]
pub struct HeaderFault {
    /// The name as it was written.
    pub name: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// Checks the headers that an endpoint's owner wants on every request.
///
/// # Errors
/// [`HeaderFault`] names the first header that cannot be taken; the one past a bound, where there are too many.
pub fn check_custom_headers(headers: &[(String, String)]) -> Result<(), HeaderFault> {
    let mut bytes = 0;
    let mut seen: Vec<String> = Vec::with_capacity(headers.len().min(HEADERS_MAX));
    for (name, value) in headers {
        let fault = |reason| HeaderFault { name: name.clone(), reason };
        bytes += name.len() + value.len();
        if seen.len() == HEADERS_MAX {
            return Err(fault("is one too many: at most 64 headers can be added"));
        }
        if bytes > HEADER_BYTES_MAX {
            return Err(fault("is too much: names and values can have at most 16 KiB in all"));
        }
        let folded = fold(name);
        check_name(name, &folded).and_then(|()| check_value(value)).map_err(fault)?;
        if seen.contains(&folded) {
            return Err(fault("appears twice: case, `-`, `_` and other signs make no difference to many receivers"));
        }
        seen.push(folded);
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
        return Err("is not a header name: only letters, digits and !#$%&'*+-.^_`|~ can stand in one");
    }
    if FRAMING.contains(&folded) || folded.starts_with(FRAMING_PREFIX) {
        return Err("belongs to the connection and cannot be set");
    }
    if OURS.contains(&folded) || OUR_PREFIXES.iter().any(|prefix| folded.starts_with(prefix)) {
        return Err("is reserved: Everhook writes it itself or leaves it out");
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

    fn check(headers: &[(&str, &str)]) -> Result<(), HeaderFault> {
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
        let ours = "is reserved: Everhook writes it itself or leaves it out";
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
                assert_eq!(check(&[(name, "value")]), Err(HeaderFault { name: (*name).to_owned(), reason }));
            }
        }
    }

    #[test]
    fn what_is_no_header_name_is_refused() {
        for name in ["", " ", "X Tenant", "X-Tenant ", "X-Tenant:", "X-Tenant\r\nEvil", "X-Zürich", "X(1)", "\0"] {
            let fault = check(&[(name, "value")]).unwrap_err();
            assert!(fault.reason.starts_with("is not a header name"), "`{name}`: {fault}");
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
        assert!(fault.to_string().starts_with("header `x-tenant` appears twice"), "{fault}");
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
        assert_eq!(check_custom_headers(&many(65)).unwrap_err().name, "x-64");

        let large = |bytes: usize| check(&[("x-1234", &"v".repeat(bytes - 6))]);
        assert_eq!(large(HEADER_BYTES_MAX), Ok(()));
        assert!(large(HEADER_BYTES_MAX + 1).unwrap_err().reason.contains("16 KiB"));
    }
}
