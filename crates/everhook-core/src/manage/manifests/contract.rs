//! The contract test of an app, asked for over the API. An app that answers later calls back at the door of all callbacks, whichever node that reaches: what it
//! says is kept like what is said of a job, until the test is over.

use std::time::Duration;

use async_trait::async_trait;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;

use crate::{
    calls::{
        OpenCapability,
        contract::{CallbackAddress, CallbackDoor, CallbacksExpected, ContractCheck, Heard, NotTested},
    },
    ids::{DeliveryId, EventId},
    limits::on_demand_limit::OnDemandRefusal,
    line::{Line, job::token_hash},
    manage::{Conflict, Fault, Refusal},
    model::{JobAnswer, JobAttempt, JobOutcome, JobRecord, SealedSecret},
    policy::calls::{
        contract::CallbackSeen,
        job::{callback_url, reason_of_refused, refusal_of_payload},
    },
    ports::StoreError,
    time::Timestamp,
};

/// How long a test over the API waits for a callback, however long the app may take: somebody waits for the test.
const CALLBACK_WAIT_MAX: Duration = Duration::from_secs(30);

/// How often it is looked whether the app has called back, maybe at another node.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Tests whether the app of a capability conforms to the contract. Few such tests run at once: their requests go out beside the breakers and limits of calls.
/// `server_url` is what this server's URLs begin with.
///
/// # Errors
/// [`Refusal::OnDemand`] if too many run; [`Refusal::Conflict`] if there is nothing to call; [`Refusal::Invalid`] if the payload has no room for a callback.
pub async fn check_contract(
    line: &Line,
    capability: &OpenCapability,
    health_path: &str,
    payload: Bytes,
    server_url: &str,
) -> Result<Vec<ContractCheck>, Refusal> {
    let is_async = capability.spec.is_async;
    if let Some(reason) = refusal_of_payload(&payload).filter(|_| is_async) {
        return Err(Refusal::Invalid(vec![Fault::new("payload", reason)]));
    }
    let _counted = line.on_demand_limit.begin(capability.organization, line.ports.clock.now())?;
    let door = KeptCallbacks { line, capability, server_url };
    let timeout = capability.spec.timeout;
    let callbacks = is_async.then_some(CallbacksExpected { door: &door, timeout, wait: timeout.min(CALLBACK_WAIT_MAX) });
    line.calls.check_contract(capability, health_path, payload, callbacks).await.map_err(|not_tested| match not_tested {
        NotTested::NoUrl => Refusal::Conflict(
            Conflict::AppNotCallable,
            "neither the application nor its manifest has a `base_url`: there is nothing to test".to_owned(),
        ),
        NotTested::NoSlot => OnDemandRefusal::NoSlot.into(),
        NotTested::Busy => Refusal::Busy,
        NotTested::Store(error) => error.into(),
    })
}

/// The door of callbacks, with records that only this test knows.
struct KeptCallbacks<'a> {
    line: &'a Line,
    capability: &'a OpenCapability,
    server_url: &'a str,
}

#[async_trait]
impl CallbackDoor for KeptCallbacks<'_> {
    async fn open(&self) -> Result<CallbackAddress, StoreError> {
        let (ports, capability) = (&self.line.ports, self.capability);
        let now = ports.clock.now();
        let id = ports.entropy.uuid(now);
        let token = BASE64_URL_SAFE_NO_PAD.encode(ports.entropy.secret_bytes());
        let test = JobAttempt {
            job: EventId::from_uuid(id),
            organization: capability.organization,
            application: capability.application,
            lane_id: capability.lane_id,
            delivery: DeliveryId::from_uuid(id),
            number: 1,
            token: token_hash(&token),
            at: now,
        };
        ports.jobs.begin_job_attempt(test).await?;
        let url = callback_url(self.server_url, capability.name.as_str(), test.job, &token);
        Ok(CallbackAddress { id, url })
    }

    async fn wait(&self, address: &CallbackAddress, at_most: Duration) -> Result<Option<Heard>, StoreError> {
        let clock = &self.line.ports.clock;
        let deadline = clock.now() + at_most;
        loop {
            let record = self.line.ports.jobs.job(EventId::from_uuid(address.id)).await?;
            if let Some(JobRecord { answer: Some(answer), begun_at, .. }) = record {
                return self.heard(&answer, begun_at).map(Some);
            }
            if clock.now() >= deadline {
                return Ok(None);
            }
            clock.sleep_for(LOOK_EVERY).await;
        }
    }

    async fn close(&self, address: CallbackAddress) {
        // Should this fail, it goes with the jobs of its day.
        if let Err(error) = self.line.ports.jobs.end_contract_test(EventId::from_uuid(address.id)).await {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "cannot remove what was kept of a contract test: it is removed later"
            );
        }
    }
}

impl KeptCallbacks<'_> {
    fn heard(&self, answer: &JobAnswer, opened_at: Timestamp) -> Result<Heard, StoreError> {
        let data = self.line.ports.vault.open(self.capability.lane_id.as_uuid(), &SealedSecret(answer.data.to_vec()));
        let data = Bytes::from(data.map_err(StoreError::corrupt)?);
        let seen = match reason_of_refused(&data).filter(|_| answer.outcome == JobOutcome::Failed) {
            Some(reason) => CallbackSeen::Refused(reason),
            None => CallbackSeen::Ended { outcome: answer.outcome, data },
        };
        Ok(Heard { seen, after: answer.at.since(opened_at) })
    }
}
