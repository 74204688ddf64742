//! The settings about RabbitMQ. A build without it refuses them: a queue that nobody consumes must not go unnoticed.

use everhook_core::{ids::Ref, model::Secret};

use super::{AmqpSource, check::Reader};

/// Whether brokers may be destinations.
pub(super) fn allowed(asked: bool) -> Result<bool, String> {
    if asked && !cfg!(feature = "amqp") { Err(NOT_BUILT.to_owned()) } else { Ok(asked) }
}

/// What a broker is there for: events from a queue, and hints between nodes that share a store. At least one of them.
pub(super) fn broker(reader: &mut Reader<'_>) -> (Option<AmqpSource>, Option<Secret<String>>) {
    let url = reader.optional("amqp", parse_url);
    let (is_named, has_queue) = (reader.is_set("amqp"), reader.is_set("amqp_source_queue"));
    let is_shared = reader.is_set("database");
    if is_named && !has_queue && !is_shared {
        reader
            .faults
            .push("amqp: requires amqp_source_queue, to consume events from a queue, or `database`, for hints between nodes".to_owned());
    }
    if has_queue && !is_named {
        reader.faults.push("amqp_source_queue: requires amqp, the broker of that queue".to_owned());
    }
    (source(reader, url.clone()), url.filter(|_| is_shared))
}

/// The queue that events are taken from. The other settings only make sense with it.
fn source(reader: &mut Reader<'_>, url: Option<Secret<String>>) -> Option<AmqpSource> {
    let queue = reader.optional("amqp_source_queue", parse_queue);
    let organization = reader.optional("amqp_source_organization", parse_ref);
    let application = reader.optional("amqp_source_application", parse_ref);
    for name in ["amqp_source_organization", "amqp_source_application"] {
        if reader.is_set(name) && !reader.is_set("amqp_source_queue") {
            reader.faults.push(format!("{name}: requires amqp_source_queue"));
        }
    }
    Some(AmqpSource { url: url?, queue: queue?, organization, application })
}

const NOT_BUILT: &str = "this build does not support RabbitMQ (it was built without the cargo feature `amqp`)";

#[cfg(feature = "amqp")]
fn parse_url(text: &str) -> Result<Secret<String>, String> {
    let url = Secret::new(text.to_owned());
    everhook_adapters::rabbitmq::BrokerAddress::read(&url).map_err(|error| error.to_string())?;
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
