//! Ids, instants and lengths of time, as columns hold them.

use std::{error::Error, time::Duration};

use bytes::BytesMut;
use everhook_core::{
    ids::{
        AlertRuleId, AlertStatusId, ApiKeyId, ApplicationId, ApprovalId, AuditEntryId, ChannelId, DeliveryId, EndpointId, EventId,
        EventTypeId, HealthConnectionId, HealthMetricId, LaneId, OperationId, OrganizationId, ScheduleId, SourceId, Uid,
    },
    model::{AfterExpiry, EventType, OrderingKey, Priority, Stage},
    time::Timestamp,
};
use tokio_postgres::{
    Row,
    types::{FromSql, IsNull, ToSql, Type, to_sql_checked},
};
use uuid::Uuid;

use super::fault::{Fault, Outcome};
use crate::encoding::spelling::{StageRead, read_priority, read_stage};
pub(super) use crate::encoding::{duration, micros};

/// Values for a statement's parameters.
pub(super) type Params<'p> = &'p [&'p (dyn ToSql + Sync)];

/// An id as a column of type `uuid`.
pub(super) trait Key: Sized {
    /// Its value, to be bound.
    fn key(&self) -> Uuid;
    /// The id of this value.
    fn from_key(key: Uuid) -> Self;
}

impl Key for Uuid {
    fn key(&self) -> Uuid {
        *self
    }

    fn from_key(key: Uuid) -> Self {
        key
    }
}

macro_rules! keys {
    ($($id:ident),+) => {$(
        impl Key for $id {
            fn key(&self) -> Uuid {
                *self.as_uuid()
            }

            fn from_key(key: Uuid) -> Self {
                Self::from_uuid(key)
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

/// A number that fits a column of any integer type, so that the width of a column is known to the schema alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Int(pub(super) i64);

impl<'r> FromSql<'r> for Int {
    fn from_sql(of: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(match *of {
            Type::INT2 => i16::from_sql(of, raw)?.into(),
            Type::INT4 => i32::from_sql(of, raw)?.into(),
            _ => i64::from_sql(of, raw)?,
        }))
    }

    fn accepts(of: &Type) -> bool {
        [Type::INT2, Type::INT4, Type::INT8].contains(of)
    }
}

impl ToSql for Int {
    fn to_sql(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match *of {
            Type::INT2 => i16::try_from(self.0)?.to_sql(of, out),
            Type::INT4 => i32::try_from(self.0)?.to_sql(of, out),
            _ => self.0.to_sql(of, out),
        }
    }

    fn accepts(of: &Type) -> bool {
        [Type::INT2, Type::INT4, Type::INT8].contains(of)
    }

    to_sql_checked!();
}

/// Reads columns by name, as the model's types.
pub(super) trait Columns {
    /// A value of one of the library's types.
    fn value<'r, T: FromSql<'r>>(&'r self, column: &str) -> Outcome<T>;
    /// A number, whatever the width of its column.
    fn number<T: TryFrom<i64>>(&self, column: &str) -> Outcome<T>;
    /// A number that may be absent.
    fn number_opt<T: TryFrom<i64>>(&self, column: &str) -> Outcome<Option<T>>;
    /// An id.
    fn id<T: Key>(&self, column: &str) -> Outcome<T>;
    /// An id that may be absent.
    fn id_opt<T: Key>(&self, column: &str) -> Outcome<Option<T>>;
    /// An instant.
    fn instant(&self, column: &str) -> Outcome<Timestamp>;
    /// An instant that may be absent.
    fn instant_opt(&self, column: &str) -> Outcome<Option<Timestamp>>;
    /// A length of time that may be absent.
    fn duration_opt(&self, column: &str) -> Outcome<Option<Duration>>;
    /// A value that has a spelling of its own. One that cannot be read means that the row was changed by somebody else.
    fn spelled<'r, S: FromSql<'r>, T>(&'r self, column: &str, read: impl Fn(S) -> Option<T>) -> Outcome<T>;
    /// The same, where it may be absent.
    fn spelled_opt<'r, S: FromSql<'r>, T>(&'r self, column: &str, read: impl Fn(S) -> Option<T>) -> Outcome<Option<T>>;
    /// An event type.
    fn event_type(&self, column: &str) -> Outcome<EventType>;
    /// An ordering key that may be absent.
    fn ordering_key(&self, column: &str) -> Outcome<Option<OrderingKey>>;
    /// A priority.
    fn priority(&self, column: &str) -> Outcome<Priority>;
    /// A user's name for a row.
    fn uid_opt(&self, column: &str) -> Outcome<Option<Uid>>;
    /// A delivery's stage, from all columns that say something about it.
    fn stage(&self) -> Outcome<Stage>;
    /// What became of a parking whose time is over.
    fn expired(&self) -> Outcome<Option<AfterExpiry>>;
}

impl Columns for Row {
    fn value<'r, T: FromSql<'r>>(&'r self, column: &str) -> Outcome<T> {
        Ok(self.try_get(column)?)
    }

    fn number<T: TryFrom<i64>>(&self, column: &str) -> Outcome<T> {
        T::try_from(self.value::<Int>(column)?.0).map_err(|_| unreadable(column))
    }

    fn number_opt<T: TryFrom<i64>>(&self, column: &str) -> Outcome<Option<T>> {
        self.value::<Option<Int>>(column)?.map(|number| T::try_from(number.0).map_err(|_| unreadable(column))).transpose()
    }

    fn id<T: Key>(&self, column: &str) -> Outcome<T> {
        Ok(T::from_key(self.value(column)?))
    }

    fn id_opt<T: Key>(&self, column: &str) -> Outcome<Option<T>> {
        Ok(self.value::<Option<Uuid>>(column)?.map(T::from_key))
    }

    fn instant(&self, column: &str) -> Outcome<Timestamp> {
        Ok(Timestamp::from_micros(self.value(column)?))
    }

    fn instant_opt(&self, column: &str) -> Outcome<Option<Timestamp>> {
        Ok(self.value::<Option<i64>>(column)?.map(Timestamp::from_micros))
    }

    fn duration_opt(&self, column: &str) -> Outcome<Option<Duration>> {
        Ok(self.value::<Option<i64>>(column)?.map(duration))
    }

    fn spelled<'r, S: FromSql<'r>, T>(&'r self, column: &str, read: impl Fn(S) -> Option<T>) -> Outcome<T> {
        read(self.value(column)?).ok_or_else(|| unreadable(column))
    }

    fn spelled_opt<'r, S: FromSql<'r>, T>(&'r self, column: &str, read: impl Fn(S) -> Option<T>) -> Outcome<Option<T>> {
        match self.value::<Option<S>>(column)? {
            None => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| unreadable(column)),
        }
    }

    fn event_type(&self, column: &str) -> Outcome<EventType> {
        self.spelled(column, |name: &str| EventType::parse(name))
    }

    fn ordering_key(&self, column: &str) -> Outcome<Option<OrderingKey>> {
        self.spelled_opt(column, |key: &str| OrderingKey::parse(key))
    }

    fn priority(&self, column: &str) -> Outcome<Priority> {
        self.spelled(column, |number: Int| read_priority(number.0))
    }

    fn uid_opt(&self, column: &str) -> Outcome<Option<Uid>> {
        self.spelled_opt(column, |uid: &str| Uid::parse(uid))
    }

    fn stage(&self) -> Outcome<Stage> {
        let read = StageRead {
            stage: self.number("stage")?,
            due_at: self.instant_opt("due_at")?,
            ended_at: self.instant_opt("ended_at")?,
            cause: self.value("cause")?,
            waits_for: self.value("waits_for")?,
            expires_at: self.instant_opt("expires_at")?,
            expires_into: self.value("expires_into")?,
        };
        read_stage(&read).ok_or_else(|| unreadable("stage"))
    }

    fn expired(&self) -> Outcome<Option<AfterExpiry>> {
        // One whose time alone was waited for is attempted as any other.
        let then = self.spelled_opt("expires_into", AfterExpiry::parse)?;
        Ok(then.filter(|then| *then != AfterExpiry::TriesAgain))
    }
}

/// The fault of a value that is spelled in no known way.
pub(super) fn unreadable(column: &str) -> Fault {
    Fault::Impossible(format!("the column `{column}` contains an invalid value"))
}
