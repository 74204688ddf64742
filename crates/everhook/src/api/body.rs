//! Bodies: read within a bound and a time, then as a JSON object. Counted while they arrive, so that a chunked body cannot cheat.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, HttpBody},
    extract::{FromRequest, Request},
};
use bytes::{Bytes, BytesMut};
use everhook_core::policy::json_depth::depth;
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use serde::{Deserialize, de::DeserializeOwned};
use tokio::runtime::RuntimeFlavor;

use super::{
    Api,
    error::{ApiError, ProblemKind},
    misread::misread,
};
use crate::{memory::Charge, server::RequestContext};

/// How long a body may take to arrive: long enough for a slow line, short enough that holding connections open is no attack.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest body of the control plane: an endpoint with all its headers and metadata is well below.
const CONTROL_BODY_BYTES_MAX: usize = 256 * 1024;

/// How many bytes of memory a byte of such a body may become: lists of empty texts and objects are the worst.
const CONTROL_BODY_WEIGHT: usize = 8;

/// From this size on a body takes milliseconds to parse, for which others should not wait.
const LARGE_BODY_BYTES: usize = 1024 * 1024;

/// How much is reserved at once for a body that comes in pieces: growing piece by piece copies it again and again, and leaves each smaller copy to the
/// allocator. What is announced and never sent takes no memory, only addresses.
const RESERVED_BYTES_MAX: usize = 1024 * 1024;

/// How deep JSON may nest: what every parser downstream can be trusted to take.
const DEPTH_MAX: usize = 128;

/// A body that must be there: a JSON object with known fields only.
pub struct JsonBody<T>(pub T);

/// A body that may be left out, which means an empty object.
pub struct OptionalJsonBody<T>(pub T);

/// An object without fields, for routes that take none: what would be ignored is refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoFields {}

impl<T: DeserializeOwned> FromRequest<Arc<Api>> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, ApiError> {
        let (context, charge) = charge_of(&request, api)?;
        let (bytes, charge) = read_json(request, CONTROL_BODY_BYTES_MAX, charge).await?;
        context.hold(charge);
        parse_object(&bytes).map(Self)
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<Api>> for OptionalJsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, ApiError> {
        let (context, charge) = charge_of(&request, api)?;
        let (parts, body) = request.into_parts();
        let (bytes, charge) = read(body, CONTROL_BODY_BYTES_MAX, charge).await?;
        context.hold(charge);
        if bytes.is_empty() {
            return parse_object(b"{}").map(Self);
        }
        check_content_type(&parts.headers)?;
        parse_object(&bytes).map(Self)
    }
}

/// What a body of the control plane is counted as. The API key is checked before a body is read, so that nothing is read for strangers.
fn charge_of(request: &Request, api: &Api) -> Result<(RequestContext, Charge), ApiError> {
    let context = request.extensions().get::<RequestContext>();
    let Some((context, organization)) = context.and_then(|context| Some((context.clone(), context.organization()?))) else {
        tracing::error!(
            path = request.uri().path(),
            "a route read a request body before it checked the API key; the request was refused. This is a defect of Everhook: report it"
        );
        return Err(ApiError::internal());
    };
    Ok((context, Charge::new(api.bodies.clone(), organization).weighing(CONTROL_BODY_WEIGHT)))
}

/// Reads a body that says it is JSON. Its memory counts until the charge is dropped: keep it until nothing of the body is left.
pub async fn read_json(request: Request, bytes_max: usize, charge: Charge) -> Result<(Bytes, Charge), ApiError> {
    check_content_type(request.headers())?;
    read(request.into_body(), bytes_max, charge).await
}

/// Reads a JSON object. Arrays are refused, which derived readers would take for the fields in order.
pub fn parse_object<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, ApiError> {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let parsed = serde_json::from_slice(bytes);
    match parsed {
        Ok(_) if first != Some(&b'{') => Err(ApiError::bad_request("the body must be a JSON object")),
        Ok(value) => Ok(value),
        Err(error) if error.is_data() && first != Some(&b'{') => Err(ApiError::bad_request("the body must be a JSON object")),
        Err(error) if error.is_data() => Err(misread(bytes, &error)),
        Err(error) => Err(ApiError::bad_request(format!("the body is not JSON: {error}"))),
    }
}

/// As [`parse_object`], for a body that may be many megabytes: other tasks of this thread are not blocked.
pub fn parse_large_object<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, ApiError> {
    let has_threads = tokio::runtime::Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes.len() < LARGE_BODY_BYTES || !has_threads {
        return parse_object(bytes);
    }
    tokio::task::block_in_place(|| parse_object(bytes))
}

/// Refuses JSON that nests too deeply. Values that are kept as they came are skipped by the parser without counting.
pub fn check_depth(json: &str) -> Result<(), ApiError> {
    if count_opening(json) <= DEPTH_MAX || depth(json) <= DEPTH_MAX {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("the JSON nests deeper than {DEPTH_MAX} levels")))
}

/// How many brackets could open a level. Counted in pieces whose count fits a byte: that way many bytes are compared at once.
fn count_opening(json: &str) -> usize {
    let is_opening = |byte: &u8| u8::from(matches!(byte, b'{' | b'['));
    json.as_bytes().chunks(usize::from(u8::MAX)).map(|piece| usize::from(piece.iter().map(is_opening).sum::<u8>())).sum()
}

fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let said = headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes());
    if said == Some(b"application/json") {
        return Ok(());
    }
    let text = said.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json")) {
        return Ok(());
    }
    Err(ApiError::new(ProblemKind::UnsupportedMediaType, "send `Content-Type: application/json`"))
}

/// Reads a body of any kind.
pub(super) async fn read(body: Body, bytes_max: usize, mut charge: Charge) -> Result<(Bytes, Charge), ApiError> {
    if let Some(size) = body.size_hint().exact() {
        if size > bytes_max as u64 {
            return Err(ApiError::too_large(format!("the body may have at most {bytes_max} bytes, and has {size}")));
        }
        // It is counted as it arrives; what cannot fit need not begin to.
        charge.would_fit(size as usize)?;
    }
    match tokio::time::timeout(BODY_TIMEOUT, collect(body, bytes_max, &mut charge)).await {
        Ok(read) => read.map(|bytes| (bytes, charge)),
        Err(_) => Err(ApiError::new(ProblemKind::RequestTimeout, "the body did not arrive in time")),
    }
}

/// Most bodies come in one piece, which is handed on without copying. The others are put together where there is room for all that was announced.
async fn collect(mut body: Body, bytes_max: usize, charge: &mut Charge) -> Result<Bytes, ApiError> {
    let announced = body.size_hint().exact().and_then(|size| usize::try_from(size).ok()).unwrap_or_default();
    let mut first = Bytes::new();
    let mut all: Option<BytesMut> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::bad_request("the body broke off before its end"))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + all.as_ref().map_or(0, BytesMut::len) + data.len() > bytes_max {
            return Err(ApiError::too_large(format!("the body may have at most {bytes_max} bytes, and has more")));
        }
        charge.grow(data.len())?;
        match &mut all {
            Some(all) => all.extend_from_slice(&data),
            None if first.is_empty() => first = data,
            None => {
                let mut joined = BytesMut::with_capacity(announced.min(RESERVED_BYTES_MAX).max(first.len() + data.len()));
                joined.extend_from_slice(&std::mem::take(&mut first));
                joined.extend_from_slice(&data);
                all = Some(joined);
            }
        }
    }
    Ok(all.map_or(first, BytesMut::freeze))
}

#[cfg(test)]
mod tests {
    use everhook_core::ids::OrganizationId;
    use http::StatusCode;

    use super::*;
    use crate::memory::{MemoryBudget, MemoryLimits, NoRoom};

    #[test]
    fn depth_is_counted_outside_of_strings_only() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(check_depth(&nested(128)).is_ok());
        assert!(check_depth(&nested(129)).is_err());
        assert!(check_depth(&format!("{:?}", "[".repeat(1_000))).is_ok());
        assert!(check_depth(&format!("[{}1]", "[],".repeat(1_000))).is_ok());
        assert!(check_depth(&format!(r#"["\"{}"]"#, "{".repeat(1_000))).is_ok());
    }

    #[test]
    fn only_json_content_types_are_read() {
        let table = [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/cloudevents+json", true),
            ("text/json", false),
            ("application/x-www-form-urlencoded", false),
            ("", false),
        ];
        for (value, taken) in table {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, value.parse().unwrap());
            assert_eq!(check_content_type(&headers).is_ok(), taken, "{value}");
        }
        assert!(check_content_type(&HeaderMap::new()).is_err());
    }

    /// Room for 20 bytes, half of it for one organization.
    fn charge() -> Charge {
        let limits = MemoryLimits { total: 20, organization: 10, kept_for_small: 0 };
        Charge::new(MemoryBudget::new(limits), OrganizationId::from_uuid(uuid::Uuid::nil()))
    }

    fn chunks(sizes: &[usize]) -> Body {
        let chunks: Vec<_> = sizes.iter().map(|size| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; *size]))).collect();
        Body::from_stream(futures_util::stream::iter(chunks))
    }

    #[tokio::test]
    async fn a_body_is_counted_while_it_arrives() {
        for (sizes, len) in [(&[5, 5][..], 10), (&[10][..], 10), (&[][..], 0)] {
            assert_eq!(read(chunks(sizes), 10, charge()).await.unwrap().0.len(), len);
        }
        assert!(read(chunks(&[5, 6]), 10, charge()).await.is_err());
        assert!(read(Body::from(vec![b'x'; 11]), 10, charge()).await.is_err());
    }

    #[tokio::test]
    async fn a_body_for_which_there_is_no_memory_is_refused_with_503() {
        let refused = |read: Result<_, ApiError>| read.err().map(|error| axum::response::IntoResponse::into_response(error).status());
        assert_eq!(refused(read(chunks(&[5, 6]), 100, charge()).await), Some(StatusCode::SERVICE_UNAVAILABLE));
        assert_eq!(refused(read(Body::from(vec![b'x'; 11]), 100, charge()).await), Some(StatusCode::SERVICE_UNAVAILABLE));
        let budget = charge();
        let held = read(chunks(&[10]), 100, budget).await.unwrap();
        assert_eq!(held.1.would_fit(1), Err(NoRoom::Organization), "held until the charge is dropped");
    }

    #[test]
    fn an_array_is_not_an_object() {
        #[derive(serde::Deserialize)]
        struct One {
            _a: u8,
        }
        for bad in ["[1]", "1", "null", "", " ", "{", "{\"_a\":1", "{\"_a\":1}x", "{\"_a\":1,\"_a\":1}"] {
            assert!(parse_object::<One>(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(parse_object::<One>(b" {\"_a\":1} ").is_ok());
    }
}
