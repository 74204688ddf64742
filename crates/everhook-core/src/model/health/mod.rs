//! Health data: whose it is, how its provider is reached, and what is kept of it.
//!
//! The mapping (`health/` of this crate) makes [`MetricDraft`]s of what providers push; a processor writes them for every profile that a [`Connection`] joins
//! to the provider's user.

mod backfill;
mod connection;
mod identity;
mod metric;
mod permissions;
mod provider;
mod rate;

pub use backfill::{BACKFILL_CHUNK_MIN, BACKFILL_CHUNKS_MAX, BACKFILL_SPAN_MAX, Backfill, BackfillChunk, BackfillType, ChunkOutcome};
pub use connection::{Connection, SealedTokens, TOKEN_BYTES_MAX, Tokens};
pub use identity::{
    EXTERNAL_USER_ID_RULE, ExternalUserId, PROFILE_ID_BYTES_MAX, PROFILE_ID_RULE, ProfileId, RECORD_ID_BYTES_MAX, RecordId,
};
pub use metric::{DedupeHash, Metric, MetricDraft, MetricType, RAW_BYTES_MAX, Unit, Vo2maxSport};
pub use permissions::{PERMISSION_BYTES_MAX, PERMISSIONS_MAX, Permissions};
pub use provider::Provider;
pub use rate::{KeptRate, ProviderRate, RateWindow};
