//! Publishing from a queue: each message is read, checked and published as a request to `POST /v1/events` would be.
//!
//! Called by the adapter that consumes the queue. It decides what becomes of a message; the adapter answers the broker.

use std::sync::Arc;

use async_trait::async_trait;
use everhook_adapters::rabbitmq::{Intake, Message, Verdict};
use everhook_core::{
    ids::{ApplicationId, OrganizationId},
    line::{alert, publish::PublishError},
    manage::applications,
    model::ApplicationKind,
    ports::StoreError,
};
use serde_json::json;

use super::{
    super::{Api, body::parse_object, error::ApiError},
    BESIDE_DATA_BYTES,
    event::{Context, Publisher},
    run,
};
use crate::config::AmqpSource;

/// The operational events about a queue that could not be consumed for several tries, and that is consumed again.
const UNREACHABLE: &str = "amqp.unreachable";
const RECOVERED: &str = "amqp.recovered";

/// Makes events of a queue's messages.
pub struct QueueIntake {
    api: Arc<Api>,
    source: AmqpSource,
}

/// Where the events of the queue belong.
#[derive(Clone, Copy)]
struct QueueTarget {
    organization: OrganizationId,
    application: Option<ApplicationId>,
}

impl QueueIntake {
    /// An intake for the queue that is set up.
    pub fn new(api: Arc<Api>, source: AmqpSource) -> Self {
        Self { api, source }
    }

    /// Looks up what the settings name, each time: it can be created, renamed or removed while the server runs.
    async fn belonging(&self) -> Result<QueueTarget, String> {
        let unreadable = |error: StoreError| error.to_string();
        let organization = match &self.source.organization {
            None => self.api.default_organization,
            Some(name) => {
                let found = self.api.organization_named(name).await.map_err(unreadable)?;
                found.ok_or_else(|| format!("amqp_source_organization: the organization `{name}` does not exist"))?
            }
        };
        let application = match &self.source.application {
            None => None,
            Some(name) => {
                let found = applications::find_named(&self.api.line, organization, name).await.map_err(unreadable)?;
                let missing = || format!("amqp_source_application: the application `{name}` does not exist in its organization");
                let application = found.ok_or_else(missing)?;
                if application.kind == ApplicationKind::Operational {
                    return Err(format!("amqp_source_application: `{name}` is reserved for Everhook's own events"));
                }
                Some(application.id)
            }
        };
        Ok(QueueTarget { organization, application })
    }

    async fn publish(&self, messages: Vec<Message>, belonging: QueueTarget) -> Vec<Verdict> {
        let mut verdicts = Vec::with_capacity(messages.len());
        let mut publications = Vec::with_capacity(messages.len());
        for message in messages {
            match self.read(message, belonging).await {
                Ok(publication) => {
                    publications.push(publication);
                    verdicts.push(None);
                }
                Err(error) => verdicts.push(Some(judge(&error))),
            }
        }
        let mut answers = match run(&self.api, publications, ()).await {
            Ok(answers) => answers.into_iter(),
            // Nothing is known of them, and their keys make trying again safe.
            Err(error) => return verdicts.into_iter().map(|verdict| verdict.unwrap_or_else(|| judge(&error))).collect(),
        };
        let mut next = || match answers.next().expect("every publication has an answer") {
            Ok(_) => Verdict::Durable,
            Err(
                error @ (PublishError::Store(_)
                | PublishError::SpoolFull
                | PublishError::NotKnown(_)
                | PublishError::RequestTooCostly
                | PublishError::EvaluationBusy),
            ) => Verdict::Later(error.to_string()),
            Err(error) => judge(&ApiError::from(error)),
        };
        verdicts.into_iter().map(|verdict| verdict.unwrap_or_else(&mut next)).collect()
    }

    async fn read(&self, message: Message, of: QueueTarget) -> Result<everhook_core::line::publish::Publication, ApiError> {
        let max = self.api.payload_bytes_max + BESIDE_DATA_BYTES;
        if message.body.len() > max {
            return Err(ApiError::too_large(format!("the body may have at most {max} bytes, and has {}", message.body.len())));
        }
        let publisher = Publisher::Queue { organization: of.organization, application: of.application };
        let context = Context::of_message(&self.api, publisher, message.id, message.traceparent);
        context.read(parse_object(&message.body)?).await
    }

    async fn publish_alert(&self, event_type: &'static str, mut data: serde_json::Value) {
        let published = match self.belonging().await {
            Ok(QueueTarget { organization, .. }) => {
                data["organization_id"] = json!(organization.to_string());
                data["queue"] = json!(self.source.queue);
                alert::publish_now(&self.api.line, organization, event_type, &data).await.map_err(|error| error.to_string())
            }
            Err(reason) => Err(reason),
        };
        if let Err(reason) = published {
            tracing::warn!("cannot publish the operational event `{event_type}`: {reason}");
        }
    }
}

#[async_trait]
impl Intake for QueueIntake {
    async fn take(&self, messages: Vec<Message>) -> Vec<Verdict> {
        // The queue keeps them as safely as this node's disk would, and any node can take them from there when the database is back. What is found
        // to be spooled only once it was published is durable all the same.
        if self.api.line.backlog.holds_up_all() {
            return messages.iter().map(|_| Verdict::Later("the database is unavailable, or was a moment ago".to_owned())).collect();
        }
        match self.belonging().await {
            Ok(belonging) => self.publish(messages, belonging).await,
            // The setting or the store is at fault, not the messages.
            Err(reason) => messages.iter().map(|_| Verdict::Later(reason.clone())).collect(),
        }
    }

    async fn unreachable(&self, failures: u32, error: &str) {
        self.publish_alert(UNREACHABLE, json!({ "failures": failures, "error": error })).await;
    }

    async fn recovered(&self) {
        self.publish_alert(RECOVERED, json!({})).await;
    }
}

fn judge(error: &ApiError) -> Verdict {
    if error.may_pass() { Verdict::Later(error.in_words()) } else { Verdict::Refused(error.in_words()) }
}
