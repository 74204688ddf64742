//! Strava: thin events that say which activity changed, and the activity once it is fetched.
//!
//! Members are read leniently: `updates` may be absent, ids and flags may be text.

mod activity;

pub use activity::activity;

use super::{
    ActivityChange, Effect, KeptRaw, Mapped, Unmappable, Why,
    item::{Item, Names},
    value,
};
use crate::model::health::RecordId;

const OBJECT_TYPE: Names = &["object_type"];
const ASPECT_TYPE: Names = &["aspect_type"];
const OBJECT_ID: Names = &["object_id"];
const UPDATES: Names = &["updates"];
const AUTHORIZED: Names = &["authorized"];
/// The longest id of an activity, in digits: 64 bits.
const ID_DIGITS_MAX: usize = 20;

/// What one event means. Its own words count, not the type that it was received as: that may have been set by hand.
pub(super) fn map(bytes: &[u8]) -> Result<Mapped, Unmappable> {
    let mut item = Item::read(bytes)?;
    let (object, aspect) = (item.text(OBJECT_TYPE), item.text(ASPECT_TYPE));
    let effect = match (object.as_deref(), aspect.as_deref()) {
        (Some("activity" | "activities"), Some(aspect)) => match change(aspect) {
            Some(change) => activity_id(&mut item).map(|id| Effect::Activity { id, change }),
            None => Some(Effect::KeptRaw(KeptRaw::UnknownType)),
        },
        (Some("athlete"), Some(_)) if is_deauthorization(&item) => Some(Effect::Deauthorized),
        (Some("athlete"), Some(_)) => Some(Effect::KeptRaw(KeptRaw::AthleteChange)),
        (Some(_), Some(_)) => Some(Effect::KeptRaw(KeptRaw::UnknownType)),
        (_, _) => None,
    };
    let missing = item.into_missing();
    match effect {
        Some(effect) => Ok(Mapped { effect, missing }),
        None => Err(Unmappable::NothingUsable { missing }),
    }
}

fn change(aspect: &str) -> Option<ActivityChange> {
    match aspect {
        "create" | "update" => Some(ActivityChange::Fetch),
        "delete" => Some(ActivityChange::Delete),
        _ => None,
    }
}

/// The id becomes a part of the URL that is requested: digits and nothing else.
fn activity_id(item: &mut Item<'_>) -> Option<RecordId> {
    let id = item.id(OBJECT_ID)?;
    if is_activity_id(id.as_str()) {
        return Some(id);
    }
    item.lacks(OBJECT_ID[0], Why::Unreadable);
    None
}

/// Whether a text can be the id of an activity.
pub fn is_activity_id(text: &str) -> bool {
    (1..=ID_DIGITS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_deauthorization(item: &Item<'_>) -> bool {
    item.object(UPDATES).and_then(|updates| updates.raw(AUTHORIZED)).is_some_and(value::is_false)
}
