//! What Garmin says about a user instead of data. None of it is signed: it says what to ask for.

use crate::{
    health::{
        Effect, Mapped,
        item::{Item, Names},
        texts,
    },
    model::health::Permissions,
};

const PERMISSIONS: Names = &["permissions"];
const CHANGED_AT: Names = &["changeTimeInSeconds"];

pub(super) fn permission_change(mut item: Item<'_>) -> Mapped {
    let permissions = item.raw(PERMISSIONS).and_then(permissions);
    if permissions.is_none() {
        let why = if item.raw(PERMISSIONS).is_some() { crate::health::Why::Unreadable } else { crate::health::Why::Absent };
        item.lacks(PERMISSIONS[0], why);
    }
    let changed_at = item.instant(CHANGED_AT);
    Mapped { effect: Effect::PermissionChange { permissions, changed_at }, missing: item.into_missing() }
}

/// Reads a list of permissions, in a notice and in the provider's own answer.
pub(in crate::health) fn permissions(raw: &str) -> Option<Permissions> {
    let names = texts::read(raw)?;
    Some(Permissions::of(names.iter().map(String::as_str)))
}
