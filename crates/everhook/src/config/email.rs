//! Through which mail server e-mail goes out, from whom, and who administers the organization `default`.

use std::fmt;

use everhook_adapters::smtp::SmtpAddress;
use everhook_core::model::{ADMIN_EMAILS_MAX, EmailAddress, EmailSender, Secret};

use super::check::Reader;

/// The longest name of a sender.
const SENDER_NAME_BYTES_MAX: usize = 200;

/// How e-mail goes out.
#[derive(Clone)]
pub struct EmailConfig {
    /// The mail server.
    pub server: SmtpAddress,
    /// Whom mail is from.
    pub from: EmailSender,
}

impl fmt::Debug for EmailConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmailConfig").field("from", &self.from).finish_non_exhaustive()
    }
}

/// Reads all of them; what is set without what it needs is a fault: somebody expects something of it.
pub(super) fn read(reader: &mut Reader<'_>) -> (Option<EmailConfig>, Option<Vec<EmailAddress>>) {
    let server = reader.optional("smtp", |text| SmtpAddress::read(&Secret::new(text.to_owned())).map_err(|error| error.to_string()));
    let from = reader.optional("smtp_from", parse_sender);
    let from_name = reader.optional("smtp_from_name", parse_sender_name);
    if reader.is_set("smtp_from_name") && !reader.is_set("smtp_from") {
        reader.faults.push("smtp_from_name: requires `smtp_from`".to_owned());
    }
    let from = from.map(|from| EmailSender { name: from.name.or(from_name), ..from });
    let admins = reader.optional("admin_emails", parse_addresses);
    match (reader.is_set("smtp"), reader.is_set("smtp_from")) {
        (true, false) => reader.faults.push("smtp: requires `smtp_from`, the address that mail is sent from".to_owned()),
        (false, true) => reader.faults.push("smtp_from: requires `smtp`".to_owned()),
        _ => {}
    }
    if reader.is_set("admin_emails") && !reader.is_set("smtp") {
        reader.faults.push("admin_emails: requires `smtp`".to_owned());
    }
    (server.zip(from).map(|(server, from)| EmailConfig { server, from }), admins)
}

/// `Name <address>`, or the address alone.
fn parse_sender(text: &str) -> Result<EmailSender, String> {
    let rule = "must be an address, as in everhook@example.com or Everhook <everhook@example.com>";
    let (name, address) = match text.trim().strip_suffix('>').and_then(|text| text.split_once('<')) {
        Some((name, address)) => (Some(name.trim().trim_matches('"').to_owned()), address),
        None => (None, text),
    };
    let address = EmailAddress::parse(address.trim()).map_err(|_| rule.to_owned())?;
    Ok(EmailSender { name: name.filter(|name| !name.is_empty()), address })
}

/// A name that mail programs show. Other characters than these are the mail's to encode.
fn parse_sender_name(text: &str) -> Result<String, String> {
    let name = text.trim().trim_matches('"').trim();
    let is_good = !name.is_empty() && name.len() <= SENDER_NAME_BYTES_MAX && !name.chars().any(char::is_control);
    is_good.then(|| name.to_owned()).ok_or_else(|| format!("must be a name of 1 to {SENDER_NAME_BYTES_MAX} bytes in one line"))
}

fn parse_addresses(text: &str) -> Result<Vec<EmailAddress>, String> {
    let mut addresses = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let address = EmailAddress::parse(part).map_err(|fault| format!("`{}` {fault}", part.escape_debug()))?;
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.len() > ADMIN_EMAILS_MAX { Err(format!("must have at most {ADMIN_EMAILS_MAX} addresses")) } else { Ok(addresses) }
}
