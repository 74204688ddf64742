//! One attempt in full: the request or the e-mail as it was sent, and the answer as it came.

use std::{borrow::Cow, sync::Arc};

use axum::{
    extract::{FromRequestParts, Path, State},
    response::Response,
};
use bytes::Bytes;
use everhook_core::{
    ids::DeliveryId,
    manage::sent::{self, PastRequest, Sent},
    model::{self, Scope, Scopes},
    ports::OutgoingHeader,
};
use http::{StatusCode, request::Parts};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api,
    access::MayRead,
    attempts::AttemptOut,
    error::{ApiError, ReadProblems},
    wire::{HIDDEN, NoParams, json},
};

/// How much of a request's body is shown: all of it, unless the operator allows events that no page could show.
const BODY_SHOWN_BYTES_MAX: usize = 1 << 20;

/// An attempt with its request and response.
#[derive(Serialize, ToSchema)]
pub struct AttemptInFullOut {
    #[serde(flatten)]
    attempt: AttemptOut,
    /// The request that was sent, or that would have been sent with a connection. Null if unknown.
    #[schema(required = true)]
    request: Option<RequestOut>,
    /// Why there is no request.
    #[schema(required = true)]
    request_absent: Option<&'static str>,
    /// The e-mail, if the delivery goes to an address.
    #[schema(required = true)]
    email: Option<EmailOut>,
    /// The text of the notification, if the delivery goes to a channel of a service. The request itself has credentials.
    #[schema(required = true)]
    notification: Option<EmailOut>,
    /// The response; null if there was none.
    #[schema(required = true)]
    response: Option<ResponseOut>,
}

/// A request, exactly as it was sent.
#[derive(Serialize, ToSchema)]
pub struct RequestOut {
    #[schema(example = "POST")]
    method: &'static str,
    url: String,
    /// Pairs of name and value, in the order of sending. Values of custom headers, which may be credentials, are shown to keys with the
    /// scope `manage`; others see `***`.
    #[schema(value_type = Vec<Vec<String>>, example = json!([["host", "shop.example"], ["content-type", "application/json"]]))]
    headers: Vec<(String, String)>,
    /// The body, or its first MiB. Null if the event's data is gone.
    #[schema(required = true)]
    body: Option<String>,
    /// The length of the whole body.
    #[schema(required = true)]
    body_bytes: Option<usize>,
    /// Whether the body was longer than what is shown.
    truncated: bool,
    /// Why there is no body.
    #[schema(required = true)]
    body_absent: Option<&'static str>,
}

/// An e-mail, as its plain text. The HTML part has the same content.
#[derive(Serialize, ToSchema)]
pub struct EmailOut {
    subject: String,
    text: String,
}

/// The stored part of a response.
#[derive(Serialize, ToSchema)]
pub struct ResponseOut {
    status: u16,
    /// Pairs of name and value, in the order of the response: at most 64, and 8 KiB.
    #[schema(value_type = Vec<Vec<String>>, example = json!([["content-type", "text/plain"]]))]
    headers: Vec<(String, String)>,
    /// Whether the response had more headers than are stored.
    headers_truncated: bool,
    /// The body, or its first KiB.
    body: String,
    /// Whether the body was longer than what is stored.
    truncated: bool,
}

/// Returns an attempt with its request, exactly as it was sent, and the endpoint's response.
#[utoipa::path(
    get, path = "/v1/deliveries/{id}/attempts/{number}", tag = "deliveries", operation_id = "get_attempt",
    params(("id" = String, Path, description = "The delivery's id"), ("number" = u32, Path, description = "The attempt's number, from 1")),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "The attempt", body = AttemptInFullOut), ReadProblems),
)]
pub async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    OfDelivery(id, number): OfDelivery,
) -> Result<Response, ApiError> {
    let found = api.line.ports.history.delivery(caller.organization, id).await?;
    let (delivery, attempts) = found.ok_or_else(|| ApiError::not_found("delivery"))?;
    let attempt = attempts.into_iter().find(|attempt| attempt.number == number).ok_or_else(|| ApiError::not_found("attempt"))?;
    let (mut request, mut email, mut notification) = (None, None, None);
    let request_absent = match sent::sent(&api.line, &delivery, &attempt).await? {
        Sent::Request(past) => {
            request = Some(RequestOut::new(past, caller.scopes));
            None
        }
        Sent::Email(notice) => {
            email = Some(EmailOut { subject: notice.subject, text: notice.text });
            Some("the delivery is an e-mail")
        }
        Sent::Notification(notice) => {
            notification = Some(EmailOut { subject: notice.subject, text: notice.text });
            Some("the request to the service is not shown: it has credentials")
        }
        Sent::Processed => Some("the event was handled by a processor"),
        Sent::Job => Some("the request to the app is not stored: it held a token"),
        Sent::Unknown => Some("Everhook failed before or during this request; whether it was sent is unknown"),
        Sent::EventGone => Some("the event of this request was removed"),
    };
    let response = attempt.response.as_ref().map(ResponseOut::from);
    Ok(json(StatusCode::OK, &AttemptInFullOut { attempt: attempt.into(), request, request_absent, email, notification, response }))
}

