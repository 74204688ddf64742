//! The connection to Redis. Whoever uses it is answered at once while there is none; one task finds out when there is again.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use everhook_core::time::millis;
use redis::{AsyncConnectionConfig, Client, RedisError, aio::MultiplexedConnection};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

/// How long a command may take before Redis counts as away.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_millis(250);
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a Redis that nobody uses is asked whether it is there.
const PING_EVERY: Duration = Duration::from_secs(1);
/// How long a Redis that is away is left alone, at first and at the most.
const RETRY_DELAY: Duration = Duration::from_secs(1);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);
/// When somebody should look after it.
const AWAY_TOO_LONG: Duration = Duration::from_secs(120);

/// The connection, if there is one.
pub(super) struct Link {
    client: Client,
    /// What all keys begin with.
    pub(super) prefix: String,
    state: Mutex<State>,
    /// Whether an answer was late: what can do without does, until it is known how things stand.
    is_suspected: AtomicBool,
    suspicion: Notify,
}

enum State {
    Here(MultiplexedConnection),
    Away { since: Instant, is_told: bool, is_told_again: bool },
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    /// Nobody was asked.
    #[error("Redis is unavailable")]
    Away,
    /// It did not answer in time.
    #[error("Redis did not answer in time")]
    Late,
    /// It refused, or the connection broke.
    #[error("Redis refused")]
    Refused(#[source] RedisError),
}

impl Link {
    /// Not connected yet.
    pub(super) fn new(client: Client, prefix: String) -> Self {
        let away = State::Away { since: Instant::now(), is_told: false, is_told_again: false };
        Self { client, prefix, state: Mutex::new(away), is_suspected: AtomicBool::new(false), suspicion: Notify::new() }
    }

    pub(super) fn is_away(&self) -> bool {
        matches!(*self.state(), State::Away { .. })
    }

    /// Runs a command; a connection that breaks, or is silent for [`ANSWER_TIMEOUT`], counts as away from then on.
    pub(super) async fn ask<T, A>(&self, command: impl FnOnce(MultiplexedConnection) -> A) -> Result<T, NoAnswer>
    where
        A: Future<Output = Result<T, RedisError>>,
    {
        let connection = self.connection().ok_or(NoAnswer::Away)?;
        match timeout(ANSWER_TIMEOUT, command(connection)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                if is_broken(&error) {
                    self.lose(&error);
                }
                Err(NoAnswer::Refused(error))
            }
            Err(_) => {
                self.lose(&NoAnswer::Late);
                Err(NoAnswer::Late)
            }
        }
    }

    /// Runs a command whose answer somebody waits for who can do without. One that is late makes Redis suspect, and nobody asks like this until it is
    /// known how things stand.
    pub(super) async fn ask_briefly<T, A>(&self, within: Duration, command: impl FnOnce(MultiplexedConnection) -> A) -> Result<T, NoAnswer>
    where
        A: Future<Output = Result<T, RedisError>>,
    {
        if self.is_suspected.load(Ordering::Relaxed) {
            return Err(NoAnswer::Away);
        }
        let asked = timeout(within, self.ask(command)).await;
        asked.unwrap_or_else(|_| {
            self.is_suspected.store(true, Ordering::Relaxed);
            self.suspicion.notify_one();
            Err(NoAnswer::Late)
        })
    }

    /// Finds out how things stand: asks, or connects anew.
    pub(super) async fn try_now(&self) {
        if self.connection().is_some() {
            // A failure was handled already.
            let _ = self.ask(ping).await;
        } else {
            match self.connect().await {
                Ok(connection) => self.returned(connection),
                Err(error) => self.lose(&error),
            }
        }
        self.is_suspected.store(false, Ordering::Relaxed);
    }

    async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT_TIMEOUT)).set_response_timeout(Some(CONNECT_TIMEOUT));
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        ping(connection.clone()).await?;
        Ok(connection)
    }

    fn connection(&self) -> Option<MultiplexedConnection> {
        match &*self.state() {
            State::Here(connection) => Some(connection.clone()),
            State::Away { .. } => None,
        }
    }

    fn lose(&self, why: &(dyn std::error::Error + 'static)) {
        let mut state = self.state();
        if let State::Here(_) = *state {
            *state = State::Away { since: Instant::now(), is_told: false, is_told_again: false };
        }
        let State::Away { since, is_told, is_told_again } = &mut *state else { return };
        if !std::mem::replace(is_told, true) {
            let why = one_line(why);
            tracing::warn!(
                "Redis is unavailable; limits apply to each node separately, and circuit breakers that move between nodes lose their counts: {why}"
            );
        }
        if since.elapsed() >= AWAY_TOO_LONG && !std::mem::replace(is_told_again, true) {
            let why = one_line(why);
            tracing::error!("Redis has been unavailable for more than two minutes; check the Redis server: {why}");
        }
    }

    fn returned(&self, connection: MultiplexedConnection) {
        let before = std::mem::replace(&mut *self.state(), State::Here(connection));
        if let State::Away { since, is_told: true, .. } = before {
            let away_ms = millis(since.elapsed());
            tracing::info!(away_ms, "Redis is available again after {away_ms} ms");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks after the connection for ever.
pub(super) async fn watch(link: std::sync::Arc<Link>) {
    let mut delay = RETRY_DELAY;
    loop {
        if link.is_away() {
            sleep(delay).await;
            delay = (delay * 2).min(RETRY_DELAY_MAX);
        } else {
            delay = RETRY_DELAY;
            // Returns early if somebody suspects something.
            let _ = timeout(PING_EVERY, link.suspicion.notified()).await;
        }
        link.try_now().await;
    }
}

async fn ping(mut connection: MultiplexedConnection) -> Result<(), RedisError> {
    redis::cmd("PING").query_async(&mut connection).await
}

/// The most letters of what the server said that the log is told.
const WORDS_MAX: usize = 200;

/// What went wrong, as one line: whatever answers there may be no Redis, and may answer with a page.
fn one_line(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    let words: Vec<&str> =
        text.split(|letter: char| letter.is_whitespace() || letter.is_control()).filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(WORDS_MAX).collect()
}

/// Whether the connection is of no use any more, or the server of none yet. Other refusals are about the command.
fn is_broken(error: &RedisError) -> bool {
    error.is_io_error()
        || error.is_timeout()
        || error.is_connection_dropped()
        || error.is_connection_refusal()
        || error.is_unrecoverable_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_answers_instead_of_redis_is_told_in_one_line() {
        let page = format!("HTTP/1.1 400 Bad Request\r\n\r\n<html>\u{7}{}", "x".repeat(500));
        let line = one_line(&RedisError::from((redis::ErrorKind::Parse, "no Redis", page)));
        assert!(line.lines().count() == 1 && line.contains("400 Bad Request <html> x") && line.len() <= WORDS_MAX, "{line}");
    }
}
