//! How both stores spell health data in columns: permissions, sports, and what a provider sent.

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use everhook_core::{
    ids::{EventId, HealthConnectionId, HealthMetricId, OrganizationId},
    model::health::{DedupeHash, MetricDraft, Permissions, ProfileId, Vo2maxSport},
    ports::{MetricWrite, StoreError},
};

use super::payload::{self, Packed, Seals};

/// Permissions as a JSON array.
pub(crate) fn permissions_json(permissions: &Permissions) -> String {
    serde_json::Value::from(permissions.iter().collect::<Vec<_>>()).to_string()
}

/// Reads them; `None` if that is not what was written.
pub(crate) fn read_permissions(json: &str) -> Option<Permissions> {
    let names: Vec<String> = serde_json::from_str(json).ok()?;
    Some(Permissions::of(names.iter().map(String::as_str)))
}

/// The name of a sport.
pub(crate) const fn sport_name(sport: Vo2maxSport) -> &'static str {
    match sport {
        Vo2maxSport::Running => "running",
        Vo2maxSport::Cycling => "cycling",
    }
}

/// Reads the name of a sport.
pub(crate) fn read_sport(name: &str) -> Option<Vo2maxSport> {
    [Vo2maxSport::Running, Vo2maxSport::Cycling].into_iter().find(|sport| sport_name(*sport) == name)
}

/// A metric of one profile, ready to be written. Made on the caller's task: a writer's time is everybody's.
pub(crate) struct PreparedMetric {
    /// Through which connection.
    pub(crate) connection: HealthConnectionId,
    /// Whose it is.
    pub(crate) profile: ProfileId,
    /// What was measured.
    pub(crate) draft: MetricDraft,
    /// What finds it without a record id.
    pub(crate) hash: DedupeHash,
    /// What the provider sent, sealed, and how it is kept.
    pub(crate) raw: Option<(i64, Vec<u8>)>,
    /// The id of the row, if it is new.
    pub(crate) new_id: HealthMetricId,
}

/// Prepares every draft for every profile. What a provider sent is compressed once, and sealed once for each profile, however many drafts have it.
///
/// # Errors
/// [`StoreError::Unavailable`] if there is no key to seal with.
pub(crate) fn prepare(write: &MetricWrite, seals: &Seals) -> Result<Vec<PreparedMetric>, StoreError> {
    let mut new_ids = write.new_ids.iter();
    let mut prepared = Vec::with_capacity(write.connections.len() * write.drafts.len());
    let mut packed: Vec<Packed<'_>> = Vec::new();
    let mut place_of = |raw| {
        let known = packed.iter().position(|packed| packed.plain() == raw);
        known.unwrap_or_else(|| {
            packed.push(Packed::of(raw));
            packed.len() - 1
        })
    };
    let places: Vec<Option<usize>> = write.drafts.iter().map(|draft| draft.raw.as_deref()).map(|raw| raw.map(&mut place_of)).collect();
    for (connection, profile) in &write.connections {
        let owner = raw_owner(write.organization, profile);
        let sealed: Vec<_> = packed.iter().map(|packed| packed.seal(owner, seals)).collect::<Result<_, _>>()?;
        for (draft, place) in write.drafts.iter().zip(&places) {
            prepared.push(PreparedMetric {
                connection: *connection,
                profile: profile.clone(),
                hash: draft.dedupe_hash(profile, write.provider),
                raw: place.map(|place| sealed[place].clone()),
                draft: draft.clone(),
                new_id: *new_ids.next().ok_or_else(|| StoreError::corrupt("there are fewer ids than metrics"))?,
            });
        }
    }
    Ok(prepared)
}

/// Reads what a provider sent; `None` if it was damaged, or sealed with another key or for another profile.
pub(crate) fn open_raw(encoding: i64, raw: Vec<u8>, of: (OrganizationId, &ProfileId), seals: &Seals) -> Option<Bytes> {
    payload::read(encoding, raw, raw_owner(of.0, of.1), seals)
}

/// What is kept of a profile opens for this profile alone.
pub(crate) fn raw_owner(organization: OrganizationId, profile: &ProfileId) -> EventId {
    let mut context = Context::new(&SHA256);
    context.update(organization.as_uuid().as_bytes());
    context.update(b"health profile");
    context.update(profile.as_str().as_bytes());
    let digest = context.finish();
    let (bytes, _) = digest.as_ref().split_first_chunk().expect("SHA-256 has 32 bytes");
    EventId::from_uuid(uuid::Builder::from_custom_bytes(*bytes).into_uuid())
}

/// Whether two drafts say the same, bit by bit.
pub(crate) fn is_same(one: &MetricDraft, other: &MetricDraft) -> bool {
    let bits = |draft: &MetricDraft| draft.value.map(f64::to_bits);
    bits(one) == bits(other) && MetricDraft { value: None, ..one.clone() } == MetricDraft { value: None, ..other.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_and_sports_are_read_as_they_are_written() {
        let permissions = Permissions::of(["HEALTH_EXPORT", "NEW \"one\""]);
        assert_eq!(read_permissions(&permissions_json(&permissions)), Some(permissions));
        assert_eq!(read_permissions("{}"), None);
        assert_eq!(read_sport(sport_name(Vo2maxSport::Cycling)), Some(Vo2maxSport::Cycling));
        assert_eq!(read_sport("swimming"), None);
    }
}
