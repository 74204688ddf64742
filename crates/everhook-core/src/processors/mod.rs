//! Processors: built-in code that handles what sources receive. `line::processing` hands events over.
//!
//! Each is one file or folder behind the trait [`Processor`]; another one is a variant of [`ProcessorKind`] and an entry here.

mod backfill;
mod health;
mod health_fetching;
mod processor;
mod provider_access;
mod provider_shares;
pub mod tokens;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

pub(crate) use backfill::ChunkAsked;
pub use health::awaited_connection;
pub use processor::{Processor, ProcessorTask};

use self::{health::HealthProcessor, provider_access::ProviderAccess};
use crate::{
    model::ProcessorKind,
    ports::{HealthConnections, Ports},
    providers::ProviderSettings,
};

/// All processors.
pub struct Processors {
    health: Arc<dyn Processor>,
    access: Arc<ProviderAccess>,
    connections: Arc<dyn HealthConnections>,
    recorded_alerts: Arc<AtomicBool>,
}

impl Processors {
    /// Over these ports.
    pub(crate) fn new(ports: &Ports, providers: ProviderSettings) -> Self {
        let recorded_alerts: Arc<AtomicBool> = Arc::default();
        let access = Arc::new(ProviderAccess::new(ports, providers));
        let health = Arc::new(HealthProcessor::new(ports, access.clone(), recorded_alerts.clone()));
        Self { health, access, connections: ports.health_connections.clone(), recorded_alerts }
    }

    /// The longest piece that a backfill asks for at once.
    pub(crate) fn backfill_chunk(&self) -> Duration {
        self.access.backfill_chunk()
    }

    /// Whether alerts were recorded since this was last asked: somebody must publish them.
    pub(crate) fn take_recorded_alerts(&self) -> bool {
        self.recorded_alerts.swap(false, Ordering::AcqRel)
    }

    /// They were not published: whoever asks next tries again.
    pub(crate) fn note_recorded_alerts(&self) {
        self.recorded_alerts.store(true, Ordering::Release);
    }

    /// The one of this kind.
    pub(crate) fn get(&self, kind: ProcessorKind) -> &dyn Processor {
        match kind {
            ProcessorKind::Health => &*self.health,
        }
    }
}
