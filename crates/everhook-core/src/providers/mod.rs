//! What is asked of health providers: activities, tokens, permissions, data of pings, backfills.
//!
//! Requests are made here and answers read; they travel through the port that webhooks travel through, so that every address is vetted by the one guard
//! ([`Transport`]). Nothing here decides what an answer means for a user, keeps a token, or asks twice: the processor and the job of backfills do. Before each
//! request they take a place with `health::limits`, and afterwards they put in what [`Asked::notice`] says.

mod answer;
mod garmin;
mod settings;
mod strava;

use std::sync::Arc;

use bytes::Bytes;
use url::Url;

pub use self::{
    answer::{Asked, NoAnswer},
    settings::{GarminSettings, ProviderSettings, StravaClient, StravaSettings},
    strava::NotRefreshed,
};
use crate::{
    ids::OrganizationId,
    model::{Report, Secret, Target},
    ports::{Clock, OutgoingHeader, OutgoingMethod, OutgoingRequest, Transport},
};

/// What requests are made by.
const USER_AGENT: &str = concat!("Everhook/", env!("CARGO_PKG_VERSION"));

/// Asks providers.
pub struct HealthProviders {
    settings: ProviderSettings,
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
}

/// Whom a request is made for.
#[derive(Clone, Copy, Debug)]
pub struct OnBehalfOf<'a> {
    /// The tenant. Connections are not shared between tenants.
    pub organization: OrganizationId,
    /// The user's access token.
    pub token: &'a Secret<String>,
}

impl HealthProviders {
    /// Asks the providers that the settings name.
    pub fn new(settings: ProviderSettings, transport: Arc<dyn Transport>, clock: Arc<dyn Clock>) -> Self {
        Self { settings, transport, clock }
    }

    /// The settings.
    pub fn settings(&self) -> &ProviderSettings {
        &self.settings
    }

    async fn get(&self, organization: OrganizationId, url: Url, token: Option<&Secret<String>>) -> Report {
        let bearer = token.map(|token| ("authorization", format!("Bearer {}", token.expose())));
        self.send(organization, OutgoingMethod::Fetch, url, bearer.into_iter(), Bytes::new()).await
    }

    async fn post_form(&self, organization: OrganizationId, url: Url, form: String) -> Report {
        let form_type = ("content-type", "application/x-www-form-urlencoded".to_owned());
        self.send(organization, OutgoingMethod::Post, url, std::iter::once(form_type), Bytes::from(form)).await
    }

    async fn send(
        &self,
        organization: OrganizationId,
        method: OutgoingMethod,
        url: Url,
        more: impl Iterator<Item = (&'static str, String)>,
        body: Bytes,
    ) -> Report {
        let ours = [("accept", "application/json".to_owned()), ("user-agent", USER_AGENT.to_owned())];
        let headers = ours.into_iter().chain(more).map(|(name, value)| (OutgoingHeader::Borrowed(name), Bytes::from(value))).collect();
        let timeout = self.settings.request_timeout;
        let target = Arc::new(Target { written: url.to_string(), url });
        self.transport.send(OutgoingRequest { organization, method, target, headers, body, timeout }).await
    }
}
