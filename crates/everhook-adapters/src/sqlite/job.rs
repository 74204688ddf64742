//! A unit of work for the writer: one port call, or one step of a large one.

use everhook_core::ports::StoreError;
use tokio::sync::oneshot;

use super::{
    fault::{Fault, Outcome},
    transaction::Tx,
};

/// Work that can be run again: a transaction that fails is rolled back, and its jobs are redone one by one.
pub(super) trait Job: Send {
    /// Does the work and keeps its answer. Must not depend on having run before.
    fn run(&mut self, tx: &mut Tx<'_>) -> Outcome<()>;

    /// Gives the kept answer, once it is durable.
    fn answer(self: Box<Self>);

    /// Tells the caller that nothing was written, and why.
    fn refuse(self: Box<Self>, fault: &Fault);
}

/// A job made of a closure, and the one who waits for it.
pub(super) struct Call<T, F> {
    work: F,
    value: Option<T>,
    caller: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Call<T, F>
where
    T: Send,
    F: FnMut(&mut Tx<'_>) -> Outcome<T> + Send,
{
    /// Wraps `work`; its answer comes out of the receiver.
    pub(super) fn new(work: F) -> (Self, oneshot::Receiver<Result<T, StoreError>>) {
        let (caller, answer) = oneshot::channel();
        (Self { work, value: None, caller }, answer)
    }
}

impl<T, F> Job for Call<T, F>
where
    T: Send,
    F: FnMut(&mut Tx<'_>) -> Outcome<T> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Outcome<()> {
        self.value = Some((self.work)(tx)?);
        Ok(())
    }

    fn answer(self: Box<Self>) {
        // A caller that has gone away does not need the answer; what it asked for is done all the same.
        if let Some(value) = self.value {
            let _ = self.caller.send(Ok(value));
        }
    }

    fn refuse(self: Box<Self>, fault: &Fault) {
        let _ = self.caller.send(Err(fault.to_store_error()));
    }
}
