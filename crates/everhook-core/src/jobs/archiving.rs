//! Reads what is about to go and puts it into the archive, a bounded part of it in memory at a time. Called by `retention`, before it removes anything of it.

use crate::{
    ids::{DeliveryId, EventId, OrganizationId},
    line::Line,
    model::{Attempt, Cursor, PageRequest},
    ports::{Archive, ArchiveError, ArchiveRecord, DeliveryFilter, Expiring, ExpiringId, StoreError},
    time::Timestamp,
};

/// About how many bytes are gathered before they are written: a compressed block of good size, and little memory. A single event may have more.
const BATCH_BYTES: usize = 4 << 20;
/// About what a record takes beside its data.
const RECORD_BYTES: usize = 1 << 10;
/// About what an attempt takes, with the sample of its answer.
const ATTEMPT_BYTES: usize = 2 << 10;
/// How many deliveries of an event are read at once.
const DELIVERIES_A_PAGE: u32 = 50;

/// Why something is not in the archive.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArchivingError {
    /// It could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It could not be written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// Archives all of it. What has gone meanwhile needs no record.
pub(super) async fn archive(line: &Line, archive: &dyn Archive, expiring: &[Expiring]) -> Result<(), ArchivingError> {
    let mut batch = Batch { archive, at: line.ports.clock.now(), records: Vec::new(), bytes: 0 };
    for Expiring { organization, id } in expiring {
        match id {
            ExpiringId::Event(event) => {
                batch.event(line, *organization, *event).await?;
                batch.deliveries(line, *organization, *event).await?;
            }
            ExpiringId::DeadLetter(letter) => batch.dead_letter(line, *organization, *letter).await?,
        }
    }
    batch.write().await
}

/// What is to be written next.
struct Batch<'a> {
    archive: &'a dyn Archive,
    at: Timestamp,
    records: Vec<ArchiveRecord>,
    bytes: usize,
}

impl Batch<'_> {
    async fn event(&mut self, line: &Line, organization: OrganizationId, id: EventId) -> Result<(), ArchivingError> {
        let (record, bytes) = match line.ports.history.event(organization, id).await {
            Ok(None) => return Ok(()),
            Ok(Some((summary, event))) => {
                let bytes = event.as_ref().map_or(0, |event| event.data.len());
                (ArchiveRecord::Event { organization, summary, event: event.map(Box::new) }, bytes)
            }
            // It will never be read, so that keeping it would keep nothing, and everything behind it.
            Err(StoreError::Corrupt(_)) => (ArchiveRecord::UnreadableEvent { organization, event: id }, 0),
            Err(error) => return Err(error.into()),
        };
        self.push(record, bytes).await
    }

    /// All deliveries of an event, the newest first.
    async fn deliveries(&mut self, line: &Line, organization: OrganizationId, event: EventId) -> Result<(), ArchivingError> {
        let mut cursor = Some(Cursor::Newest);
        while let Some(from) = cursor {
            let filter = DeliveryFilter { event: Some(event), ..DeliveryFilter::default() };
            let page = PageRequest { limit: DELIVERIES_A_PAGE, cursor: from };
            let page = line.ports.history.deliveries(organization, filter, page).await?;
            for delivery in page.rows {
                self.delivery(line, organization, delivery.id).await?;
            }
            cursor = page.next;
        }
        Ok(())
    }

    async fn delivery(&mut self, line: &Line, organization: OrganizationId, id: DeliveryId) -> Result<(), ArchivingError> {
        let Some((delivery, attempts)) = line.ports.history.delivery(organization, id).await? else { return Ok(()) };
        let bytes = attempts_bytes(&attempts);
        self.push(ArchiveRecord::Delivery(Box::new(delivery), attempts), bytes).await
    }

    /// A dead letter, with its event and the delivery that died last: nothing else says later what it was about.
    async fn dead_letter(&mut self, line: &Line, organization: OrganizationId, id: DeliveryId) -> Result<(), ArchivingError> {
        let Some(letter) = line.ports.history.dead_letter(organization, id).await? else { return Ok(()) };
        let (event, delivery) = (letter.event, letter.last_delivery);
        self.push(ArchiveRecord::DeadLetter(Box::new(letter)), 0).await?;
        self.event(line, organization, event).await?;
        self.delivery(line, organization, delivery).await
    }

    async fn push(&mut self, record: ArchiveRecord, bytes: usize) -> Result<(), ArchivingError> {
        self.records.push(record);
        self.bytes += RECORD_BYTES + bytes;
        if self.bytes >= BATCH_BYTES { self.write().await } else { Ok(()) }
    }

    async fn write(&mut self) -> Result<(), ArchivingError> {
        self.bytes = 0;
        if !self.records.is_empty() {
            self.archive.append(self.at, std::mem::take(&mut self.records)).await?;
        }
        Ok(())
    }
}

fn attempts_bytes(attempts: &[Attempt]) -> usize {
    attempts.len() * ATTEMPT_BYTES
}