impl RequestOut {
    fn new(request: PastRequest, scopes: Scopes) -> Self {
        let body_absent = request.body.is_none().then_some("the data of this event was removed, and with it the signatures");
        let shown = request.body.as_ref().map(|body| text_within(body, BODY_SHOWN_BYTES_MAX));
        let body_bytes = request.body.as_ref().map(Bytes::len);
        Self {
            method: "POST",
            url: request.url,
            headers: request.headers.into_iter().map(|header| shown_header(header, scopes)).collect(),
            truncated: body_bytes.is_some_and(|bytes| bytes > BODY_SHOWN_BYTES_MAX),
            body: shown,
            body_bytes,
            body_absent,
        }
    }
}

impl From<&model::Response> for ResponseOut {
    fn from(response: &model::Response) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            status: response.status,
            headers: response.headers.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
            headers_truncated: response.cut.headers,
            body: text(&response.body_sample),
            truncated: response.cut.body,
        }
    }
}

/// A header for a caller with these scopes. The names of ours are static; everything else was chosen by others.
fn shown_header((name, value): (OutgoingHeader, Bytes), scopes: Scopes) -> (String, String) {
    let is_ours = matches!(name, Cow::Borrowed(_));
    let value = if is_ours || scopes.allow(Scope::Manage) { String::from_utf8_lossy(&value).into_owned() } else { HIDDEN.to_owned() };
    (name.into_owned(), value)
}

/// The text, or as many whole characters of it as fit.
fn text_within(body: &[u8], bytes_max: usize) -> String {
    let text = String::from_utf8_lossy(body);
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// A delivery and the number of one of its attempts, in a path. What cannot be one is not found.
pub struct OfDelivery(DeliveryId, u32);

impl FromRequestParts<Arc<Api>> for OfDelivery {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let segments = Path::<(String, String)>::from_request_parts(parts, api).await.ok();
        let named = segments.and_then(|Path((delivery, number))| Some(Self(delivery.parse().ok()?, number.parse().ok()?)));
        named.ok_or_else(|| ApiError::not_found("attempt"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_shown_up_to_the_last_whole_character_that_fits() {
        for (body, bytes_max, shown) in [("", 4, ""), ("four", 4, "four"), ("fours", 4, "four"), ("née", 2, "n"), ("née", 3, "né")] {
            assert_eq!(text_within(body.as_bytes(), bytes_max), shown, "{body} within {bytes_max}");
        }
    }

    #[test]
    fn a_request_whose_event_lost_its_data_says_why_it_has_no_body() {
        let headers = vec![(OutgoingHeader::Borrowed("host"), Bytes::from_static(b"shop.example"))];
        let past = PastRequest { url: "https://shop.example/".to_owned(), headers, body: None };
        let shown = RequestOut::new(past, Scopes::default());
        assert_eq!((shown.body, shown.body_bytes, shown.truncated), (None, None, false));
        assert!(shown.body_absent.is_some_and(|why| why.contains("was removed")));
        assert_eq!(shown.headers, [("host".to_owned(), "shop.example".to_owned())]);
    }

    #[test]
    fn values_that_others_chose_are_hidden_from_those_who_only_read() {
        let header = |name: OutgoingHeader| (name, Bytes::from_static(b"v"));
        let (read, manage): (Scopes, Scopes) = ([Scope::Read].into_iter().collect(), [Scope::Manage].into_iter().collect());
        for (name, scopes, shown) in [
            (OutgoingHeader::Borrowed("webhook-id"), read, "v"),
            (OutgoingHeader::Owned("authorization".to_owned()), read, "***"),
            (OutgoingHeader::Owned("authorization".to_owned()), manage, "v"),
        ] {
            assert_eq!(shown_header(header(name.clone()), scopes), (name.into_owned(), shown.to_owned()));
        }
    }
}
