//! Trying an endpoint out: a sample event that goes to it alone.

use bytes::Bytes;

use super::find;
use crate::{
    ids::{EndpointId, OrganizationId, Ref},
    limits::evaluations::{Busy, EVALUATION_TIMEOUT},
    line::{
        Line,
        publish::{Acceptance, Publication, PublishError, publish_own},
    },
    manage::{Conflict, Fault, Refusal, event_types::check_fit},
    model::{ContentType, EndpointState, EventType, Priority},
    policy::labels::Labels,
};

/// The type of the sample event.
pub const TEST_EVENT_TYPE: &str = "endpoint.test";

/// Why an endpoint could not be tried out.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// It is missing or disabled, or too many test events were sent.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The sample event could not be published.
    #[error("cannot publish the test event")]
    Publish(#[from] PublishError),
}

/// Publishes a sample event to this endpoint alone, whatever event types it wants: one of the type `endpoint.test`, or one of the type given, with the
/// example of its definition as data if there is one. It is sent also if that type is archived, or not defined in an application that requires it: one who
/// tries an endpoint out may do so before its events are published.
///
/// # Errors
/// [`TrialError`] says why nothing was published.
pub async fn test(
    line: &Line,
    organization: OrganizationId,
    of: &Ref<EndpointId>,
    event_type: Option<EventType>,
) -> Result<Acceptance, TrialError> {
    let endpoint = find(line, organization, of).await?;
    if endpoint.state != EndpointState::Enabled {
        return Err(Refusal::Conflict(Conflict::EndpointDisabled, "the endpoint is disabled: enable it first".to_owned()).into());
    }
    let _counted = line.on_demand_limit.begin(organization, line.ports.clock.now()).map_err(Refusal::from)?;
    let message = serde_json::json!({ "message": "This is a test event from Everhook.", "endpoint_id": endpoint.id.to_string() });
    let data = match &event_type {
        Some(named) => data_of(line, organization, named, message.to_string()).await?,
        None => message.to_string(),
    };
    let sample = Publication {
        organization,
        application: endpoint.application,
        event_type: event_type.unwrap_or_else(|| EventType::parse(TEST_EVENT_TYPE).expect("our own event types are well-formed")),
        data: Bytes::from(data),
        content_type: ContentType::JSON,
        idempotency_key: None,
        idempotency_window: None,
        source: Some("everhook".to_owned()),
        priority: Priority::Normal,
        timestamp: None,
        ordering_key: None,
        traceparent: None,
        labels: Labels::new(),
        headers: Vec::new(),
        only: Some(endpoint.id),
        received: None,
        sealed: false,
        parked: None,
    };
    let mut answers = publish_own(line, vec![sample]).await;
    Ok(answers.pop().expect("one publication has one answer")?)
}

/// The example that the organization gave for a type, or else the message, if the type's schema takes it.
async fn data_of(line: &Line, organization: OrganizationId, event_type: &EventType, message: String) -> Result<String, Refusal> {
    let Some(of) = Ref::parse(event_type.as_str()) else { return Ok(message) };
    let Some(definition) = line.ports.event_types.event_type(organization, &of).await? else { return Ok(message) };
    if let Some(example) = definition.example {
        return Ok(example);
    }
    let Some(schema) = definition.schema else { return Ok(message) };
    let (tried, example) = (message.clone(), "has a schema that the data of a test event does not match: give the event type an `example`");
    let fits = move || check_fit(&schema, Some(&tried)).is_none();
    match line.evaluations.run(organization, EVALUATION_TIMEOUT, fits).await {
        Ok(true) => Ok(message),
        Ok(false) => Err(Refusal::Invalid(vec![Fault::new("type", example)])),
        Err(Busy) => Err(Refusal::Busy),
    }
}
