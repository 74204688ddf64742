//! Starts what watches the server itself, and reads for it what this node knows: how many requests are under way, and whether Redis and RabbitMQ answer.

use std::sync::Arc;

#[cfg(feature = "amqp")]
use everhook_adapters::rabbitmq::FailedReconnects;
use everhook_core::{
    engine::EngineStatus,
    ids::OrganizationId,
    jobs::server_alerts::{NodeReading, ServerAlertSettings, run},
    line::Line,
};
use tokio::{sync::watch, task::JoinHandle};

use crate::config::Config;

/// What is read of this node.
pub struct NodeSignals {
    /// Through which Redis and the hints of RabbitMQ are known.
    pub line: Arc<Line>,
    /// What the engine is doing.
    pub engine: watch::Receiver<EngineStatus>,
    /// How many requests may be under way.
    pub concurrency: usize,
    /// How often the queue that events are taken from could not be reached, if there is one.
    #[cfg(feature = "amqp")]
    pub amqp_source: Option<FailedReconnects>,
}

impl NodeSignals {
    /// Reads them, without waiting for anything.
    pub fn read(&self) -> NodeReading {
        let ports = &self.line.ports;
        let in_flight = self.engine.borrow().in_flight as f64;
        #[cfg(feature = "amqp")]
        let source_failures = self.amqp_source.as_ref().map_or(0, FailedReconnects::count);
        #[cfg(not(feature = "amqp"))]
        let source_failures = 0;
        NodeReading {
            workers_busy: 100.0 * in_flight / self.concurrency.max(1) as f64,
            redis_is_away: ports.breaker_windows.are_kept() && ports.breaker_windows.are_away(),
            rabbitmq_failures: ports.remote_hints.failed_reconnects().max(source_failures),
        }
    }
}

/// Watches until it is aborted.
pub fn start(config: &Config, organization: OrganizationId, signals: NodeSignals) -> JoinHandle<()> {
    let settings = ServerAlertSettings {
        organization,
        admin_emails: config.admin_emails.clone().unwrap_or_default(),
        slack_url: config.server_alerts.slack_url.clone(),
        pagerduty_key: config.server_alerts.pagerduty_key.clone(),
    };
    let line = signals.line.clone();
    tokio::spawn(run(line, Box::new(move || signals.read()), settings))
}
