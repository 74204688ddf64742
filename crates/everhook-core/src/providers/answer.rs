//! What came of a request to a provider, as its callers decide by it.

use bytes::Bytes;

use crate::{
    health::{
        callback::CallbackFault,
        limits::{self, RateNotice},
    },
    model::{FailureCategory, Report, Response, RetryAfter, Sent},
    time::Timestamp,
};

/// An answer, and what it says about the provider's limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked<T> {
    /// What was asked for, or why it did not come.
    pub outcome: Result<T, NoAnswer>,
    /// What is to be put into the provider's rate, whatever came.
    pub notice: RateNotice,
}

/// Why a provider did not give what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The token does not hold: refresh it, or the user withdrew.
    #[error("the provider does not accept the user's token")]
    Unauthorized,
    /// The user does not allow it.
    #[error("the user's permissions do not include this request")]
    Forbidden,
    /// It is not there, or not for this user.
    #[error("the provider does not have it, or not for this user")]
    NotFound,
    /// Too many requests.
    #[error("the provider refused the request: too many requests")]
    Limited {
        /// When it asked to be tried again.
        retry_at: Option<Timestamp>,
    },
    /// It may work later.
    #[error("{error}")]
    Unavailable {
        /// What kind of failure.
        category: FailureCategory,
        /// What was wrong, in words.
        error: String,
    },
    /// No request was made: this machine had no room for it.
    #[error("{error}")]
    OutOfResources {
        /// What was missing, in words.
        error: String,
    },
    /// No request was made, and none ever will be: the address is not the provider's.
    #[error(transparent)]
    Blocked(#[from] CallbackFault),
}

impl<T> Asked<T> {
    /// Nothing was asked.
    pub(super) fn nothing(why: NoAnswer) -> Self {
        Self { outcome: Err(why), notice: RateNotice::default() }
    }

    /// The same answer, read further.
    pub(super) fn and_then<U>(self, read: impl FnOnce(T) -> Result<U, NoAnswer>) -> Asked<U> {
        Asked { outcome: self.outcome.and_then(read), notice: self.notice }
    }
}

impl Asked<Response> {
    /// Reads a report: any answer that came whole, with what it says about limits.
    pub(super) fn of(report: Report, now: Timestamp) -> Self {
        match report.sent {
            Sent::Answered(response) => {
                let notice = notice(&response, now);
                let outcome = if response.status == 429 { Err(NoAnswer::Limited { retry_at: notice.retry_at }) } else { Ok(response) };
                Self { outcome, notice }
            }
            Sent::Failed { category, error, .. } | Sent::Refused { category, error, .. } => {
                Self::nothing(NoAnswer::Unavailable { category, error })
            }
            Sent::OutOfResources { error } => Self::nothing(NoAnswer::OutOfResources { error }),
            Sent::Parked { .. } => Self::nothing(unavailable(FailureCategory::Network, "the provider did not answer".to_owned())),
        }
    }

    /// The body of a success.
    pub(super) fn body(self) -> Asked<Bytes> {
        self.and_then(|response| match response.status {
            200..=299 if response.cut.body => {
                Err(unavailable(FailureCategory::PayloadTooLarge, "the provider's answer is too large".to_owned()))
            }
            200..=299 => Ok(response.body_sample),
            status => Err(by_status(status)),
        })
    }
}

/// What a status other than a success means.
pub(super) fn by_status(status: u16) -> NoAnswer {
    match status {
        401 => NoAnswer::Unauthorized,
        403 => NoAnswer::Forbidden,
        404 | 410 => NoAnswer::NotFound,
        // Redirects are not followed: the token would travel along.
        300..=399 => unavailable(FailureCategory::Redirect, format!("the provider answered {status}; redirects are not followed")),
        400..=499 => unavailable(FailureCategory::ClientError, format!("the provider answered {status}")),
        _ => unavailable(FailureCategory::ServerError, format!("the provider answered {status}")),
    }
}

pub(super) fn unavailable(category: FailureCategory, error: String) -> NoAnswer {
    NoAnswer::Unavailable { category, error }
}

fn notice(response: &Response, now: Timestamp) -> RateNotice {
    let header = |wanted: &str| response.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_ref());
    let retry_at = response.retry_after.map(|after| match after {
        RetryAfter::Delay(delay) => now + delay,
        RetryAfter::At(at) => at,
    });
    RateNotice { said: limits::strava_notice(header), is_refused: response.status == 429, retry_at }
}
