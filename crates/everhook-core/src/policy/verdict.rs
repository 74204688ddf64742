//! What an attempt's outcome means: success, the end, or another try. Asked by the settle flow after each request.
//!
//! It judges one request and knows no history but the attempt's number; whether attempts are left is for `retry.rs` to say.

use crate::{
    model::{DeathCause, FailureCategory, Parking, Response, RetryAfter, RetrySchedule, Sent},
    policy::retry_after,
};

/// How many attempts a failing TLS handshake gets in all: certificates do not repair themselves.
const TLS_ATTEMPTS_MAX: u32 = 3;

/// What an attempt's outcome means for its delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A 2xx in time.
    Accepted,
    /// Another attempt would be pointless, whatever the schedule still allows.
    Refused {
        /// Why the delivery ends.
        refusal: DeathCause,
        /// What was wrong.
        failure: Failure,
    },
    /// Something outside must come first.
    Park(Parking),
    /// It failed in a way that may pass.
    TryLater {
        /// What was wrong.
        failure: Failure,
        /// What the endpoint asked for, where that is honored.
        retry_after: Option<RetryAfter>,
    },
}

/// What was wrong with an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure.
    pub category: FailureCategory,
    /// The same in words for people.
    pub error: String,
}

/// Judges what came of attempt `attempt_number` (from 1) under the delivery's schedule.
pub fn judge(sent: &Sent, schedule: &RetrySchedule, attempt_number: u32) -> Verdict {
    match sent {
        Sent::Answered(response) => judge_answer(response, schedule),
        // A head that came before the failure is not judged: an answer counts only when it is complete.
        Sent::Failed { category, error, response: _ } => {
            let failure = Failure { category: *category, error: error.clone() };
            match category {
                FailureCategory::Tls if attempt_number >= TLS_ATTEMPTS_MAX => Verdict::Refused { refusal: DeathCause::TlsFailed, failure },
                _ => Verdict::TryLater { failure, retry_after: None },
            }
        }
        Sent::Refused { category, error, response: _ } => {
            let failure = Failure { category: *category, error: error.clone() };
            Verdict::Refused { refusal: DeathCause::GivenUp, failure }
        }
        Sent::Parked { parking, response: _ } => Verdict::Park(parking.clone()),
        // Handed back before it is judged; if it were not, it would be tried again.
        Sent::OutOfResources { error } => {
            let failure = Failure { category: FailureCategory::Network, error: error.clone() };
            Verdict::TryLater { failure, retry_after: None }
        }
    }
}

fn judge_answer(response: &Response, schedule: &RetrySchedule) -> Verdict {
    let Some(category) = failure_category(response.status) else { return Verdict::Accepted };
    let failure = Failure { category, error: describe(response.status) };
    match response.status {
        410 => Verdict::Refused { refusal: DeathCause::Gone, failure },
        status if schedule.give_up_on.contains(&status) => Verdict::Refused { refusal: DeathCause::GivenUp, failure },
        _ => Verdict::TryLater { failure, retry_after: retry_after::asked(response) },
    }
}

/// `None` for success. A status outside the classes of HTTP is the server's fault.
const fn failure_category(status: u16) -> Option<FailureCategory> {
    match status {
        200..=299 => None,
        300..=399 => Some(FailureCategory::Redirect),
        408 => Some(FailureCategory::Timeout),
        413 => Some(FailureCategory::PayloadTooLarge),
        429 => Some(FailureCategory::RateLimit),
        400..=499 => Some(FailureCategory::ClientError),
        _ => Some(FailureCategory::ServerError),
    }
}

fn describe(status: u16) -> String {
    let note = if (300..=399).contains(&status) { "; redirects are not followed" } else { "" };
    match reason(status) {
        Some(reason) => format!("the endpoint answered {status} {reason}{note}"),
        None => format!("the endpoint answered {status}{note}"),
    }
}

/// What a status means, in the words of RFC 9110, for those that failing endpoints send.
fn reason(status: u16) -> Option<&'static str> {
    REASONS.iter().find(|(known, _)| *known == status).map(|(_, reason)| *reason)
}

