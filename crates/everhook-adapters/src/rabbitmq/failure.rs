//! Says what went wrong at a broker: a category for the retry policy and a sentence for the endpoint's owner.

use everhook_core::model::FailureCategory;
use lapin::{ErrorKind, message::BasicReturnMessage};

use crate::http::Failure;

/// AMQP's reply codes that mean the sender is at fault: what they ask for is missing, forbidden, or malformed.
const OUR_FAULT: [u16; 6] = [402, 403, 404, 405, 406, 530];

/// AMQP's reply code for a message that is too large.
const CONTENT_TOO_LARGE: u16 = 311;

/// The longest text of a broker's that is kept.
const WORDS_MAX: usize = 255;

/// Something failed while the broker was spoken to.
pub(super) fn of(error: &lapin::Error) -> Failure {
    match error.kind() {
        ErrorKind::ProtocolError(refusal) => {
            let words = format!("the broker answered {}: {}", refusal.get_id(), shown(refusal.get_message().as_str()));
            Failure::new(category(refusal.get_id()), words)
        }
        ErrorKind::MissingHeartbeatError => Failure::new(FailureCategory::Timeout, "the broker sent no heartbeat"),
        ErrorKind::ParsingError(_) | ErrorKind::InvalidProtocolVersion(_) => {
            Failure::new(FailureCategory::Network, "the server does not support AMQP 0-9-1")
        }
        _ if is_loss(error) => Failure::new(FailureCategory::Network, "the connection to the broker was lost before it confirmed"),
        other => Failure::new(FailureCategory::Network, format!("cannot communicate with the broker: {}", shown(&format!("{other:?}")))),
    }
}

/// Whether the connection went away, as opposed to the broker refusing something.
pub(super) fn is_loss(error: &lapin::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::IOError(_)
            | ErrorKind::InvalidChannel(_)
            | ErrorKind::InvalidChannelState(..)
            | ErrorKind::InvalidConnectionState(_)
            | ErrorKind::MissingHeartbeatError
    )
}

/// No queue is bound for the message.
pub(super) fn returned(message: &BasicReturnMessage) -> Failure {
    let words = format!(
        "the broker returned the message ({} {}): no queue is bound to the exchange `{}` for the routing key `{}`",
        message.reply_code,
        shown(message.reply_text.as_str()),
        shown(message.delivery.exchange.as_str()),
        shown(message.delivery.routing_key.as_str()),
    );
    Failure::new(FailureCategory::ClientError, words)
}

/// The broker said that it did not take the message.
pub(super) fn nacked() -> Failure {
    Failure::new(FailureCategory::ServerError, "the broker did not accept the message: a queue is full, or the broker is failing")
}

/// The broker did not confirm because nobody asked it to, which is a fault of ours or of a broker that forgot.
pub(super) fn unconfirmed() -> Failure {
    Failure::new(FailureCategory::ServerError, "the broker does not confirm messages")
}

/// The credentials are in a form that brokers do not take.
pub(super) fn bad_login() -> Failure {
    Failure::new(FailureCategory::ClientError, "the header `authorization` must be `Basic` and base64 of `user:password`")
}

/// A part of the message does not fit into the protocol.
pub(super) fn unsendable(part: &str) -> Failure {
    Failure::new(FailureCategory::ClientError, format!("not sent: {} is too long for AMQP", shown(part)))
}

/// As many connections to brokers are in use as there may be: a bound of ours, which the broker has nothing to do with.
pub(super) fn too_many_links(links_max: usize) -> Failure {
    Failure::out_of_resources(format!("{links_max} other connections to brokers are in use"))
}

fn category(reply_code: u16) -> FailureCategory {
    match reply_code {
        CONTENT_TOO_LARGE => FailureCategory::PayloadTooLarge,
        code if OUR_FAULT.contains(&code) => FailureCategory::ClientError,
        _ => FailureCategory::ServerError,
    }
}

/// A stranger's words, bounded and without control characters.
fn shown(words: &str) -> String {
    words.chars().filter(|c| !c.is_control()).take(WORDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_the_senders_fault_or_the_brokers() {
        let cases = [
            (403, FailureCategory::ClientError),
            (404, FailureCategory::ClientError),
            (530, FailureCategory::ClientError),
            (311, FailureCategory::PayloadTooLarge),
            (320, FailureCategory::ServerError),
            (541, FailureCategory::ServerError),
        ];
        for (code, expected) in cases {
            assert_eq!(category(code), expected, "{code}");
        }
    }
}
