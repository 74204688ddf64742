//! How a world is put together: the ports, the engine, and the task that empties the spool. Done anew for every life of the process.

use std::{sync::Arc, time::Duration};

use everhook_adapters::{
    spool::{SpoolSettings, SqliteSpool},
    sqlite::{OpenError, SqliteSettings, SqliteStore, WriterMode},
    vault::AesVault,
};
use everhook_core::{
    catalog::CATALOG_BYTES,
    engine::{Engine, EngineSettings},
    gates::CALLS_IN_FLIGHT_MAX,
    lanes,
    limits::evaluations::EvaluationThreads,
    line::{HealthCheckSettings, Line, LineSettings, NotificationSettings},
    model::{PoolName, Profile, RetentionPeriods, Secret},
    policy::{calls::manifest::ManifestDefaults, endpoint_health::EndpointHealthSettings},
    ports::{Ports, Roles, SingleNode, Spool, StorePorts, Vault},
    providers::{ProviderSettings, StravaClient},
    spool::forward::forward,
};
use tokio::task::JoinSet;

use super::World;
use crate::{
    cluster::FRONT,
    faults::{Faulty, FaultySpool},
};

/// What a life of the process consists of.
pub(super) struct Running {
    pub(super) line: Arc<Line>,
    pub(super) engine: Engine,
    /// Empties the spool.
    _forwarding: JoinSet<()>,
    /// The outside, as if there were no other node.
    pub(super) bare: Ports,
}

impl World {
    /// Starts it again on the same files.
    pub fn start_again(&mut self) {
        self.try_start().expect("the store opens");
    }

    /// Starts it again on files that may have suffered.
    ///
    /// # Errors
    /// [`OpenError`] if the store does not open; nothing runs then.
    pub fn try_start(&mut self) -> Result<(), OpenError> {
        let bare = match &self.shared {
            Some(shared) => self.ports_of(shared.store.clone(), None),
            None => {
                let settings = SqliteSettings { data: self.folder.path().to_owned(), mode: WriterMode::Inline };
                let store = SqliteStore::open(settings)?;
                store.seal_with(vault());
                self.ports_of(Arc::new(store), self.open_spool()?)
            }
        };
        let (ports, roles) = self.among_others(bare.clone());
        let (wake_up, hints) = lanes::hints();
        let (endpoint_health, evaluation_threads) = (self.endpoint_health.clone(), self.evaluation_threads);
        let settings = LineSettings { endpoint_health, evaluation_threads, alert_interval: self.alert_interval, ..line_settings("world") };
        let line = Arc::new(Line::new(ports, wake_up, settings));
        let engine = Engine::start(line.clone(), hints, EngineSettings { concurrency: 64, roles });
        let mut forwarding = JoinSet::new();
        forwarding.spawn(forward(line.clone()));
        self.running = Some(Running { line, engine, _forwarding: forwarding, bare });
        Ok(())
    }

    /// The outside where other nodes are beside it, and what it does there; where there are none, it has everything to itself.
    fn among_others(&self, bare: Ports) -> (Ports, Roles) {
        let Some(registry) = &self.registry else { return (bare, Roles::ALL) };
        let member = registry.member(FRONT, PoolName::default());
        let ports = Ports { leases: member.clone(), remote_hints: member.clone(), changes: member.clone(), throttle: member, ..bare };
        (ports, Roles { worker: false, scheduler: false })
    }