const REASONS: [(u16, &str); 31] = [
    (300, "Multiple Choices"),
    (301, "Moved Permanently"),
    (302, "Found"),
    (303, "See Other"),
    (304, "Not Modified"),
    (307, "Temporary Redirect"),
    (308, "Permanent Redirect"),
    (400, "Bad Request"),
    (401, "Unauthorized"),
    (402, "Payment Required"),
    (403, "Forbidden"),
    (404, "Not Found"),
    (405, "Method Not Allowed"),
    (406, "Not Acceptable"),
    (408, "Request Timeout"),
    (409, "Conflict"),
    (410, "Gone"),
    (411, "Length Required"),
    (413, "Content Too Large"),
    (414, "URI Too Long"),
    (415, "Unsupported Media Type"),
    (422, "Unprocessable Content"),
    (423, "Locked"),
    (429, "Too Many Requests"),
    (431, "Request Header Fields Too Large"),
    (451, "Unavailable For Legal Reasons"),
    (500, "Internal Server Error"),
    (501, "Not Implemented"),
    (502, "Bad Gateway"),
    (503, "Service Unavailable"),
    (504, "Gateway Timeout"),
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::model::Cut;
    use crate::policy::presets;

    const ASKED: Option<RetryAfter> = Some(RetryAfter::Delay(Duration::from_secs(9)));

    fn answered(status: u16) -> Sent {
        Sent::Answered(Response { status, headers: vec![], body_sample: Bytes::new(), cut: Cut::default(), retry_after: ASKED })
    }

    fn failed(category: FailureCategory) -> Sent {
        Sent::Failed { category, error: "it broke".to_owned(), response: None }
    }

    /// The verdict as a line of a table: what follows, the category, and whether `Retry-After` is honored.
    fn line(verdict: &Verdict) -> String {
        match verdict {
            Verdict::Accepted => "accepted".to_owned(),
            Verdict::Park(parking) => format!("parked for {}", parking.waits_for),
            Verdict::Refused { refusal, failure } => format!("dead: {} ({})", refusal.as_str(), failure.category.as_str()),
            Verdict::TryLater { failure, retry_after: None } => format!("later ({})", failure.category.as_str()),
            Verdict::TryLater { failure, retry_after: Some(_) } => format!("later, as asked ({})", failure.category.as_str()),
        }
    }

    #[test]
    fn an_answer_is_judged_by_its_status() {
        let cases = [
            // status, under `relay` (gives up on nothing), under `backoff` (gives up on hopeless ones)
            (100, "later (server_error)", "later (server_error)"),
            (200, "accepted", "accepted"),
            (204, "accepted", "accepted"),
            (299, "accepted", "accepted"),
            (301, "later (redirect)", "later (redirect)"),
            (304, "later (redirect)", "later (redirect)"),
            (400, "later (client_error)", "dead: given_up (client_error)"),
            (404, "later (client_error)", "dead: given_up (client_error)"),
            (408, "later (timeout)", "later (timeout)"),
            (409, "later (client_error)", "later (client_error)"),
            (410, "dead: gone (client_error)", "dead: gone (client_error)"),
            (413, "later (payload_too_large)", "dead: given_up (payload_too_large)"),
            (429, "later, as asked (rate_limit)", "later, as asked (rate_limit)"),
            (499, "later (client_error)", "later (client_error)"),
            (500, "later (server_error)", "later (server_error)"),
            (503, "later, as asked (server_error)", "later, as asked (server_error)"),
            (599, "later (server_error)", "later (server_error)"),
            (600, "later (server_error)", "later (server_error)"),
        ];
        for (status, relay, backoff) in cases {
            for (preset, expected) in [("relay", relay), ("backoff", backoff)] {
                let verdict = judge(&answered(status), &presets::preset(preset).unwrap(), 1);
                assert_eq!(line(&verdict), expected, "{status} under {preset}");
            }
        }
    }

    #[test]
    fn a_schedule_may_give_up_on_any_failure_but_never_on_success() {
        let schedule = RetrySchedule { give_up_on: vec![200, 302, 429, 503], ..presets::standard() };
        let cases = [
            (200, "accepted"),
            (302, "dead: given_up (redirect)"),
            (429, "dead: given_up (rate_limit)"),
            (503, "dead: given_up (server_error)"),
            (500, "later (server_error)"),
        ];
        for (status, expected) in cases {
            assert_eq!(line(&judge(&answered(status), &schedule, 1)), expected, "{status}");
        }
    }

    #[test]
    fn what_the_other_side_refuses_for_good_is_not_tried_again_under_any_schedule() {
        let refused = Sent::Refused { category: FailureCategory::ClientError, error: "no such mailbox".to_owned(), response: None };
        for preset in ["relay", "backoff"] {
            assert_eq!(line(&judge(&refused, &presets::preset(preset).unwrap(), 1)), "dead: given_up (client_error)");
        }
    }

    #[test]
    fn a_request_without_an_answer_is_tried_again_and_tls_three_times_in_all() {
        let cases = [
            (FailureCategory::Timeout, 99, "later (timeout)"),
            (FailureCategory::Network, 99, "later (network)"),
            (FailureCategory::Dns, 99, "later (dns)"),
            (FailureCategory::BlockedAddress, 99, "later (blocked_address)"),
            (FailureCategory::Tls, 1, "later (tls)"),
            (FailureCategory::Tls, 2, "later (tls)"),
            (FailureCategory::Tls, 3, "dead: tls_failed (tls)"),
            (FailureCategory::Tls, 4, "dead: tls_failed (tls)"),
        ];
        for (category, attempt, expected) in cases {
            assert_eq!(line(&judge(&failed(category), &presets::standard(), attempt)), expected, "{category:?} at {attempt}");
        }
    }

    #[test]
    fn an_answer_that_never_ended_is_not_judged_by_its_head() {
        let Sent::Answered(gone) = answered(410) else { unreachable!("answered() answers") };
        let sent = Sent::Failed { category: FailureCategory::Timeout, error: "it dripped".to_owned(), response: Some(gone) };
        assert_eq!(line(&judge(&sent, &presets::standard(), 1)), "later (timeout)");
    }

    #[test]
    fn a_failure_says_in_words_what_was_wrong() {
        let cases = [
            (answered(503), "the endpoint answered 503 Service Unavailable"),
            (answered(302), "the endpoint answered 302 Found; redirects are not followed"),
            (answered(399), "the endpoint answered 399; redirects are not followed"),
            (answered(418), "the endpoint answered 418"),
            (failed(FailureCategory::Dns), "it broke"),
        ];
        for (sent, words) in cases {
            let Verdict::TryLater { failure, .. } = judge(&sent, &presets::standard(), 1) else { panic!("{sent:?} may pass") };
            assert_eq!(failure.error, words);
        }
    }
}
