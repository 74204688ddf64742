//! How much a source may have before it that its processor cannot take: events of users whom nobody has connected wait for weeks, and who sends them may be
//! anybody. Asked by `receive` before it records anything.
//!
//! The provider waits for its answer meanwhile, so that nothing is asked of the store here: it decides by the last count and what was accepted since, and has
//! the next count made beside it. Until the first one after a start is there, nobody is held back.

use crate::{
    line::{Line, publish::PublishError},
    model::Source,
};

/// How many events of one source may wait for its processor, be held behind others or be parked.
pub const SOURCE_BACKLOG_MAX: u32 = 100_000;

/// Makes room for what a source received. A count that cannot be made holds nobody back.
///
/// # Errors
/// [`PublishError::SourceBacklogFull`] if there is none: nothing must be recorded.
pub(crate) fn take_room(line: &Line, source: &Source, items: usize) -> Result<(), PublishError> {
    if source.processor.is_none() {
        return Ok(());
    }
    let (now, items) = (line.ports.clock.now(), u32::try_from(items).unwrap_or(u32::MAX));
    if line.source_backlogs.is_to_be_counted(source.id, items, now) {
        count_beside(line, source);
    }
    if line.source_backlogs.take(source.id, items, now) { Ok(()) } else { Err(PublishError::SourceBacklogFull) }
}

/// Counts what waits, while the request goes on. There is one count of a source at a time, or one for each ten seconds that the store takes for it.
fn count_beside(line: &Line, source: &Source) {
    let (control, backlogs, clock) = (line.ports.delivery_control.clone(), line.source_backlogs.clone(), line.ports.clock.clone());
    let id = source.id;
    let count = async move {
        match control.waiting_backlog(id.into(), SOURCE_BACKLOG_MAX + 1).await {
            Ok(backlog) => backlogs.note_count(id, backlog.count, clock.now()),
            Err(error) => tracing::debug!(source.id = %id, "cannot count what waits for the processor of a source: {}", error.in_words()),
        }
    };
    line.tasks.spawn(count);
}
