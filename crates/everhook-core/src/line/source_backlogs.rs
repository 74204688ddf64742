//! How much a source may have before it that its processor cannot take: events of users whom nobody has connected wait for weeks, and who sends them may be
//! anybody. Asked by `receive` before it records anything.

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
pub(crate) async fn take_room(line: &Line, source: &Source, items: usize) -> Result<(), PublishError> {
    if source.processor.is_none() {
        return Ok(());
    }
    let (now, items) = (line.ports.clock.now(), u32::try_from(items).unwrap_or(u32::MAX));
    if line.source_backlogs.is_to_be_counted(source.id, items, now)
        && let Ok(backlog) = line.ports.delivery_control.waiting_backlog(source.id.into(), SOURCE_BACKLOG_MAX + 1).await
    {
        line.source_backlogs.note_count(source.id, backlog.count, now);
    }
    if line.source_backlogs.take(source.id, items, now) { Ok(()) } else { Err(PublishError::SourceBacklogFull) }
}
