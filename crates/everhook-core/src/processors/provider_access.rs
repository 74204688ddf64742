//! Asks a provider about a user: takes a place in the provider's rate, and replaces a token that has ended. Called by the health processor.
//!
//! One refresh at a time for each user, on all nodes: whoever has the right in the store refreshes, stores the new tokens, and only then uses them.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::{provider_shares::ProviderShares, tokens};
use crate::{
    health::{
        GarminType, callback,
        limits::{self, Admission, RateNotice},
        tokens::{is_other_token, is_refresh_due},
    },
    ids::OrganizationId,
    model::health::{BackfillChunk, ChunkOutcome, Connection, KeptRate, Permissions, Provider, RecordId, Tokens},
    ports::{Clock, EndedRefresh, Entropy, HealthConnections, HealthUser, Ports, RefreshOutcome, StoreError, Vault},
    providers::{Asked, HealthProviders, NoAnswer, NotRefreshed, OnBehalfOf, ProviderSettings},
    time::Timestamp,
};

/// How long the right to refresh is good for: a request and a write, with time to spare. Whoever dies with it delays the others by as much.
const REFRESH_RIGHT_FOR: Duration = Duration::from_secs(45);
/// How often those who wait for somebody else's refresh look again, and how many times: about as long as a refresh takes.
const REFRESH_LOOK_EVERY: Duration = Duration::from_millis(500);
const REFRESH_LOOKS_MAX: u32 = 20;

/// How often a place is asked for again because another node took one at the same moment, and how long one waits who had no luck.
const RATE_ROUNDS_MAX: u32 = 20;
const RATE_CONTENDED_FOR: Duration = Duration::from_secs(1);

/// For how long nobody asks with a token that the provider refused, and how many such tokens are remembered.
const REFUSED_FOR: Duration = limits::QUARTER;
const REFUSED_MAX: usize = 10_000;

/// What a provider is asked for.
#[derive(Clone, Debug)]
pub(super) enum Question<'a> {
    /// A Strava activity.
    Activity(&'a RecordId),
    /// Whether Strava still knows the athlete.
    Athlete,
    /// What a Garmin user allows.
    Permissions,
    /// The data of a ping.
    Ping {
        /// What kind of data.
        data: GarminType,
        /// Where the ping says that it is.
        callback_url: &'a str,
    },
    /// That Garmin pushes data of the past. Events come first.
    Backfill(BackfillChunk),
}

