//! Tokens: when one is to be replaced, and what a provider answers to that.

use std::time::Duration;

use super::{
    item::{Item, Names},
    value,
};
use crate::{
    model::{
        Secret,
        health::{TOKEN_BYTES_MAX, Tokens},
    },
    time::Timestamp,
};

/// How long before its end a token is replaced: longer than a request takes, and clocks differ. Strava gives a new one in a token's last hour alone.
const REFRESHED_BEFORE: Duration = Duration::from_secs(5 * 60);

const ACCESS: Names = &["access_token"];
const REFRESH: Names = &["refresh_token"];
const EXPIRES_AT: Names = &["expires_at"];
const EXPIRES_IN: Names = &["expires_in"];
const ERRORS: Names = &["errors"];
/// What Strava calls the side that asks: its id or its secret is wrong, and the user's token may be good.
const APPLICATION: &str = "Application";

/// Whether a token should be replaced before it is used. One whose end nobody said is used until it is refused.
pub fn is_refresh_due(tokens: &Tokens, now: Timestamp) -> bool {
    tokens.refresh.is_some() && tokens.expires_at.is_some_and(|end| end <= now + REFRESHED_BEFORE)
}

/// Whether a token that was refused has been replaced since: by somebody else who refreshed first.
pub fn is_other_token(refused: &Tokens, stored: &Tokens) -> bool {
    refused.access != stored.access
}

/// Reads the tokens of an answer; `None` if they are not there. One that brings no new refresh token leaves the old one.
pub fn read(answer: &[u8], old: &Tokens, now: Timestamp) -> Option<Tokens> {
    let item = Item::read(answer).ok()?;
    let token = |names| item.raw(names).and_then(token);
    let access = token(ACCESS)?;
    let expires_in = || item.rare_number(EXPIRES_IN, 0.0..=1e9).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let expires_at = item.rare_instant(EXPIRES_AT).or_else(|| expires_in().map(|length| now + length));
    Some(Tokens { access, refresh: token(REFRESH).or_else(|| old.refresh.clone()), expires_at })
}

/// Whether a refusal is about the side that asks, not about the user: then nothing is known about the user's token.
pub fn is_about_client(answer: &[u8]) -> bool {
    let Some(errors) = Item::read(answer).ok().and_then(|item| item.raw(ERRORS).map(str::to_owned)) else { return false };
    // Some lines of JSON, bounded by the answer: the resource is named wherever it stands.
    errors.contains(&format!("\"{APPLICATION}\""))
}

/// A token goes into a header: visible characters alone.
fn token(raw: &str) -> Option<Secret<String>> {
    let text = value::long_text(raw, TOKEN_BYTES_MAX)?;
    let is_good = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_good.then(|| Secret::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(access: &str, refresh: Option<&str>, expires_at: Option<i64>) -> Tokens {
        let secret = |text: &str| Secret::new(text.to_owned());
        Tokens { access: secret(access), refresh: refresh.map(secret), expires_at: expires_at.map(Timestamp::from_secs) }
    }

    #[test]
    fn a_token_is_replaced_shortly_before_its_end() {
        let now = Timestamp::from_secs(1_000_000);
        for (refresh, expires_at, is_due) in [
            (Some("r"), Some(1_000_301), false),
            (Some("r"), Some(1_000_300), true),
            (Some("r"), Some(5), true),
            (Some("r"), None, false),
            (None, Some(5), false),
        ] {
            assert_eq!(is_refresh_due(&tokens("a", refresh, expires_at), now), is_due, "{refresh:?} {expires_at:?}");
        }
    }

    #[test]
    fn tokens_are_read_from_any_answer() {
        let (old, now) = (tokens("old", Some("old-refresh"), None), Timestamp::from_secs(1_000));
        let long = "x".repeat(TOKEN_BYTES_MAX + 1);
        for (answer, expected) in [
            (
                r#"{"token_type":"Bearer","access_token":"a","expires_at":1568775134,"expires_in":20566,"refresh_token":"r"}"#.to_owned(),
                Some(tokens("a", Some("r"), Some(1_568_775_134))),
            ),
            (r#"{"access_token":"a","expires_in":"600"}"#.to_owned(), Some(tokens("a", Some("old-refresh"), Some(1_600)))),
            (r#"{"access_token":"a"}"#.to_owned(), Some(tokens("a", Some("old-refresh"), None))),
            (r#"{"access_token":"a\r\nx: y"}"#.to_owned(), None),
            (r#"{"access_token":""}"#.to_owned(), None),
            (format!(r#"{{"access_token":"{long}"}}"#), None),
            (r#"{"access_token":7}"#.to_owned(), None),
            ("{}".to_owned(), None),
            ("<html>".to_owned(), None),
        ] {
            assert_eq!(read(answer.as_bytes(), &old, now), expected, "{answer}");
        }
    }

    #[test]
    fn a_refusal_says_whose_fault_it_is() {
        for (answer, expected) in [
            (r#"{"message":"Bad Request","errors":[{"resource":"RefreshToken","field":"refresh_token","code":"invalid"}]}"#, false),
            (r#"{"message":"Bad Request","errors":[{"resource":"Application","field":"client_id","code":"invalid"}]}"#, true),
            (r#"{"message":"Application","errors":[]}"#, false),
            ("", false),
        ] {
            assert_eq!(is_about_client(answer.as_bytes()), expected, "{answer}");
        }
    }

    #[test]
    fn a_token_that_somebody_else_replaced_is_another_one() {
        let (refused, stored) = (tokens("a", None, None), tokens("b", None, None));
        assert!(is_other_token(&refused, &stored) && !is_other_token(&refused, &refused));
    }
}
