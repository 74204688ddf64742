//! People who have events erased.

use everhook_core::{
    manage::{Refusal, erasing::erase_event},
    model::{Author, Cursor, PageRequest},
    ports::EventFilter,
};

use super::{Simulation, log::Happening, oracle::Violation};

/// Among how many of the newest one is chosen: most of them are under way.
const CHOICE: PageRequest = PageRequest { limit: 20, cursor: Cursor::Newest };

impl Simulation {
    /// Erases some event of late, if there is one. If nobody can say what came of it, it stays open.
    pub(super) async fn erase_something(&mut self) -> Result<(), Violation> {
        let organization = self.tenants[self.dice.below(self.changeable.tenants) as usize];
        let line = self.world.line().clone();
        let found = line.ports.history.events(organization, EventFilter::default(), CHOICE).await;
        let events = found.map(|page| page.rows).unwrap_or_default();
        if events.is_empty() {
            return Ok(());
        }
        let event = events[self.dice.below(events.len() as u64) as usize].id;
        self.log.note(Happening::Erasing(event));
        match erase_event(&line, &Author::server(organization), event).await {
            Ok(()) => self.log.note(Happening::Erased(event)),
            Err(Refusal::Store(_)) => {}
            Err(refusal) => return Err(Violation { rule: "an event can be erased", because: format!("{event}: {refusal}") }),
        }
        drop(line);
        if self.disk.is_off() { self.come_back().await } else { Ok(()) }
    }
}
