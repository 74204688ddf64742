//! Ids, instants and lengths of time, as columns hold them.

use std::{cell::Cell, time::Duration};

use everhook_core::{
    ids::{
        AlertRuleId, AlertStatusId, ApiKeyId, ApplicationId, ApprovalId, AuditEntryId, ChannelId, DeliveryId, EndpointId, EventId,
        EventTypeId, HealthConnectionId, HealthMetricId, LaneId, OperationId, OrganizationId, ScheduleId, SourceId, Uid,
    },
    model::{AfterExpiry, ApiKey, ContentType, EventType, OrderingKey, Received, Scopes, Stage},
    time::Timestamp,
};
use rusqlite::{
    Row,
    types::{FromSql, Type},
};
use uuid::Uuid;

use crate::encoding::{
    payload::{self, ReceivedColumns, Seals},
    spelling::{StageRead, read_stage},
};

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

keys!(
    OrganizationId,
    ApplicationId,
    EndpointId,
    ChannelId,
    LaneId,
    EventId,
    DeliveryId,
    ApiKeyId,
    ScheduleId,
    EventTypeId,
    OperationId,
    SourceId,
    AuditEntryId,
    HealthConnectionId,
    HealthMetricId,
    ApprovalId,
    AlertRuleId,
    AlertStatusId
);

/// Reads columns by name, as the model's types.
pub(crate) trait Columns {
    /// A value as it is.
    fn value<T: FromSql>(&self, column: &str) -> rusqlite::Result<T>;

    /// An id.
    fn id<T: Key>(&self, column: &str) -> rusqlite::Result<T> {
        self.value(column).map(T::from_key)
    }

    /// An id that may be absent.
    fn id_opt<T: Key>(&self, column: &str) -> rusqlite::Result<Option<T>> {
        Ok(self.value::<Option<[u8; 16]>>(column)?.map(T::from_key))
    }

    /// An instant.
    fn instant(&self, column: &str) -> rusqlite::Result<Timestamp> {
        self.value(column).map(Timestamp::from_micros)
    }

    /// An instant that may be absent.
    fn instant_opt(&self, column: &str) -> rusqlite::Result<Option<Timestamp>> {
        Ok(self.value::<Option<i64>>(column)?.map(Timestamp::from_micros))
    }

    /// A length of time that may be absent.
    fn duration_opt(&self, column: &str) -> rusqlite::Result<Option<Duration>> {
        Ok(self.value::<Option<i64>>(column)?.map(duration))
    }

    /// A value that has a spelling of its own. One that cannot be read means that the file was changed by somebody else.
    fn spelled<S: FromSql, T>(&self, column: &str, read: impl Fn(S) -> Option<T>) -> rusqlite::Result<T> {
        read(self.value(column)?).ok_or_else(|| unreadable(column))
    }

    /// The same, where it may be absent.
    fn spelled_opt<S: FromSql, T>(&self, column: &str, read: impl Fn(S) -> Option<T>) -> rusqlite::Result<Option<T>> {
        match self.value::<Option<S>>(column)? {
            None => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| unreadable(column)),
        }
    }

    /// An event type.
    fn event_type(&self, column: &str) -> rusqlite::Result<EventType> {
        self.spelled(column, |name: String| EventType::parse(&name))
    }

    /// What an event's data is.
    fn content_type(&self) -> rusqlite::Result<ContentType> {
        Ok(self.spelled_opt("content_type", |text: String| ContentType::parse(&text))?.unwrap_or_default())
    }

    /// How an event came in whose data is kept so, if a provider sent it.
    fn received(&self, event: EventId, encoding: i64, seals: &Seals) -> rusqlite::Result<Option<Box<Received>>> {
        let Some(source) = self.id_opt::<SourceId>("source_id")? else { return Ok(None) };
        let (external_user, duplicate_of) = (self.value("external_user_id")?, self.id_opt("duplicate_of")?);
        let received = Received { source, external_user, duplicate_of, headers: Vec::new() };
        let columns = ReceivedColumns { event, received, headers: self.value("received_headers")? };
        payload::read_received(encoding, columns, seals).map(Some).ok_or_else(|| unreadable("received_headers"))
    }

    /// An ordering key that may be absent.
    fn ordering_key(&self, column: &str) -> rusqlite::Result<Option<OrderingKey>> {
        self.spelled_opt(column, |key: String| OrderingKey::parse(&key))
    }

    /// A user's name for a row.
    fn uid_opt(&self, column: &str) -> rusqlite::Result<Option<Uid>> {
        self.spelled_opt(column, |uid: String| Uid::parse(&uid))
    }

    /// A delivery's stage, from all columns that say something about it.
    fn stage(&self) -> rusqlite::Result<Stage> {
        let read = StageRead {
            stage: self.value("stage")?,
            due_at: self.instant_opt("due_at")?,
            ended_at: self.instant_opt("ended_at")?,
            cause: self.value("cause")?,
            waits_for: self.value("waits_for")?,
            expires_at: self.instant_opt("expires_at")?,
            expires_into: self.value("expires_into")?,
        };
        read_stage(&read).ok_or_else(|| unreadable("stage"))
    }

    /// What became of a parking whose time is over.
    fn expired(&self) -> rusqlite::Result<Option<AfterExpiry>> {
        // One whose time alone was waited for is attempted as any other.
        let then = self.spelled_opt("expires_into", |name: String| AfterExpiry::parse(&name))?;
        Ok(then.filter(|then| *then != AfterExpiry::TriesAgain))
    }
}

impl Columns for Row<'_> {
    fn value<T: FromSql>(&self, column: &str) -> rusqlite::Result<T> {
        self.get(column)
    }
}

/// A row whose columns are read in the order in which the statement has them. Each is found where the one before it ended, by its name all the same:
/// otherwise all names are looked through for each of them.
pub(crate) struct InOrder<'r, 's> {
    row: &'r Row<'s>,
    next: Cell<usize>,
}

impl<'r, 's> InOrder<'r, 's> {
    /// The row, at its first column.
    pub(crate) fn of(row: &'r Row<'s>) -> Self {
        Self { row, next: Cell::new(0) }
    }
}

impl Columns for InOrder<'_, '_> {
    fn value<T: FromSql>(&self, column: &str) -> rusqlite::Result<T> {
        let (statement, next) = (self.row.as_ref(), self.next.get());
        let place = match statement.column_name(next) {
            Ok(name) if name == column => next,
            _ => statement.column_index(column)?,
        };
        self.next.set(place + 1);
        self.row.get(place)
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
