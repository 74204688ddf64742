//! E-mail addresses, checked where they are made: one that exists can be written into a header or an SMTP command as it is.

use std::fmt;

/// How long an address may be (RFC 5321, with the brackets around it).
const ADDRESS_BYTES_MAX: usize = 254;

/// How long the part before the `@` may be (RFC 5321).
const LOCAL_PART_BYTES_MAX: usize = 64;

/// How long one label of the domain may be (RFC 1035).
const LABEL_BYTES_MAX: usize = 63;

/// An e-mail address: ASCII, without quotes, comments, spaces or control characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EmailAddress(String);

/// Whom a mail is from: an address, and a name that mail programs show instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmailSender {
    /// The name.
    pub name: Option<String>,
    /// The address.
    pub address: EmailAddress,
}

/// Why a text is not an e-mail address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmailAddressFault {
    /// It is longer than an address may be.
    #[error("must have at most 254 bytes, 64 of them before the @")]
    TooLong,
    /// It has characters that do not belong there.
    #[error("must be an e-mail address as in name@example.com, in ASCII and without quotes")]
    Malformed,
}

impl EmailAddress {
    /// Checks an address. Quoted local parts and addresses outside ASCII are refused: few mail servers take them, and none of them is needed here.
    ///
    /// # Errors
    /// [`EmailAddressFault`] says what would be right.
    pub fn parse(text: &str) -> Result<Self, EmailAddressFault> {
        let (local_part, domain) = text.rsplit_once('@').ok_or(EmailAddressFault::Malformed)?;
        if text.len() > ADDRESS_BYTES_MAX || local_part.len() > LOCAL_PART_BYTES_MAX {
            return Err(EmailAddressFault::TooLong);
        }
        if local_part.split('.').all(is_atom) && domain.split('.').all(is_label) {
            return Ok(Self(text.to_owned()));
        }
        Err(EmailAddressFault::Malformed)
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part before the `@`.
    pub fn local_part(&self) -> &str {
        self.0.rsplit_once('@').map_or("", |(local_part, _)| local_part)
    }

    /// The part behind the `@`.
    pub fn domain(&self) -> &str {
        self.0.rsplit_once('@').map_or("", |(_, domain)| domain)
    }
}

impl fmt::Display for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether it is an `Atom` of RFC 5321.
fn is_atom(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte))
}

fn is_label(text: &str) -> bool {
    let is_clean = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    !text.is_empty() && text.len() <= LABEL_BYTES_MAX && is_clean && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_plain_ascii_and_can_be_written_anywhere() {
        for good in ["a@b", "first.last+tag@mail.example.com", "o'brien@example.com", "ops@xn--bcher-kva.example"] {
            let address = EmailAddress::parse(good).unwrap();
            assert_eq!(format!("{}@{}", address.local_part(), address.domain()), good);
        }
        let bad = [
            "",
            "a",
            "@b",
            "a@",
            "a b@c",
            "a@b c",
            "a@b\r\nRCPT TO:<x@y>",
            "a\r\nBcc: x@y@z",
            "<a@b>",
            "a@b>",
            "\"a\"@b",
            "a@b,c@d",
            "a..b@c",
            ".a@b",
            "a@b..c",
            "a@-b",
            "a@b-",
            "a@b@c",
            "bücher@example.com",
            "a@bücher.example",
            "a\0@b",
            "a@[127.0.0.1]",
        ];
        for bad in bad {
            assert_eq!(EmailAddress::parse(bad), Err(EmailAddressFault::Malformed), "{bad:?}");
        }
        for long in [format!("{}@b", "a".repeat(65)), format!("a@{}", "b.".repeat(200)), "a".repeat(1 << 20) + "@b"] {
            assert_eq!(EmailAddress::parse(&long), Err(EmailAddressFault::TooLong));
        }
        assert_eq!(EmailAddress::parse(&format!("a@{}", "b".repeat(64))), Err(EmailAddressFault::Malformed));
    }
}
