//! Transactions that met another one. One of the two is rolled back by the server; the same again may well succeed at once.

use super::fault::Outcome;

/// How often a transaction that met another one is tried again.
const COLLISIONS_MAX: u32 = 5;

/// Makes an attempt, and makes it again while it collides. Nothing is left of one that did.
pub(super) async fn retry_on_conflict<T, A>(attempt: impl Fn() -> A + Send) -> Outcome<T>
where
    A: Future<Output = Outcome<T>> + Send,
{
    let mut tries = 0;
    loop {
        match attempt().await {
            Err(fault) if fault.is_collision() && tries < COLLISIONS_MAX => tries += 1,
            answer => return answer,
        }
    }
}
