//! Rules about the server itself: what they are measured from, and which of them are about the same trouble. Pure; called by the task of each node that
//! evaluates them.
//!
//! [`statuses`] says how the rules stand on one node, [`records`] what the store keeps of that for all nodes.

pub mod records;
pub mod statuses;

#[cfg(test)]
mod tests;

use super::{AlertReport, Measured};
use crate::{
    model::{AlertMetric, AlertStatus},
    time::Timestamp,
};

/// What a node knows of itself and of what it is connected to. Nothing of it needs an answer of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerFacts {
    /// The deliveries that wait; `None` if the store did not say it lately.
    pub waiting: Option<u64>,
    /// The share of the slots for requests that is in use, in percent.
    pub workers_busy: f64,
    /// Since when Redis has been away, if it is.
    pub redis_away_since: Option<Timestamp>,
    /// Since when the store has been away, if it is.
    pub database_away_since: Option<Timestamp>,
    /// How many reads of the store failed in a row.
    pub database_failures: u32,
    /// How many attempts in a row to connect to RabbitMQ failed.
    pub rabbitmq_failures: u32,
}

impl ServerFacts {
    /// What a rule compares.
    pub fn measure(&self, metric: AlertMetric, now: Timestamp) -> Measured {
        let lasts = |since: Option<Timestamp>| since.map_or(0.0, |since| now.since(since).as_secs_f64());
        let both_away_since = self.database_away_since.zip(self.redis_away_since).map(|(database, redis)| database.max(redis));
        match metric {
            AlertMetric::Depth => self.waiting.map_or(Measured::TooFewSamples, |waiting| Measured::Value(waiting as f64)),
            AlertMetric::WorkersBusy => Measured::Value(self.workers_busy),
            AlertMetric::RedisAway | AlertMetric::RedisFallback => Measured::Value(lasts(self.redis_away_since)),
            AlertMetric::DatabaseAway => Measured::Value(lasts(self.database_away_since)),
            AlertMetric::DatabaseFailures => Measured::Value(self.database_failures.into()),
            AlertMetric::DatabaseAndRedisAway => Measured::Value(lasts(both_away_since)),
            AlertMetric::RabbitmqFailedReconnects => Measured::Value(self.rabbitmq_failures.into()),
            // Nothing of the server.
            _ => Measured::TooFewSamples,
        }
    }
}

/// Something to report about the server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerReport {
    /// What.
    pub report: AlertReport,
    /// How the alert stands on this node from then on.
    pub status: AlertStatus,
    /// When that was noticed.
    pub at: Timestamp,
}

impl ServerReport {
    /// When the alert began to fire.
    pub fn fired_at(&self) -> Timestamp {
        self.status.episodes.first().map_or(self.at, |episode| episode.fired_at)
    }
}

/// The metrics whose alerts say the same trouble and more, or say it another way: while one of them is reported, this one is not.
pub const fn covered_by(metric: AlertMetric) -> &'static [AlertMetric] {
    use AlertMetric::{DatabaseAndRedisAway, DatabaseAway, DatabaseFailures, RedisAway, RedisFallback};
    match metric {
        DatabaseAway => &[DatabaseAndRedisAway, DatabaseFailures],
        DatabaseFailures => &[DatabaseAndRedisAway, DatabaseAway],
        RedisAway | RedisFallback => &[DatabaseAndRedisAway],
        _ => &[],
    }
}

/// What to do about an alert, in one sentence.
pub const fn advice(metric: AlertMetric) -> &'static str {
    match metric {
        AlertMetric::Depth => "Look for endpoints that are slow or away, and add workers if all are busy.",
        AlertMetric::WorkersBusy => "Raise `concurrency` or start more nodes, unless slow endpoints hold the requests.",
        AlertMetric::RedisAway | AlertMetric::RedisFallback => {
            "Start Redis again and check the network to it; limits are shared through the database meanwhile."
        }
        AlertMetric::DatabaseAway | AlertMetric::DatabaseFailures => {
            "Check the database, its disk and the network to it; nodes with a spool accept events meanwhile, and nothing is sent."
        }
        AlertMetric::DatabaseAndRedisAway => "Check what the database and Redis share: their machine, their network, their credentials.",
        AlertMetric::RabbitmqFailedReconnects => "Check RabbitMQ, the network to it and the credentials in `amqp`.",
        _ => "Check the server.",
    }
}
