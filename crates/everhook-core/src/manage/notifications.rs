//! Notifications: the deliveries of an organization's channels, merged from their lanes, which are few. It reads and changes nothing.

use uuid::Uuid;

use super::{Noun, Refusal};
use crate::{
    ids::{LaneId, OrganizationId},
    line::Line,
    model::{Channel, Cursor, Delivery, Page, PageRequest},
    ports::{DeliveryFilter, DeliveryStatus, StoreError},
};

/// A delivery with the channel that it goes to.
#[derive(Clone, Debug)]
pub struct Notification {
    /// Who is notified.
    pub channel: Channel,
    /// Its delivery state.
    pub delivery: Delivery,
}

/// The channels whose notifications are asked for: all, or the one of this name.
///
/// # Errors
/// [`Refusal::NotFound`] if there is none of this name.
pub async fn channels(line: &Line, organization: OrganizationId, named: Option<&str>) -> Result<Vec<Channel>, Refusal> {
    let mut channels = line.ports.channels.channels(organization).await?;
    if let Some(name) = named {
        channels.retain(|channel| channel.name() == name);
        if channels.is_empty() {
            return Err(Refusal::NotFound(Noun::Channel));
        }
    }
    Ok(channels)
}

/// A page of what went to these channels, newest first. Each costs a read by its lane's index.
///
/// # Errors
/// [`StoreError`] if the store cannot be reached.
pub async fn list(
    line: &Line,
    organization: OrganizationId,
    channels: &[Channel],
    status: Option<DeliveryStatus>,
    page: PageRequest,
) -> Result<Page<Notification>, StoreError> {
    let mut rows = Vec::new();
    // One more than asked for, of each: all rows of the page may be one channel's, and one more says that there are others.
    let wanted = PageRequest { limit: page.limit.saturating_add(1), cursor: page.cursor };
    for channel in channels {
        let filter = DeliveryFilter { endpoint: Some(LaneId::from(channel.id).endpoint()), status, ..DeliveryFilter::default() };
        let read = line.ports.history.deliveries(organization, filter, wanted).await?;
        rows.extend(read.rows.into_iter().map(|delivery| Notification { channel: channel.clone(), delivery }));
    }
    let id = |row: &Notification| -> Uuid { *row.delivery.id.as_uuid() };
    rows.sort_by_key(id);
    if !matches!(page.cursor, Cursor::NewerThan(_)) {
        rows.reverse();
    }
    Ok(Page::from_read(rows, page, id))
}
