//! A node that starts while its database is away. If its spool knows publishers from before, it takes their events and answers everything else
//! with 503, and asks for the database every second; `wiring` then goes on with the start.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use everhook_adapters::{
    postgres::OpenError,
    spool::{SqliteSpool, Takeover},
};
use everhook_core::{
    engine,
    flow::{Line, LineSettings},
    ids::{OrganizationId, Ref, Uid},
    manage::organizations::DEFAULT_UID,
    ports::{Acquaintances as _, Transport},
};

use crate::{
    api::{self, Api, ApiSettings},
    config::Config,
    sealing,
    server::Door,
    store::Store,
};

/// How often the database is asked for.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How many times it is asked in vain before that is said again.
const SAY_EVERY: u32 = 60;

/// Opens the store, however long that takes, and meanwhile takes events through the door.
///
/// # Errors
/// If the store is there and cannot be used, or is not the one that the spool is of; or if it is away, and the spool knows nobody who could publish.
pub async fn open_store(
    config: &Config,
    node: &str,
    spool: Option<&Arc<SqliteSpool>>,
    mut door: Door,
    transport: &Arc<dyn Transport>,
) -> anyhow::Result<(Store, Door)> {
    let mut tries: u32 = 0;
    loop {
        let error = match Store::open(config, node).await {
            Ok(store) => {
                if let Some(spool) = spool {
                    store.bind(spool, if tries == 0 { Takeover::IfEmpty } else { Takeover::Never }).await?;
                }
                return Ok((store, door));
            }
            Err(error) if is_absence(&error) => error,
            Err(error) => return Err(error),
        };
        let Some(spool) = spool else { return Err(error) };
        let Some(organization) = who_is_known(spool) else {
            return Err(error).context("this node's spool knows no publishers yet, so that it takes no events without the database");
        };
        if tries.is_multiple_of(SAY_EVERY) {
            tracing::warn!("{error:#}: events are taken into the spool, and everything else is refused, until the database is back");
        }
        if tries == 0 {
            let api = events_only(config, node, spool, organization, transport)?;
            door = Door::Open(door.open(api::events_only(Arc::new(api))));
        }
        tries = tries.saturating_add(1);
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Whether the server cannot be reached, or refuses for now; anything else waiting does not heal.
fn is_absence(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(OpenError::Database(_)))
}

/// The default organization, if the spool knows it and anybody's key.
fn who_is_known(spool: &SqliteSpool) -> Option<OrganizationId> {
    let uid = Uid::parse(DEFAULT_UID).expect("`default` is a well-formed uid");
    spool.organization(&Ref::Uid(uid)).filter(|_| !spool.api_keys().is_empty())
}

/// An API over a store that is away: of use for publishing alone. No engine runs behind it.
fn events_only(
    config: &Config,
    node: &str,
    spool: &Arc<SqliteSpool>,
    default_organization: OrganizationId,
    transport: &Arc<dyn Transport>,
) -> anyhow::Result<Api> {
    let vault = Arc::new(sealing::given_vault(config)?);
    let ports = Store::absent_ports(config, spool.clone(), transport.clone(), vault)?;
    let settings = LineSettings {
        node: node.to_owned(),
        idempotency_window: config.idempotency_window,
        profile: config.profile,
        retention: config.retention,
    };
    let (wake_up, _) = engine::hints();
    let line = Arc::new(Line::new(ports, wake_up, settings));
    Ok(Api::new(line, api_settings(config, default_organization)))
}

/// What the API of this configuration is made of.
pub fn api_settings(config: &Config, default_organization: OrganizationId) -> ApiSettings {
    ApiSettings {
        targets: config.targets.clone(),
        default_organization,
        payload_bytes_max: config.payload_bytes_max,
        batch_bytes_max: config.batch_bytes_max,
    }
}
