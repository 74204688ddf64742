//! Ids, instants and lengths of time, as columns hold them.

use std::time::Duration;

use everhook_core::{
    ids::{
        ApiKeyId, ApplicationId, AuditEntryId, DeliveryId, EndpointId, EventId, EventTypeId, LaneId, OperationId, OrganizationId,
        ScheduleId, Uid,
    },
    model::{ApiKey, EventType, Scopes},
    time::Timestamp,
};
use rusqlite::{
    Row,
    types::{FromSql, Type},
};
use uuid::Uuid;

pub(super) use crate::encoding::{duration, micros};

/// An id as a 16-byte column.
pub(crate) trait Key: Sized {
    /// Its bytes, to be bound.
    fn key(&self) -> &[u8; 16];
    /// The id of these bytes.
    fn from_key(key: [u8; 16]) -> Self;
}

impl Key for Uuid {
    fn key(&self) -> &[u8; 16] {
        self.as_bytes()
    }

    fn from_key(key: [u8; 16]) -> Self {
        Self::from_bytes(key)
    }
}

macro_rules! keys {
    ($($id:ident),+) => {$(
        impl Key for $id {
            fn key(&self) -> &[u8; 16] {
                self.as_uuid().as_bytes()
            }

            fn from_key(key: [u8; 16]) -> Self {
                Self::from_uuid(Uuid::from_bytes(key))
            }
        }
    )+};
}

keys!(OrganizationId, ApplicationId, EndpointId, LaneId, EventId, DeliveryId, ApiKeyId, ScheduleId, EventTypeId, OperationId, AuditEntryId);

/// Reads columns by name, as the model's types.
pub(crate) trait Columns {
    /// An id.
    fn id<T: Key>(&self, column: &str) -> rusqlite::Result<T>;
    /// An id that may be absent.
    fn id_opt<T: Key>(&self, column: &str) -> rusqlite::Result<Option<T>>;
    /// An instant.
    fn instant(&self, column: &str) -> rusqlite::Result<Timestamp>;
    /// An instant that may be absent.
    fn instant_opt(&self, column: &str) -> rusqlite::Result<Option<Timestamp>>;
    /// A length of time that may be absent.
    fn duration_opt(&self, column: &str) -> rusqlite::Result<Option<Duration>>;
    /// A value that has a spelling of its own. One that cannot be read means that the file was changed by somebody else.
    fn spelled<S: FromSql, T>(&self, column: &str, read: impl Fn(S) -> Option<T>) -> rusqlite::Result<T>;
    /// The same, where it may be absent.
    fn spelled_opt<S: FromSql, T>(&self, column: &str, read: impl Fn(S) -> Option<T>) -> rusqlite::Result<Option<T>>;
    /// An event type.
    fn event_type(&self, column: &str) -> rusqlite::Result<EventType>;
    /// A user's name for a row.
    fn uid_opt(&self, column: &str) -> rusqlite::Result<Option<Uid>>;
}

impl Columns for Row<'_> {
    fn id<T: Key>(&self, column: &str) -> rusqlite::Result<T> {
        self.get(column).map(T::from_key)
    }

    fn id_opt<T: Key>(&self, column: &str) -> rusqlite::Result<Option<T>> {
        Ok(self.get::<_, Option<[u8; 16]>>(column)?.map(T::from_key))
    }

    fn instant(&self, column: &str) -> rusqlite::Result<Timestamp> {
        self.get(column).map(Timestamp::from_micros)
    }

    fn instant_opt(&self, column: &str) -> rusqlite::Result<Option<Timestamp>> {
        Ok(self.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
    }

    fn duration_opt(&self, column: &str) -> rusqlite::Result<Option<Duration>> {
        Ok(self.get::<_, Option<i64>>(column)?.map(duration))
    }

    fn spelled<S: FromSql, T>(&self, column: &str, read: impl Fn(S) -> Option<T>) -> rusqlite::Result<T> {
        read(self.get(column)?).ok_or_else(|| unreadable(column))
    }

    fn spelled_opt<S: FromSql, T>(&self, column: &str, read: impl Fn(S) -> Option<T>) -> rusqlite::Result<Option<T>> {
        match self.get::<_, Option<S>>(column)? {
            None => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| unreadable(column)),
        }
    }

    fn event_type(&self, column: &str) -> rusqlite::Result<EventType> {
        self.spelled(column, |name: String| EventType::parse(&name))
    }

    fn uid_opt(&self, column: &str) -> rusqlite::Result<Option<Uid>> {
        self.spelled_opt(column, |uid: String| Uid::parse(&uid))
    }
}

/// An API key as rows of keys have it. When it was last used is kept apart.
pub(crate) fn api_key_of_row(row: &Row<'_>) -> rusqlite::Result<ApiKey> {
    Ok(ApiKey {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        application: row.id_opt("application_id")?,
        name: row.get("name")?,
        prefix: row.get("prefix")?,
        scopes: Scopes::from_bits(row.get("scopes")?),
        created_at: row.instant("created_at")?,
        expires_at: row.instant_opt("expires_at")?,
        last_used_at: None,
    })
}

/// The error for a value that is spelled in no known way.
pub(crate) fn unreadable(column: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Null, format!("the column `{column}` contains an invalid value").into())
}
