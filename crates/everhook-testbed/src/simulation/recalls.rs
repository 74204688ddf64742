//! People who bring dead letters back.

use everhook_core::{
    line::recall::{NotResendable, RecallError, recall},
    model::{Cursor, DeadLetterStatus, PageRequest},
    ports::DeadLetterFilter,
};

use super::{Simulation, log::Happening, oracle::Violation};

/// Among how many of the newest one is chosen.
const CHOICE: PageRequest = PageRequest { limit: 20, cursor: Cursor::Newest };

impl Simulation {
    /// Brings some dead letter back, if there is one.
    pub(super) async fn recall_something(&mut self) -> Result<(), Violation> {
        let organization = self.tenants[self.dice.below(self.changeable.tenants) as usize];
        let line = self.world.line().clone();
        let filter = DeadLetterFilter { status: Some(DeadLetterStatus::Dead), ..Default::default() };
        let found = line.ports.history.dead_letters(organization, filter, CHOICE).await;
        let letters = found.map(|page| page.rows).unwrap_or_default();
        if letters.is_empty() {
            return Ok(());
        }
        let letter = letters[self.dice.below(letters.len() as u64) as usize].id;
        match recall(&line, organization, letter).await {
            Ok((_, delivery)) => self.log.note(Happening::Recalled(delivery)),
            Err(RecallError::Refused(NotResendable::EndpointClosed) | RecallError::TooOften(_) | RecallError::Store(_)) => {}
            Err(refusal) => return Err(Violation { rule: "a dead letter can be brought back", because: format!("{letter}: {refusal}") }),
        }
        drop(line);
        if self.disk.is_off() { self.come_back().await } else { Ok(()) }
    }
}
