//! A delivery as a message: the same bytes as over HTTP, with the headers beside them. Pure.

use std::collections::BTreeMap;

use everhook_core::{policy::broker::BrokerPlace, ports::OutgoingRequest};
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, LongString, ShortString},
};

use super::{failure, link::Login};
use crate::http::Failure;

/// AMQP's "persistent": the message outlives a restart of the broker, in a queue that does.
const PERSISTENT: u8 = 2;

/// Who published it, to those who look at the queue.
const APP_ID: &str = "everhook";

/// Carries the credentials of the endpoint, which are for the broker and not for whoever reads the queue.
const CREDENTIALS_HEADER: &str = "authorization";

/// A message with the name of its place.
pub(super) struct Outgoing {
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    pub(super) properties: BasicProperties,
}

/// Writes the message of a request. Its body is the request's.
pub(super) fn compose(request: &OutgoingRequest, place: &BrokerPlace) -> Result<Outgoing, Failure> {
    let event_type = text(request, "x-webhook-event");
    let routing_key = place.routing_key.clone().unwrap_or_else(|| event_type.clone());
    let timestamp = text(request, "webhook-timestamp").parse().unwrap_or_default();
    let properties = BasicProperties::default()
        .with_content_type(short(&text(request, "content-type"), "the content type")?)
        .with_delivery_mode(PERSISTENT)
        .with_message_id(short(&text(request, "webhook-id"), "the id")?)
        .with_type(short(&event_type, "the event type")?)
        .with_timestamp(timestamp)
        .with_app_id(APP_ID.into())
        .with_headers(headers(request)?);
    Ok(Outgoing { exchange: short(&place.exchange, "the exchange")?, routing_key: short(&routing_key, "the routing key")?, properties })
}

/// The credentials that the endpoint's owner put into its headers, or the guest's.
pub(super) fn login(request: &OutgoingRequest) -> Result<Login, Failure> {
    match request.headers.iter().find(|(name, _)| name == CREDENTIALS_HEADER) {
        Some((_, value)) => Login::from_basic(value).ok_or_else(failure::bad_login),
        None => Ok(Login::guest()),
    }
}

fn headers(request: &OutgoingRequest) -> Result<FieldTable, Failure> {
    let mut table = BTreeMap::new();
    for (name, value) in request.headers.iter().filter(|(name, _)| name != CREDENTIALS_HEADER && name != "content-type") {
        table.insert(short(name, "the name of a header")?, AMQPValue::LongString(LongString::from(value.to_vec())));
    }
    Ok(FieldTable::from(table))
}

fn text(request: &OutgoingRequest, header: &str) -> String {
    let value = request.headers.iter().find(|(name, _)| name == header).map(|(_, value)| &value[..]);
    String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
}

fn short(text: &str, part: &str) -> Result<ShortString, Failure> {
    ShortString::try_new(text).map_err(|_| failure::unsendable(part))
}
