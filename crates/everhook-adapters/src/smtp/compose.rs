//! Writes a mail as it goes over the wire. Nothing that anyone put into a subject, a name or a text can become a header or a command.

use std::time::{Duration, UNIX_EPOCH};

use everhook_core::{
    model::{EmailAddress, EmailSender, FailureCategory},
    ports::EmailMessage,
};
use lettre::{
    Address, Message,
    message::{
        Mailbox, MultiPart, SinglePart,
        header::{HeaderName, HeaderValue},
    },
};

use super::Refusal;

/// How large a mail may be, text and HTML together. Mail servers commonly take ten times that.
const MAIL_BYTES_MAX: usize = 1024 * 1024;

/// How much of a subject is sent, in characters: what mail programs show of it, several times over.
const SUBJECT_CHARS_MAX: usize = 250;

/// How much of a sender's name is sent, in characters.
const NAME_CHARS_MAX: usize = 100;

/// A mail, ready to be sent.
pub(super) struct Composed {
    pub(super) from: Address,
    pub(super) to: Address,
    /// Header and body, in ASCII.
    pub(super) bytes: Vec<u8>,
}

pub(super) fn compose(message: &EmailMessage, sender: &EmailSender) -> Result<Composed, Refusal> {
    let size = message.text.len() + message.html.as_ref().map_or(0, String::len);
    if size > MAIL_BYTES_MAX {
        return Err(Refusal::new(FailureCategory::PayloadTooLarge, format!("the mail has {size} bytes; the limit is {MAIL_BYTES_MAX}")));
    }
    let (from, to) = (address(&sender.address)?, address(&message.to)?);
    let name = sender.name.as_deref().map(|name| one_line(name, NAME_CHARS_MAX)).filter(|name| !name.is_empty());
    // Automatic mail says so, or those who are away would answer it.
    let automatic = HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".to_owned());
    // By which people and their programs sort it.
    let list_id = format!("Everhook notifications <notifications.everhook.{}>", sender.address.domain());
    let list_id = HeaderValue::new(HeaderName::new_from_ascii_str("List-Id"), list_id);
    let builder = Message::builder()
        .message_id(Some(format!("<{}@{}>", message.id, sender.address.domain())))
        .date(UNIX_EPOCH + Duration::from_micros(u64::try_from(message.created_at.as_micros()).unwrap_or(0)))
        .from(Mailbox::new(name, from.clone()))
        .to(Mailbox::new(None, to.clone()))
        .subject(one_line(&message.subject, SUBJECT_CHARS_MAX))
        .raw_header(automatic)
        .raw_header(list_id);
    let plain = SinglePart::plain(complete_lines(&message.text));
    let composed = match &message.html {
        Some(html) => builder.multipart(MultiPart::alternative().singlepart(plain).singlepart(SinglePart::html(complete_lines(html)))),
        None => builder.singlepart(plain),
    };
    let composed = composed.map_err(|error| Refusal::new(FailureCategory::ClientError, format!("cannot compose the mail: {error}")))?;
    Ok(Composed { from, to, bytes: composed.formatted() })
}

fn address(address: &EmailAddress) -> Result<Address, Refusal> {
    Address::new(address.local_part(), address.domain())
        .map_err(|error| Refusal::new(FailureCategory::ClientError, format!("{address} is not an e-mail address: {error}")))
}

/// The text without line breaks and other control characters, cut at a length.
fn one_line(text: &str, chars_max: usize) -> String {
    let line: String = text.chars().take(chars_max).map(|char| if char.is_control() { ' ' } else { char }).collect();
    line.trim().to_owned()
}

/// The text with line ends of one kind, which are written as complete ones, and without other control characters. A lone carriage return would be sent as it
/// is, and there are mail servers that take one for the end of a line: a dot behind it would end the mail, and what follows would be commands.
fn complete_lines(text: &str) -> String {
    let unified = text.replace("\r\n", "\n").replace('\r', "\n");
    unified.chars().filter(|char| !char.is_control() || matches!(char, '\n' | '\t')).collect()
}
