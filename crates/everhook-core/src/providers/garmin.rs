//! Garmin: what a user allows, the data of pings, and data of the past.

use bytes::Bytes;

use super::{Asked, HealthProviders, OnBehalfOf, answer, settings::below};
use crate::{
    health::{
        GarminType, backfill,
        callback::{self, GARMIN_PATH},
        read_permissions,
    },
    ids::OrganizationId,
    model::{
        FailureCategory, Secret,
        health::{BackfillChunk, ChunkOutcome, Permissions},
    },
};

impl HealthProviders {
    /// Asks what a user allows: what counts, whatever a push said. `NoAnswer::Unauthorized` and `Forbidden` confirm a deregistration.
    pub async fn garmin_permissions(&self, of: OnBehalfOf<'_>) -> Asked<Permissions> {
        let url = below(&self.settings.garmin.api, &format!("{GARMIN_PATH}/user/permissions"));
        let asked = Asked::of(self.get(of.organization, url, Some(of.token)).await, self.clock.now()).body();
        asked.and_then(|body| {
            let error = || answer::unavailable(FailureCategory::ServerError, "Garmin's answer has no list of permissions".to_owned());
            read_permissions(&body).ok_or_else(error)
        })
    }

    /// Fetches the data of a ping, as `health::map_fetched` reads it. The address is looked at first: `NoAnswer::Blocked` if it leads anywhere else.
    pub async fn garmin_ping(
        &self,
        organization: OrganizationId,
        token: Option<&Secret<String>>,
        data: GarminType,
        callback_url: &str,
    ) -> Asked<Bytes> {
        match callback::check(&self.settings.garmin.api, data, callback_url) {
            Ok(url) => Asked::of(self.get(organization, url, token).await, self.clock.now()).body(),
            Err(fault) => Asked::nothing(fault.into()),
        }
    }

    /// Asks for data of the past to be pushed.
    pub async fn garmin_backfill(&self, of: OnBehalfOf<'_>, chunk: BackfillChunk) -> Asked<ChunkOutcome> {
        let mut url = below(&self.settings.garmin.api, &format!("{GARMIN_PATH}/backfill/{}", chunk.data.as_str()));
        let (start, end) = (chunk.start.as_secs().to_string(), chunk.end.as_secs().to_string());
        url.query_pairs_mut().append_pair("summaryStartTimeInSeconds", &start).append_pair("summaryEndTimeInSeconds", &end);
        let asked = Asked::of(self.get(of.organization, url, Some(of.token)).await, self.clock.now());
        asked.and_then(|response| backfill::outcome_of(response.status).ok_or_else(|| answer::by_status(response.status)))
    }
}
