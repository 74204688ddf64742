//! Reading what the store holds, for the oracle.

use everhook_core::{
    model::{Cursor, PageRequest},
    ports::{DeadLetterFilter, DeliveryFilter, EventFilter, StoreError},
};

use super::{
    Simulation,
    oracle::{Stored, Violation},
};

/// More rows than any run makes.
const ALL_ROWS: PageRequest = PageRequest { limit: 1_000_000, cursor: Cursor::Newest };

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Everything but attempts.
    Quick,
    /// Attempts too.
    Whole,
}

impl Simulation {
    /// Everything that every organization can see.
    pub(super) async fn look(&self, reading: Reading) -> Result<Stored, Violation> {
        self.read(reading)
            .await
            .map_err(|error| Violation { rule: "history can be read", because: format!("{:#}", anyhow::Error::new(error)) })
    }

    async fn read(&self, reading: Reading) -> Result<Stored, StoreError> {
        let history = &self.world.line().ports.history;
        let mut stored = Stored::default();
        for organization in self.tenants.iter().copied() {
            let events = history.events(organization, EventFilter::default(), ALL_ROWS).await?;
            stored.events.extend(events.rows.into_iter().map(|event| (event.id, event)));
            let deliveries = history.deliveries(organization, DeliveryFilter::default(), ALL_ROWS).await?;
            stored.deliveries.extend(deliveries.rows);
            let dead_letters = history.dead_letters(organization, DeadLetterFilter::default(), ALL_ROWS).await?;
            stored.dead_letters.extend(dead_letters.rows.into_iter().map(|letter| letter.id));
        }
        if reading == Reading::Whole {
            for delivery in &stored.deliveries {
                let found = history.delivery(delivery.organization, delivery.id).await?;
                let attempts = found.map(|(_, attempts)| attempts).unwrap_or_default();
                stored.attempts.insert(delivery.id, attempts.iter().map(|attempt| attempt.number).collect());
            }
        }
        Ok(stored)
    }
}
