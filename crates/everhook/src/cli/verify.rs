//! `everhook verify`: checks the signature of a received request, and says which part is wrong.
//!
//! For the person whose receiver refuses our requests. It needs no server. Every check is the one that the sending side is tested
//! against; the guesses about a wrong signature (a newline added by an editor, a body parsed and printed again) are tried the same way.

mod reserialized;

use std::{
    io::Read as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use everhook_core::{signing::VerifyingKey, time::Timestamp};
use jiff::SignedDuration;

use reserialized::{is_json, is_reserialized};

/// Check the signature of a received request. Exits with 0 if it is valid and with 1 if it is not.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// The endpoint's secret (`whsec_…`, a plain-text secret, or the public key `whpk_…`).
    #[arg(long)]
    secret: String,
    /// The value of `webhook-signature` (`v1,…`) or of `X-Webhook-Signature` (`t=…,v1=…`, `sha256=…` or bare hex).
    #[arg(long)]
    signature: String,
    /// The value of `webhook-id`. Required for `v1,…`.
    #[arg(long)]
    id: Option<String>,
    /// The value of `webhook-timestamp`: seconds since 1970. Required for `v1,…`.
    #[arg(long, allow_hyphen_values = true)]
    timestamp: Option<String>,
    /// The file with the body, byte for byte as received; `-` reads standard input.
    #[arg(long, value_name = "FILE", default_value = "-")]
    body: PathBuf,
    /// How old or how far in the future a signature may be.
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    tolerance: SignedDuration,
}

/// Prints `valid` or `invalid`, with the reason, and ends the process with 1 for the latter.
///
/// # Errors
/// When the secret is no secret or the body cannot be read: nothing was verified.
pub fn run(args: VerifyArgs) -> anyhow::Result<()> {
    let key = VerifyingKey::parse(args.secret.trim()).context("--secret")?;
    let body = read_body(&args.body)?;
    let request = Request { id: args.id.as_deref(), timestamp: args.timestamp.as_deref(), signature: args.signature.trim(), body: &body };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp::EPOCH + now;
    match judge(&key, &request, now, args.tolerance.unsigned_abs()) {
        Ok(sentence) => anstream::println!("valid: {sentence}"),
        Err(sentence) => {
            anstream::println!("invalid: {sentence}");
            std::process::exit(1);
        }
    }
    Ok(())
}

fn read_body(file: &Path) -> anyhow::Result<Vec<u8>> {
    if file != Path::new("-") {
        return std::fs::read(file).with_context(|| format!("cannot read {}", file.display()));
    }
    let mut body = Vec::new();
    std::io::stdin().read_to_end(&mut body).context("cannot read standard input")?;
    Ok(body)
}

/// What the receiver got.
#[derive(Clone, Copy)]
struct Request<'a> {
    id: Option<&'a str>,
    timestamp: Option<&'a str>,
    signature: &'a str,
    body: &'a [u8],
}

/// The spellings of a signature header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Standard,
    Timestamped,
    Plain,
}

/// A sentence for people: why it is valid, or which part is not.
type Verdict = Result<String, String>;

fn judge(key: &VerifyingKey, request: &Request<'_>, now: Timestamp, tolerance: Duration) -> Verdict {
    match style_of(request.signature)? {
        Style::Standard => judge_standard(key, request, now, tolerance),
        Style::Timestamped => judge_timestamped(key, request, now, tolerance),
        Style::Plain => judge_plain(key, request),
    }
}

fn style_of(signature: &str) -> Result<Style, String> {
    let is_hex = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if signature.split_ascii_whitespace().any(|one| one.starts_with("v1,") || one.starts_with("v1a,")) {
        Ok(Style::Standard)
    } else if signature.starts_with("t=") {
        Ok(Style::Timestamped)
    } else if is_hex(signature.strip_prefix("sha256=").unwrap_or(signature)) {
        Ok(Style::Plain)
    } else {
        Err("unknown signature format; expected `v1,<base64>`, `t=<seconds>,v1=<hex>`, `sha256=<hex>` or 64 hex digits".to_owned())
    }
}

fn judge_standard(key: &VerifyingKey, request: &Request<'_>, now: Timestamp, tolerance: Duration) -> Verdict {
    let id = request.id.ok_or("a `v1,…` signature covers the webhook-id: set it with --id")?;
    let seconds = request.timestamp.ok_or("a `v1,…` signature covers the webhook-timestamp: set it with --timestamp")?;
    let seconds: i64 =
        seconds.trim().parse().map_err(|_| format!("the timestamp `{seconds}` is not a whole number of seconds since 1970"))?;
    let is_right = |body: &[u8]| key.verify(id.trim(), seconds, body, request.signature);
    if !is_right(request.body) {
        return Err(wrong_signature(request, &is_right, "secret, id, timestamp or body"));
    }
    judge_age(Timestamp::from_secs(seconds), now, tolerance)
}

fn judge_timestamped(key: &VerifyingKey, request: &Request<'_>, now: Timestamp, tolerance: Duration) -> Verdict {
    match key.verify_timestamped(request.body, request.signature) {
        Some(at) => judge_age(at, now, tolerance),
        None => {
            let is_right = |body: &[u8]| key.verify_timestamped(body, request.signature).is_some();
            Err(wrong_signature(request, &is_right, "secret, `t` or body"))
        }
    }
}

