//! The contract test of an app that answers later: it takes a job over at once, calls back in time, and reports the same if it is asked the same again.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

use super::{CALLBACK, CallbacksExpected, ContractCheck, DEADLINE, NotTested, REPEAT, Signed, TIMES, Test, is_away};
use crate::{
    model::JobOutcome,
    policy::calls::{
        contract::{self, CallbackSeen, SHORT_DEADLINE},
        job::with_callback,
    },
    ports::StoreError,
};

/// How long the test waits for a second callback: most apps remember the job, and make none.
const SECOND_CALLBACK_WAIT: Duration = Duration::from_secs(1);

/// Where apps call back during a test.
#[async_trait]
pub trait CallbackDoor: Send + Sync {
    /// Opens an address for the callbacks about one request.
    ///
    /// # Errors
    /// [`StoreError`] if it could not be kept.
    async fn open(&self) -> Result<CallbackAddress, StoreError>;

    /// Waits for the first callback there that does not report progress, at most so long.
    ///
    /// # Errors
    /// [`StoreError`] if what came could not be read.
    async fn wait(&self, address: &CallbackAddress, at_most: Duration) -> Result<Option<Heard>, StoreError>;

    /// Nothing is expected there any more.
    async fn close(&self, address: CallbackAddress);
}

/// Where an app calls back about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackAddress {
    /// Its name.
    pub id: Uuid,
    /// The URL.
    pub url: String,
}

/// A callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// What it said.
    pub seen: CallbackSeen,
    /// How long after the address was opened.
    pub after: Duration,
}

/// Tests an app that answers later.
pub(super) async fn check(test: &mut Test<'_>, expected: CallbacksExpected<'_>) -> Result<(), NotTested> {
    let mut addresses = Vec::new();
    for _ in 0..ADDRESSES {
        addresses.push(expected.door.open().await?);
    }
    let checked = check_at(test, expected, &addresses).await;
    for address in addresses {
        expected.door.close(address).await;
    }
    checked
}

/// One for each request that an app could take over.
const ADDRESSES: usize = 5;

async fn check_at(test: &mut Test<'_>, expected: CallbacksExpected<'_>, addresses: &[CallbackAddress]) -> Result<(), NotTested> {
    let [first_at, forged_at, unsigned_at, short_at, second_at] = addresses else { unreachable!("so many were opened") };
    let payload = &test.subject.payload;
    let body = |at: &CallbackAddress| with_callback(payload, &at.url);
    let id = (test.new_id)();
    let first = test.send(id, &body(first_at), Signed::Well, test.timeout).await;
    let taken = contract::of_take_over(&first);
    let is_good = taken.is_ok();
    test.note("answer", taken, first.duration);
    if is_away(&first) && !is_good {
        test.skip(&["forged signature", "missing signature", "garbage", DEADLINE, CALLBACK, REPEAT, TIMES]);
        return Ok(());
    }
    test.refusals(&body(forged_at), &body(unsigned_at)).await;
    if !is_good {
        test.skip(&[DEADLINE, CALLBACK, REPEAT, TIMES]);
        return Ok(());
    }
    let short = test.send((test.new_id)(), &body(short_at), Signed::Well, SHORT_DEADLINE).await;
    test.note(DEADLINE, contract::of_short_take_over(&short), short.duration);
    let heard = expected.door.wait(first_at, expected.wait).await?;
    let heard = note_callback(test, expected, heard).await?;
    let second_took = repeat(test, expected, (id, &body(second_at)), heard.as_ref(), second_at).await?;
    let times: Vec<_> = [Some(first.duration), Some(short.duration), second_took].into_iter().flatten().collect();
    let (judgment, p95) = contract::of_times(&times, test.subject.timeout);
    test.note(TIMES, judgment, p95);
    Ok(())
}

/// Judges the callback, and returns it.
async fn note_callback(
    test: &mut Test<'_>,
    expected: CallbacksExpected<'_>,
    heard: Option<Heard>,
) -> Result<Option<CallbackSeen>, NotTested> {
    let Some(Heard { mut seen, after }) = heard else {
        test.checks.push(no_callback(expected));
        return Ok(None);
    };
    if let CallbackSeen::Ended { outcome: JobOutcome::Completed, data } = &seen
        && let Some(reason) = test.fit.misfit_of(data).await?
    {
        seen = CallbackSeen::Refused(reason);
    }
    test.note(CALLBACK, contract::of_callback(Some(&seen), after), after);
    Ok(Some(seen))
}

/// An app that may take longer than anybody waits for the test has not failed it.
fn no_callback(expected: CallbacksExpected<'_>) -> ContractCheck {
    if expected.wait >= expected.timeout {
        return ContractCheck::new(CALLBACK, contract::of_callback(None, expected.wait), expected.wait);
    }
    let (wait, timeout) = (expected.wait.as_secs(), expected.timeout.as_secs());
    let detail = format!("skipped: the app has not called back within {wait} s, and may take {timeout} s");
    ContractCheck { name: CALLBACK, passed: None, detail, took: expected.wait }
}

/// Asks the same again, and says how long the answer took.
async fn repeat(
    test: &mut Test<'_>,
    expected: CallbacksExpected<'_>,
    (id, body): (Uuid, &Bytes),
    first: Option<&CallbackSeen>,
    at: &CallbackAddress,
) -> Result<Option<Duration>, NotTested> {
    let Some(first) = first else {
        test.skip(&[REPEAT]);
        return Ok(None);
    };
    let report = test.send(id, body, Signed::Well, test.timeout).await;
    let judgment = match contract::of_take_over(&report) {
        Err(reason) => Err(reason),
        Ok(_) => {
            let second = expected.door.wait(at, expected.wait.min(SECOND_CALLBACK_WAIT)).await?;
            contract::of_second_callback(first, second.as_ref().map(|heard| &heard.seen))
        }
    };
    test.note(REPEAT, judgment, report.duration);
    Ok(Some(report.duration))
}
