//! How e-mail goes out.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::{
    model::{EmailAddress, Report},
    time::Timestamp,
};

/// One mail to one recipient.
#[derive(Clone, Debug)]
pub struct EmailMessage {
    /// What its `Message-ID` is made of. It must be the same for every attempt at the same mail: mail programs show a repeated one once.
    pub id: Uuid,
    /// Whom it goes to.
    pub to: EmailAddress,
    /// The subject. Control characters in it, line breaks included, are sent as spaces.
    pub subject: String,
    /// The text.
    pub text: String,
    /// The same for programs that show HTML.
    pub html: Option<String>,
    /// When it was written: its `Date`, the same for every attempt.
    pub created_at: Timestamp,
    /// How long an attempt may take, from now to the mail server's last reply.
    pub timeout: Duration,
}

/// Sends mail through the operator's mail server, from the address that the operator chose.
#[async_trait]
pub trait Notifier: Send + Sync {
    /// Hands `message` to the mail server and reports what came of it, within `message.timeout` whatever the server does.
    ///
    /// [`Sent::Answered`](crate::model::Sent::Answered) with the server's 2xx means that the server took the mail and is responsible for it.
    /// [`Sent::Refused`](crate::model::Sent::Refused) means that it will never take this mail for this recipient. All else may pass: a server that is
    /// busy, away, or does not accept our credentials.
    /// An attempt that failed after the mail was transferred may still have delivered it, so that callers must expect repeats.
    async fn send(&self, message: &EmailMessage) -> Report;
}
