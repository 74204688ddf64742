//! Asks Garmin for one piece of a backfill. Called by `jobs::backfills`; the data comes as pushes, which are processed like all others.

use super::{
    Processors,
    provider_access::{Answer, Question, Unanswered},
};
use crate::{
    ids::{HealthConnectionId, OrganizationId},
    model::health::{BackfillChunk, ChunkOutcome, Connection, Provider},
    ports::{HealthUser, StoreError},
    time::Timestamp,
};

/// What came of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChunkAsked {
    /// It is settled.
    Settled(ChunkOutcome),
    /// Nothing was asked, or it was refused for now: the provider's limit is used up until then, for everybody.
    NotBefore(Timestamp),
    /// It may work later.
    Failed(String),
}

impl Processors {
    /// Asks for one piece through a connection as it is now, with the tokens that it has now.
    ///
    /// # Errors
    /// [`StoreError`]: nothing is known about the piece.
    pub(crate) async fn ask_backfill(
        &self,
        organization: OrganizationId,
        connection: HealthConnectionId,
        chunk: BackfillChunk,
    ) -> Result<ChunkAsked, StoreError> {
        let found = self.connections.connection(organization, connection).await?;
        let Some(connection) = found.filter(is_usable) else { return Ok(ChunkAsked::Settled(ChunkOutcome::NotConnected)) };
        let user = HealthUser { organization, provider: connection.provider, external_user: connection.external_user.clone() };
        match self.access.ask(&user, &[connection], Question::Backfill(chunk)).await {
            Ok(Answer::Backfill(outcome)) => Ok(ChunkAsked::Settled(outcome)),
            Ok(_) => Ok(ChunkAsked::Failed("the provider answered something else".to_owned())),
            Err(Unanswered::NoToken) => Ok(ChunkAsked::Settled(ChunkOutcome::NotConnected)),
            Err(Unanswered::Limited { until }) => Ok(ChunkAsked::NotBefore(until)),
            Err(Unanswered::Store(error)) => Err(error),
            Err(other) => Ok(ChunkAsked::Failed(other.to_string())),
        }
    }
}

/// Whether data of the past can be asked for through a connection.
fn is_usable(connection: &Connection) -> bool {
    connection.provider == Provider::Garmin && connection.is_connected && connection.tokens.is_some()
}
