//! Small lists as columns hold them: an event's labels as a JSON object, its headers as a JSON list of pairs, e-mail addresses as a JSON list.

use std::collections::BTreeMap;

use everhook_core::model::EmailAddress;

/// Labels, to be kept.
pub(crate) fn labels_json(labels: &BTreeMap<String, String>) -> String {
    serde_json::to_string(labels).expect("an object of strings is JSON")
}

/// Labels that are kept so; `None` if that was damaged.
pub(crate) fn read_labels(json: &str) -> Option<BTreeMap<String, String>> {
    serde_json::from_str(json).ok()
}

/// Headers, to be kept.
pub(crate) fn headers_json(headers: &[(String, String)]) -> String {
    serde_json::to_string(headers).expect("a list of pairs of strings is JSON")
}

/// Headers that are kept so; `None` if that was damaged.
pub(crate) fn read_headers(json: &str) -> Option<Vec<(String, String)>> {
    serde_json::from_str(json).ok()
}

/// E-mail addresses, to be kept.
pub(crate) fn emails_json(emails: &[EmailAddress]) -> String {
    let texts: Vec<&str> = emails.iter().map(EmailAddress::as_str).collect();
    serde_json::to_string(&texts).expect("a list of strings is JSON")
}

/// E-mail addresses that are kept so; `None` if that was damaged.
pub(crate) fn read_emails(json: &str) -> Option<Vec<EmailAddress>> {
    let texts: Vec<String> = serde_json::from_str(json).ok()?;
    texts.iter().map(|text| EmailAddress::parse(text).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_headers_are_read_as_they_were_kept_and_damage_is_noticed() {
        let labels = BTreeMap::from([("plan".to_owned(), "\"gold\"".to_owned())]);
        let headers = vec![("X-Plan".to_owned(), "a".to_owned()), ("X-Plan".to_owned(), "b".to_owned())];
        assert_eq!(read_labels(&labels_json(&labels)), Some(labels));
        assert_eq!(read_headers(&headers_json(&headers)), Some(headers));
        for damaged in ["", "{", "[[\"a\"]]", "{\"a\":1}"] {
            assert_eq!((read_labels(damaged), read_headers(damaged), read_emails(damaged)), (None, None, None), "{damaged}");
        }
        let emails = vec![EmailAddress::parse("a@example.com").unwrap()];
        assert_eq!((read_emails(&emails_json(&emails)), read_emails("[\"a\"]")), (Some(emails), None));
    }
}
