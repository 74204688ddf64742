//! Strava: activities, whether an athlete is still there, and new tokens.

use bytes::Bytes;
use url::form_urlencoded;

use super::{Asked, HealthProviders, NoAnswer, OnBehalfOf, answer, settings::below};
use crate::{
    health::{is_activity_id, tokens},
    ids::OrganizationId,
    model::{
        FailureCategory,
        health::{RecordId, Tokens},
    },
};

/// Why there are no new tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRefreshed {
    /// The refresh token does not hold any more: the athlete has to connect again.
    #[error("Strava does not accept the refresh token: the athlete has to connect again")]
    Refused,
    /// There is nothing to refresh with.
    #[error("the connection has no refresh token")]
    NoRefreshToken,
    /// This installation is not registered, or not correctly: the athlete's tokens may be good.
    #[error("set `strava_client_id` and `strava_client_secret`: without them Strava gives no new tokens")]
    NoClient,
    /// Strava does not know this installation by its id and secret.
    #[error("Strava does not accept `strava_client_id` and `strava_client_secret`")]
    ClientRefused,
    /// It may work later.
    #[error(transparent)]
    Unanswered(#[from] NoAnswer),
}

impl HealthProviders {
    /// Fetches an activity as `health::map_activity` reads it. [`NoAnswer::NotFound`] means that the activity was deleted, or made private since.
    pub async fn strava_activity(&self, of: OnBehalfOf<'_>, id: &RecordId) -> Asked<Bytes> {
        if !is_activity_id(id.as_str()) {
            return Asked::nothing(NoAnswer::NotFound);
        }
        let url = below(&self.settings.strava.api, &format!("/activities/{id}"));
        Asked::of(self.get(of.organization, url, Some(of.token)).await, self.clock.now()).body()
    }

    /// Asks whether a token still holds, to confirm a deauthorization: [`NoAnswer::Unauthorized`] does, a success contradicts it.
    pub async fn strava_athlete(&self, of: OnBehalfOf<'_>) -> Asked<Bytes> {
        let url = below(&self.settings.strava.api, "/athlete");
        Asked::of(self.get(of.organization, url, Some(of.token)).await, self.clock.now()).body()
    }

    /// Gets new tokens. Strava may end the old ones at once: keep the new ones before they are used, and let nobody else refresh meanwhile.
    ///
    /// # Errors
    /// [`NotRefreshed`]: the old tokens are still what there is.
    pub async fn strava_refresh(&self, organization: OrganizationId, old: &Tokens) -> Result<Tokens, NotRefreshed> {
        let client = self.settings.strava.client.as_ref().ok_or(NotRefreshed::NoClient)?;
        let refresh = old.refresh.as_ref().ok_or(NotRefreshed::NoRefreshToken)?;
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("client_id", &client.id)
            .append_pair("client_secret", client.secret.expose())
            .append_pair("grant_type", "refresh_token")
            .append_pair("refresh_token", refresh.expose())
            .finish();
        let url = below(&self.settings.strava.api, "/oauth/token");
        let now = self.clock.now();
        let response = Asked::of(self.post_form(organization, url, form).await, now).outcome?;
        match response.status {
            200..=299 => tokens::read(&response.body_sample, old, now).ok_or_else(|| {
                let error = "Strava's answer to a refresh has no tokens".to_owned();
                answer::unavailable(FailureCategory::ServerError, error).into()
            }),
            400 | 401 if tokens::is_about_client(&response.body_sample) => Err(NotRefreshed::ClientRefused),
            400 | 401 => Err(NotRefreshed::Refused),
            status => Err(answer::by_status(status).into()),
        }
    }
}
