//! What a provider is answered once its request is stored: `ok` of a recipe.

use crate::inbound::{RecipeFault, Reply, fields::shown};

/// What Salesforce wants to hear.
const SOAP_ACK: &str = concat!(
    r#"<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body>"#,
    r#"<notificationsResponse xmlns="http://soap.sforce.com/2005/09/outbound"><Ack>true</Ack></notificationsResponse></soapenv:Body></soapenv:Envelope>"#,
);

/// Reads `ok`: a status, then nothing or `text …`, `json …`, `xml …`, `soap-ack`.
pub(super) fn parse(text: &str) -> Result<Reply, RecipeFault> {
    const RIGHT: &str = "write a status from 200 to 299, then nothing, text …, json …, xml … or soap-ack";
    let fault = || RecipeFault::new("ok", format!("is `{}`; {RIGHT}", shown(text)));
    if text.is_empty() {
        return Ok(reply(200, None, ""));
    }
    let (status, rest) = text.split_once(' ').unwrap_or((text, ""));
    let status = status.parse().ok().filter(|status| (200..300).contains(status)).ok_or_else(fault)?;
    match rest.split_once(' ').unwrap_or((rest, "")) {
        ("", "") => Ok(reply(status, None, "")),
        ("soap-ack", "") => Ok(reply(status, Some("text/xml; charset=utf-8"), SOAP_ACK)),
        (_, "") => Err(fault()),
        _ if status == 204 => Err(RecipeFault::new("ok", "has a body, which status 204 cannot have")),
        ("text", body) => Ok(reply(status, Some("text/plain; charset=utf-8"), body)),
        ("json", body) if serde_json::from_str::<serde::de::IgnoredAny>(body).is_ok() => Ok(reply(status, Some("application/json"), body)),
        ("xml", body) => Ok(reply(status, Some("text/xml; charset=utf-8"), body)),
        _ => Err(fault()),
    }
}

fn reply(status: u16, content_type: Option<&str>, body: &str) -> Reply {
    let headers = content_type.map(|value| vec![("content-type", value.to_owned()), ("x-content-type-options", "nosniff".to_owned())]);
    Reply { status, headers: headers.unwrap_or_default(), body: body.as_bytes().to_vec() }
}