fn judge_plain(key: &VerifyingKey, request: &Request<'_>) -> Verdict {
    let is_right = |body: &[u8]| key.verify_plain(body, request.signature);
    if is_right(request.body) {
        return Ok("the signature is correct (this style does not sign a time, so its age is unknown)".to_owned());
    }
    Err(wrong_signature(request, &is_right, "secret or body"))
}

fn judge_age(signed_at: Timestamp, now: Timestamp, tolerance: Duration) -> Verdict {
    let (age, side) = match signed_at <= now {
        true => (now.since(signed_at), "ago"),
        false => (signed_at.since(now), "in the future"),
    };
    let told = format!("{} {side}", people_duration(age));
    if age > tolerance {
        return Err(format!("the signature is correct, but was created {told}; the tolerance is {}", people_duration(tolerance)));
    }
    Ok(format!("the signature is correct and was created {told}"))
}

/// Names the mistake that people make most, if it is one of them; otherwise says what the signature covers.
fn wrong_signature(request: &Request<'_>, is_right: &dyn Fn(&[u8]) -> bool, covers: &str) -> String {
    let body = request.body;
    let trimmed = body.trim_ascii_end();
    if trimmed.len() < body.len() && is_right(trimmed) {
        return "the body has extra blanks or a newline at its end; without them the signature is correct".to_owned();
    }
    if is_right(&[body, b"\n"].concat()) {
        return "the body lacks a newline at its end".to_owned();
    }
    if is_reserialized(body, is_right) {
        return "the body was parsed and serialized again: verify the raw bytes as received".to_owned();
    }
    let hint = match is_json(body) {
        true => "; a JSON body must be verified as the raw bytes that were received, not parsed and serialized again",
        false => "",
    };
    format!("the signature does not match: {covers} differs from what was signed{hint}")
}

/// Whole seconds below two minutes, whole minutes above.
fn people_duration(length: Duration) -> String {
    match length.as_secs() {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7_199 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example that Standard Webhooks publishes.
    const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    const ID: &str = "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk";
    const AT: i64 = 1_649_367_553;
    const BODY: &[u8] = br#"{"email":"test@example.com","username":"test_user"}"#;
    const STANDARD: &str = "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=";

    fn verdict(request: Request<'_>, seconds_later: i64) -> String {
        let key = VerifyingKey::parse(SECRET).expect("a secret");
        let now = Timestamp::from_secs(AT + seconds_later);
        match judge(&key, &request, now, Duration::from_secs(300)) {
            Ok(sentence) => format!("valid: {sentence}"),
            Err(sentence) => format!("invalid: {sentence}"),
        }
    }

    fn published() -> Request<'static> {
        Request { id: Some(ID), timestamp: Some("1649367553"), signature: STANDARD, body: BODY }
    }

    #[test]
    fn a_standard_signature_is_judged_part_by_part() {
        let whole = published();
        let newline = [BODY, b"\n"].concat();
        let pretty = br#"{ "email": "test@example.com", "username": "test_user" }"#;
        let cases = [
            (whole, 10, "valid: the signature is correct and was created 10 s ago"),
            (whole, 301, "invalid: the signature is correct, but was created 5 min ago; the tolerance is 5 min"),
            (whole, -3_600, "invalid: the signature is correct, but was created 60 min in the future; the tolerance is 5 min"),
            (
                Request { signature: "v1,AAAA v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=", ..whole },
                0,
                "valid: the signature is correct and was created 0 s ago",
            ),
            (Request { id: None, ..whole }, 0, "invalid: a `v1,…` signature covers the webhook-id: set it with --id"),
            (Request { timestamp: None, ..whole }, 0, "invalid: a `v1,…` signature covers the webhook-timestamp: set it with --timestamp"),
            (
                Request { timestamp: Some("today"), ..whole },
                0,
                "invalid: the timestamp `today` is not a whole number of seconds since 1970",
            ),
            (
                Request { id: Some("msg_other"), ..whole },
                0,
                "invalid: the signature does not match: secret, id, timestamp or body differs from what was signed; a JSON body must be verified as the \
                 raw bytes that were received, not parsed and serialized again",
            ),
            (
                Request { body: b"no JSON", ..whole },
                0,
                "invalid: the signature does not match: secret, id, timestamp or body differs from what was signed",
            ),
            (
                Request { body: &newline, ..whole },
                0,
                "invalid: the body has extra blanks or a newline at its end; without them the signature is correct",
            ),
            (Request { body: pretty, ..whole }, 0, "invalid: the body was parsed and serialized again: verify the raw bytes as received"),
        ];
        for (request, seconds_later, sentence) in cases {
            assert_eq!(verdict(request, seconds_later), sentence);
        }
    }

    #[test]
    fn the_form_of_a_signature_is_recognized() {
        let hex = "a".repeat(64);
        let cases = [
            ("v1,abc v1a,def", Some(Style::Standard)),
            ("t=1,v1=abc", Some(Style::Timestamped)),
            (hex.as_str(), Some(Style::Plain)),
            ("sha1=abc", None),
            ("", None),
        ];
        for (signature, style) in cases {
            assert_eq!(style_of(signature).ok(), style, "{signature}");
        }
        assert_eq!(style_of(&format!("sha256={hex}")), Ok(Style::Plain));
    }
}
