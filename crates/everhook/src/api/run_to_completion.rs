//! Work that must not stop half-way: a client that hangs up drops its request's future at any point, and a change must not end between
//! its write and what follows from it.
//!
//! The work runs in the request's own task, so that the hot path pays for no other; only if the request is dropped does what is left of it
//! become a task of its own.

use std::{
    panic::AssertUnwindSafe,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{FutureExt, future::CatchUnwind};

use super::error::ApiError;

/// Runs a change to its end, whatever becomes of the request.
///
/// # Errors
/// An internal error if the change panicked.
pub(super) async fn run_to_completion<T: Send + 'static>(change: impl Future<Output = T> + Send + 'static) -> Result<T, ApiError> {
    RunToCompletion { change: Some(Box::pin(AssertUnwindSafe(change).catch_unwind())) }.await.map_err(|_| {
        tracing::error!("panic while handling a request: it was answered with 500, and other requests are not affected. This is a defect of Everhook: report it with the panic's message above");
        ApiError::internal()
    })
}

/// A future that is spawned when it is dropped before its end.
struct RunToCompletion<F: Future<Output: Send> + Send + 'static> {
    change: Option<Pin<Box<CatchUnwind<AssertUnwindSafe<F>>>>>,
}

impl<F: Future<Output: Send> + Send + 'static> Future for RunToCompletion<F> {
    type Output = std::thread::Result<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let change = self.change.as_mut().expect("it is not polled after its end");
        let outcome = std::task::ready!(change.as_mut().poll(context));
        self.change = None;
        Poll::Ready(outcome)
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for RunToCompletion<F> {
    fn drop(&mut self) {
        if let Some(rest) = self.change.take() {
            tokio::spawn(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_change_goes_on_when_its_request_is_dropped() {
        let (written, wait) = oneshot::channel::<()>();
        let (ended, end) = oneshot::channel();
        let request = run_to_completion(async move {
            let _ = wait.await;
            let _ = ended.send("what follows was done");
        });
        // The client hangs up after the change has begun.
        assert!(request.now_or_never().is_none());
        let _ = written.send(());
        assert_eq!(end.await, Ok("what follows was done"));
    }

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        assert!(run_to_completion(async { panic!("a fault of ours") }).await.is_err());
    }
}
