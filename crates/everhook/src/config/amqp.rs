//! The settings about RabbitMQ. A build without it refuses them: a queue that nobody consumes must not go unnoticed.

use everhook_core::{ids::Ref, model::Secret};

use super::{AmqpSource, check::Reader};

/// Whether brokers may be destinations.
pub(super) fn allowed(asked: bool) -> Result<bool, String> {
    if asked && !cfg!(feature = "amqp") { Err(NOT_BUILT.to_owned()) } else { Ok(asked) }
}

/// The queue that events are taken from. It takes two settings, and the others only make sense with them.
pub(super) fn source(reader: &mut Reader<'_>) -> Option<AmqpSource> {
    let url = reader.optional("amqp", parse_url);
    let queue = reader.optional("amqp_source_queue", parse_queue);
    let organization = reader.optional("amqp_source_organization", parse_ref);
    let application = reader.optional("amqp_source_application", parse_ref);
    if reader.is_set("amqp") != reader.is_set("amqp_source_queue") {
        reader.faults.push("amqp and amqp_source_queue: give both, to take events from a queue, or neither".to_owned());
    }
    for name in ["amqp_source_organization", "amqp_source_application"] {
        if reader.is_set(name) && !reader.is_set("amqp_source_queue") {
            reader.faults.push(format!("{name}: says what becomes of a queue's events: give amqp_source_queue too"));
        }
    }
    Some(AmqpSource { url: url?, queue: queue?, organization, application })
}

const NOT_BUILT: &str = "this build has no RabbitMQ (it was made without the cargo feature `amqp`)";

#[cfg(feature = "amqp")]
fn parse_url(text: &str) -> Result<Secret<String>, String> {
    let url = Secret::new(text.to_owned());
    everhook_adapters::rabbitmq::SourceSettings::check(&url).map_err(|error| error.to_string())?;
    Ok(url)
}

#[cfg(not(feature = "amqp"))]
fn parse_url(_text: &str) -> Result<Secret<String>, String> {
    Err(NOT_BUILT.to_owned())
}

fn parse_queue(text: &str) -> Result<String, String> {
    if (1..=255).contains(&text.len()) { Ok(text.to_owned()) } else { Err("must be a name of 1 to 255 bytes".to_owned()) }
}

fn parse_ref(text: &str) -> Result<String, String> {
    match Ref::<everhook_core::ids::OrganizationId>::parse(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("must be an id or a uid".to_owned()),
    }
}