/// What it answered.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// JSON.
    Body(Bytes),
    /// Permissions.
    Permissions(Permissions),
    /// What becomes of a piece of a backfill.
    Backfill(ChunkOutcome),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    /// No connection of the user has a token.
    #[error("no token is stored for this user")]
    NoToken,
    /// The provider's limit is used up; no request was made, or it was refused.
    #[error("the provider's limit on requests is used up")]
    Limited {
        /// When there is room again.
        until: Timestamp,
    },
    /// Somebody else refreshes the token and has not ended.
    #[error("the user's token is being refreshed")]
    BeingRefreshed,
    /// The token has ended and there is no new one.
    #[error(transparent)]
    NotRefreshed(#[from] NotRefreshed),
    /// The provider did not give it.
    #[error(transparent)]
    Provider(#[from] NoAnswer),
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

/// What came of the right to refresh.
enum Refreshed {
    /// New tokens.
    Now(Tokens),
    /// Somebody had refreshed them before.
    Before(Tokens),
    /// None.
    Not(Unanswered),
}

/// Access to providers on behalf of users.
pub(super) struct ProviderAccess {
    providers: HealthProviders,
    connections: Arc<dyn HealthConnections>,
    vault: Arc<dyn Vault>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    /// What organizations have of the providers' limits.
    shares: Mutex<ProviderShares>,
    /// Tokens that a provider has just refused: their SHA-256, and until when nobody asks with them.
    refused: Mutex<FxHashMap<[u8; 32], Timestamp>>,
}

impl ProviderAccess {
    pub(super) fn new(ports: &Ports, settings: ProviderSettings) -> Self {
        Self {
            providers: HealthProviders::new(settings, ports.transport.clone(), ports.clock.clone()),
            connections: ports.health_connections.clone(),
            vault: ports.vault.clone(),
            clock: ports.clock.clone(),
            entropy: ports.entropy.clone(),
            shares: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// Whether what Garmin pushes about users is confirmed before it takes effect.
    pub(super) fn confirms_garmin(&self) -> bool {
        self.providers.settings().garmin.confirm
    }

    /// The longest piece that a backfill asks for at once.
    pub(super) fn backfill_chunk(&self) -> Duration {
        self.providers.settings().garmin.backfill_chunk
    }

    /// Asks once; a second time if the token had ended and could be replaced.
    ///
    /// # Errors
    /// [`Unanswered`] says what to do about it.
    pub(super) async fn ask(&self, user: &HealthUser, connected: &[Connection], question: Question<'_>) -> Result<Answer, Unanswered> {
        let Some(tokens) = self.stored(user, connected)? else {
            return match question {
                // The address has a token of its own.
                Question::Ping { .. } => self.ask_with(user, None, &question).await,
                _ => Err(Unanswered::NoToken),
            };
        };
        let can_refresh = user.provider == Provider::Strava && tokens.refresh.is_some();
        if can_refresh && is_refresh_due(&tokens, self.clock.now()) {
            // Once is enough: a refresh must end well within the time that an event has, or the new tokens would be lost.
            let fresh = self.refresh(user, &tokens).await?;
            return self.ask_with(user, Some(&fresh), &question).await;
        }
        match self.ask_with(user, Some(&tokens), &question).await {
            Err(Unanswered::Provider(NoAnswer::Unauthorized)) if can_refresh => {
                let fresh = self.refresh(user, &tokens).await?;
                self.ask_with(user, Some(&fresh), &question).await
            }
            answered => answered,
        }
    }

    async fn ask_with(&self, user: &HealthUser, tokens: Option<&Tokens>, question: &Question<'_>) -> Result<Answer, Unanswered> {
        if let Question::Ping { data, callback_url } = question {
            // Before a place is taken: anybody can send pings that lead nowhere.
            callback::check(&self.providers.settings().garmin.api, *data, callback_url).map_err(NoAnswer::from)?;
        }
        if tokens.is_some_and(|tokens| self.is_refused(tokens)) {
            return Err(NoAnswer::Unauthorized.into());
        }
        let organization = user.organization;
        self.take_place((user.provider, organization), question).await?;
        let of = tokens.map(|tokens| OnBehalfOf { organization, token: &tokens.access });
        let Asked { outcome, notice } = match (question, of) {
            (Question::Ping { data, callback_url }, _) => {
                let token = tokens.map(|tokens| &tokens.access);
                body(self.providers.garmin_ping(organization, token, *data, callback_url).await)
            }
            (Question::Activity(id), Some(of)) => body(self.providers.strava_activity(of, id).await),
            (Question::Athlete, Some(of)) => body(self.providers.strava_athlete(of).await),
            (Question::Permissions, Some(of)) => {
                let Asked { outcome, notice } = self.providers.garmin_permissions(of).await;
                Asked { outcome: outcome.map(Answer::Permissions), notice }
            }
            (Question::Backfill(chunk), Some(of)) => {
                let Asked { outcome, notice } = self.providers.garmin_backfill(of, *chunk).await;
                Asked { outcome: outcome.map(Answer::Backfill), notice }
            }
            (Question::Activity(_) | Question::Athlete | Question::Permissions | Question::Backfill(_), None) => {
                return Err(Unanswered::NoToken);
            }
        };
        self.put_in(user.provider, notice).await;
        match outcome {
            Err(NoAnswer::Limited { .. }) => Err(Unanswered::Limited { until: self.room_at((user.provider, organization)).await? }),
            Err(NoAnswer::Unauthorized) => {
                tokens.iter().for_each(|tokens| self.note_refused(tokens));
                Err(NoAnswer::Unauthorized.into())
            }
            outcome => Ok(outcome?),
        }
    }

    /// The tokens of the user's oldest connection that has some.
    fn stored(&self, user: &HealthUser, connections: &[Connection]) -> Result<Option<Tokens>, StoreError> {
        let sealed = connections.iter().filter(|connection| connection.is_connected).find_map(|connection| connection.tokens.as_ref());
        sealed.map(|sealed| tokens::open(&*self.vault, user, sealed)).transpose()
    }

    async fn refresh(&self, user: &HealthUser, old: &Tokens) -> Result<Tokens, Unanswered> {
        for _ in 0..REFRESH_LOOKS_MAX {
            let now = self.clock.now();
            let by = self.entropy.uuid(now);
            if let Some(connections) = self.connections.begin_refresh(user.clone(), by, now, now + REFRESH_RIGHT_FOR).await? {
                return self.refresh_alone(user, old, by, &connections).await;
            }
            self.clock.sleep_for(REFRESH_LOOK_EVERY).await;
        }
        Err(Unanswered::BeingRefreshed)
    }

    /// With the right to it: unless somebody has done it since the old tokens were read.
    async fn refresh_alone(
        &self,
        user: &HealthUser,
        old: &Tokens,
        by: uuid::Uuid,
        connections: &[Connection],
    ) -> Result<Tokens, Unanswered> {
        let refreshed = self.refreshed(user, old, connections).await;
        let outcome = self.outcome_of(user, &refreshed, connections);
        let kept = self.connections.end_refresh(EndedRefresh { user: user.clone(), by, outcome, at: self.clock.now() }).await;
        match refreshed {
            Refreshed::Now(fresh) if kept? => Ok(fresh),
            // Somebody connected the user anew meanwhile, or the user withdrew: what is stored by now is read by the next attempt.
            Refreshed::Now(_) => Err(Unanswered::BeingRefreshed),
            Refreshed::Before(stored) => Ok(stored),
            Refreshed::Not(why) => Err(why),
        }
    }

    /// What is kept of a refresh.
    fn outcome_of(&self, user: &HealthUser, refreshed: &Refreshed, connections: &[Connection]) -> RefreshOutcome {
        let with_tokens = || connections.iter().filter(|connection| connection.is_connected && connection.tokens.is_some());
        match refreshed {
            Refreshed::Now(fresh) => {
                let new = tokens::seal(&*self.vault, user, fresh);
                RefreshOutcome::Renewed(with_tokens().map(|connection| (connection.id, new.clone())).collect())
            }
            Refreshed::Not(Unanswered::NotRefreshed(NotRefreshed::Refused)) => {
                with_tokens().filter(|connection| connection.reauthorization_needed_since.is_none()).for_each(warn_of_refusal);
                RefreshOutcome::Refused
            }
            Refreshed::Before(_) | Refreshed::Not(_) => RefreshOutcome::NotRenewed,
        }
    }

    async fn refreshed(&self, user: &HealthUser, old: &Tokens, connections: &[Connection]) -> Refreshed {
        let stored = match self.stored(user, connections) {
            Ok(Some(stored)) if is_other_token(old, &stored) => return Refreshed::Before(stored),
            Ok(Some(stored)) => stored,
            Ok(None) => return Refreshed::Not(Unanswered::NoToken),
            Err(error) => return Refreshed::Not(error.into()),
        };
        match self.providers.strava_refresh(user.organization, &stored).await {
            Ok(fresh) => Refreshed::Now(fresh),
            Err(why) => Refreshed::Not(why.into()),
        }
    }

    /// Takes a place in the provider's rate, which all nodes share.
    async fn take_place(&self, of: (Provider, OrganizationId), question: &Question<'_>) -> Result<(), Unanswered> {
        let (provider, _) = of;
        for _ in 0..RATE_ROUNDS_MAX {
            let (now, dice) = (self.clock.now(), self.dice());
            let KeptRate { rate, revision } = self.rate(provider, now).await?;
            let may_take = self.shares().may_take(of, &rate, now);
            if let Err(from) = may_take {
                return Err(Unanswered::Limited { until: self.shares().line_up(of, from, &rate, now) });
            }
            let admit = if matches!(question, Question::Backfill(_)) { limits::admit_background } else { limits::admit };
            match admit(rate, now, dice) {
                Admission::Granted(rate) => {
                    if self.connections.keep_provider_rate(provider, KeptRate { rate, revision }).await? {
                        self.shares().took(of, now);
                        return Ok(());
                    }
                }
                Admission::NotBefore(until) => {
                    return Err(Unanswered::Limited { until: self.shares().line_up(of, until, &rate, now) });
                }
            }
        }
        // So many others took a place meanwhile that there is hardly one left.
        Err(Unanswered::Limited { until: self.clock.now() + RATE_CONTENDED_FOR })
    }

    /// Puts in what an answer said about limits. If that cannot be kept, the answer counts all the same.
    async fn put_in(&self, provider: Provider, notice: RateNotice) {
        if notice == RateNotice::default() {
            return;
        }
        if let Err(error) = self.learn(provider, notice).await {
            tracing::debug!(error = &error as &dyn std::error::Error, "cannot keep what a provider said about its limits");
        }
    }

    async fn learn(&self, provider: Provider, notice: RateNotice) -> Result<(), StoreError> {
        for _ in 0..RATE_ROUNDS_MAX {
            let now = self.clock.now();
            let KeptRate { rate, revision } = self.rate(provider, now).await?;
            let learnt = limits::learn(rate, notice, now);
            if learnt == rate || self.connections.keep_provider_rate(provider, KeptRate { rate: learnt, revision }).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// When there is room again after a refusal.
    async fn room_at(&self, of: (Provider, OrganizationId)) -> Result<Timestamp, StoreError> {
        let (now, dice) = (self.clock.now(), self.dice());
        let rate = self.rate(of.0, now).await?.rate;
        Ok(match limits::admit(rate, now, dice) {
            Admission::Granted(_) => now,
            Admission::NotBefore(until) => self.shares().line_up(of, until, &rate, now),
        })
    }

    async fn rate(&self, provider: Provider, now: Timestamp) -> Result<KeptRate, StoreError> {
        let unseen = || KeptRate { rate: limits::unseen(provider, now), revision: 0 };
        Ok(self.connections.provider_rate(provider).await?.unwrap_or_else(unseen))
    }

    fn shares(&self) -> MutexGuard<'_, ProviderShares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the provider has just refused a token: asking again would take a place from others for the same answer.
    fn is_refused(&self, tokens: &Tokens) -> bool {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get(&fingerprint(tokens)).is_some_and(|until| *until > self.clock.now())
    }

    fn note_refused(&self, tokens: &Tokens) {
        let now = self.clock.now();
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() >= REFUSED_MAX {
            refused.retain(|_, until| *until > now);
        }
        // Beyond the bound a token is asked with once more than it need be.
        if refused.len() < REFUSED_MAX {
            refused.insert(fingerprint(tokens), now + REFUSED_FOR);
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number from 0 to 1 times a million")]
    fn dice(&self) -> u64 {
        (self.entropy.unit() * 1e6) as u64
    }
}

fn fingerprint(tokens: &Tokens) -> [u8; 32] {
    digest(&SHA256, tokens.access.expose().as_bytes()).as_ref().try_into().expect("a SHA-256 has 32 bytes")
}

fn warn_of_refusal(connection: &Connection) {
    tracing::warn!(
        connection.id = %connection.id,
        provider = connection.provider.as_str(),
        "the provider does not accept the refresh token of a connection: the user has to connect again. Either the user withdrew, or a refresh was cut off \
         after the provider had replaced the token",
    );
}

fn body(asked: Asked<Bytes>) -> Asked<Answer> {
    Asked { outcome: asked.outcome.map(Answer::Body), notice: asked.notice }
}
