//! Owners of applications, as far as they are people with an address: how many an organization may have, and what follows when they change.

use super::{Conflict, Refusal};
use crate::{
    ids::OrganizationId,
    line::Line,
    model::{ChannelTarget, EmailAddress, OWNER_EMAILS_MAX},
};

/// Whether an organization may have an application of this owner.
///
/// Asked before the write, not in it: so many changes as are under way at once may come beyond the bound, which is there for the room that channels take.
pub(super) async fn check_count(line: &Line, organization: OrganizationId, owner: Option<&EmailAddress>) -> Result<(), Refusal> {
    let Some(owner) = owner else { return Ok(()) };
    let channels = line.ports.channels.channels(organization).await?;
    let is_known = channels.iter().any(|channel| channel.address() == Some(owner));
    let owners = channels.iter().filter(|channel| matches!(channel.to, ChannelTarget::Owner(_))).count();
    if is_known || owners < OWNER_EMAILS_MAX {
        return Ok(());
    }
    let words = format!("an organization may have at most {OWNER_EMAILS_MAX} different addresses in `owner_email`");
    Err(Refusal::Conflict(Conflict::LimitReached, words))
}

/// Channels may have come or gone: the next alert meets them as they are now, and what waits for one that is gone is cancelled.
pub(super) fn announce_change(line: &Line, organization: OrganizationId) {
    line.catalog.forget_organization(organization);
    line.wake_up.organization_changed(organization);
}