    fn ports_of<S>(&self, store: Arc<S>, spool: Option<Arc<dyn Spool>>) -> Ports
    where
        S: StorePorts + 'static,
    {
        let faulty = Arc::new(Faulty::new(store.clone(), self.faults.clone()));
        Ports {
            events: faulty.clone(),
            deliveries: faulty.clone(),
            delivery_control: faulty.clone(),
            parked: faulty.clone(),
            outbox: faulty.clone(),
            breakers: faulty.clone(),
            operations: faulty.clone(),
            operation_candidates: faulty.clone(),
            backfills: faulty.clone(),
            bulk_erasure: faulty.clone(),
            auto_replays: faulty.clone(),
            organizations: store.clone(),
            applications: store.clone(),
            endpoints: store.clone(),
            configuration: store.clone(),
            retry_schedules: store.clone(),
            event_types: store.clone(),
            api_keys: store.clone(),
            channels: faulty.clone(),
            sources: faulty.clone(),
            health_connections: faulty.clone(),
            health_metrics: faulty.clone(),
            manifests: faulty.clone(),
            app_health: faulty.clone(),
            call_records: faulty.clone(),
            jobs: faulty.clone(),
            approvals: faulty.clone(),
            audit_log: store.clone(),
            history: store.clone(),
            retention: store.clone(),
            archive: self.archive.clone(),
            sealing: store,
            statistics: faulty.clone(),
            store_measurements: faulty.clone(),
            endpoint_health: faulty.clone(),
            alert_rules: faulty.clone(),
            alerts: faulty.clone(),
            alert_signals: faulty,
            leases: Arc::new(SingleNode),
            remote_hints: Arc::new(SingleNode),
            changes: Arc::new(SingleNode),
            breaker_windows: Arc::new(SingleNode),
            breaker_votes: Arc::new(SingleNode),
            throttle: Arc::new(SingleNode),
            spool,
            transport: self.transport.clone(),
            notifier: Some(self.notifier.clone()),
            spans: None,
            vault: vault(),
            clock: self.clock.clone(),
            entropy: self.dice.clone(),
        }
    }

    fn open_spool(&self) -> Result<Option<Arc<dyn Spool>>, OpenError> {
        let Some(bytes_max) = self.spool_bytes_max else { return Ok(None) };
        let settings = SpoolSettings { folder: self.folder.path().join("spool"), bytes_max, mode: WriterMode::Inline };
        let spool = SqliteSpool::open(settings)?;
        spool.seal_with(vault());
        Ok(Some(Arc::new(FaultySpool::new(spool, self.faults.clone()))))
    }
}

/// What seals in every scenario.
pub(super) fn vault() -> Arc<dyn Vault> {
    Arc::new(AesVault::from_key([7; 32]))
}

/// Where providers really are: the scripted network answers for them.
fn health_providers() -> ProviderSettings {
    let mut settings = ProviderSettings::default();
    settings.strava.client = Some(StravaClient { id: "42".to_owned(), secret: Secret::new("hush".to_owned()) });
    settings
}

/// How often alert rules are evaluated where nobody asks for it: a scenario that is about something else should not hear of them.
pub(super) const ALERT_INTERVAL: Duration = Duration::from_secs(3_650 * 86_400);

/// How nodes of a scenario run.
pub fn line_settings(node: &str) -> LineSettings {
    let days = |count: u64| Duration::from_secs(count * 86_400);
    let retention = RetentionPeriods {
        events: Some(days(90)),
        attempts: Some(days(90)),
        dead_letters: Some(days(365)),
        rollups: Some(days(90)),
        health: None,
        operations: Some(days(90)),
        audit_log: Some(days(365)),
        interval: Duration::from_secs(3_600),
    };
    LineSettings {
        node: node.to_owned(),
        idempotency_window: days(1),
        profile: Profile::plain(),
        catalog_bytes_max: CATALOG_BYTES,
        retention,
        endpoint_health: EndpointHealthSettings::default(),
        evaluation_threads: EvaluationThreads::Inline,
        seal_payloads: false,
        manifest_defaults: ManifestDefaults::default(),
        health_providers: health_providers(),
        health_checks: HealthCheckSettings::default(),
        alert_interval: ALERT_INTERVAL,
        calls_in_flight_max: CALLS_IN_FLIGHT_MAX,
        notifications: NotificationSettings::default(),
    }
}
