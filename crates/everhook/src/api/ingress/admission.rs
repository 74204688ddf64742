//! Who may send to a source, and how much: asked before anything is read, and once more when it is known whom a request is about.

use std::{collections::BTreeSet, net::IpAddr, num::NonZeroU32, time::Duration};

use axum::extract::Request;
use everhook_core::{
    inbound::Item,
    model::{PauseMode, Source},
    sources::OpenSource,
    time::Timestamp,
};

use super::{
    super::{
        Api,
        error::{ApiError, ProblemKind},
    },
    NotTaken,
};
use crate::server::RequestContext;

/// Refuses a request by where it comes from and how many came before it. Says where that is.
pub(super) fn admit(api: &Api, source: &Source, request: &Request, now: Timestamp) -> Result<IpAddr, NotTaken> {
    let Some(context) = request.extensions().get::<RequestContext>() else {
        return Err(NotTaken::new("internal_error", ApiError::internal()));
    };
    context.set_organization(source.organization);
    let address = context.client_address(request.headers());
    if !source.admits(address) {
        let words = format!("the source does not accept requests from {address}: it is not in its `ip_allowlist`");
        return Err(NotTaken::new("address_not_allowed", ApiError::new(ProblemKind::AddressNotAllowed, words)));
    }
    if let Some(per_minute) = NonZeroU32::new(source.rate_limit.per_ip_per_minute) {
        let taken = api.line.inbound_rates.take_address(source.id, address, per_minute, now);
        taken.map_err(|until| too_many("too_many_from_address", "from one address", per_minute, until.since(now)))?;
    }
    match source.paused {
        Some(pause) if pause.mode == PauseMode::Refuse && is_event(request) => {
            Err(NotTaken::new("paused", ApiError::new(ProblemKind::SourcePaused, "the source is paused: try again later")))
        }
        _ => Ok(address),
    }
}

/// Handshakes by other methods are answered also while a source is paused: without them its provider would take it for dead.
fn is_event(request: &Request) -> bool {
    request.method() == http::Method::POST
}

/// Refuses a request that proves nothing and has more items than its sender may send, or that is about users who have had too many.
pub(super) fn admit_items(api: &Api, open: &OpenSource, from: IpAddr, items: &[Item], now: Timestamp) -> Result<(), NotTaken> {
    let source = &open.source;
    if let Some(per_minute) = NonZeroU32::new(source.rate_limit.per_ip_per_minute).filter(|_| !open.verifier.proves_sender()) {
        let taken = api.line.inbound_rates.take_unproven_items(source.id, from, items.len(), per_minute, now);
        taken.map_err(|until| too_many("too_many_from_address", "from one address", per_minute, until.since(now)))?;
    }
    let Some(per_minute) = source.rate_limit.per_user_per_minute.and_then(NonZeroU32::new) else { return Ok(()) };
    let users: BTreeSet<&str> = items.iter().filter_map(|item| item.external_user.as_deref()).collect();
    for user in users {
        let taken = api.line.inbound_rates.take_user(source.id, user, per_minute, now);
        taken.map_err(|until| too_many("too_many_about_user", "about one user", per_minute, until.since(now)))?;
    }
    Ok(())
}

fn too_many(reason: &str, whose: &str, per_minute: NonZeroU32, retry_after: Duration) -> NotTaken {
    let words = format!("the source accepts {per_minute} requests per minute {whose}");
    NotTaken::new(reason, ApiError::too_many(ProblemKind::SourceRateLimit, words, retry_after))
}
