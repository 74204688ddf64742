//! A value as both stores hold it, whatever a column's type is called there.
//!
//! Ids are bytes, truths are numbers, instants are numbers: what a type of PostgreSQL makes of a value is decided by the column that it goes to, and
//! undone when it is read back. So the same row is the same values on both sides, and has the same hash.

use std::error::Error;

use bytes::{BufMut as _, BytesMut};
use rusqlite::types::{ToSqlOutput, ValueRef};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use uuid::Uuid;

/// What one column of one row holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

type Failure = Box<dyn Error + Sync + Send>;

impl Value {
    /// Reads a column of the embedded store.
    pub(super) fn of_sqlite(value: ValueRef<'_>) -> Result<Self, Failure> {
        Ok(match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Int(number),
            ValueRef::Real(number) => Self::Real(number),
            ValueRef::Text(text) => Self::Text(std::str::from_utf8(text)?.to_owned()),
            ValueRef::Blob(bytes) => Self::Bytes(bytes.to_vec()),
        })
    }

    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let own = size_of::<Self>();
        match self {
            Self::Text(text) => own + text.len(),
            Self::Bytes(bytes) => own + bytes.len(),
            Self::Null | Self::Int(_) | Self::Real(_) => own,
        }
    }

    /// Appends what makes it this value and no other: its kind, and its contents with their length.
    pub(super) fn spell(&self, out: &mut Vec<u8>) {
        let mut long = |kind: u8, contents: &[u8]| {
            out.push(kind);
            out.extend_from_slice(&(contents.len() as u64).to_le_bytes());
            out.extend_from_slice(contents);
        };
        match self {
            Self::Null => long(0, &[]),
            Self::Int(number) => long(1, &number.to_le_bytes()),
            Self::Real(number) => long(2, &number.to_bits().to_le_bytes()),
            Self::Text(text) => long(3, text.as_bytes()),
            Self::Bytes(bytes) => long(4, bytes),
        }
    }

    /// Reads values that were spelled one after another; `None` if they were not.
    pub(super) fn read_all(mut spelled: &[u8]) -> Option<Vec<Self>> {
        let mut values = Vec::new();
        while let Some((kind, rest)) = spelled.split_first() {
            let (length, rest) = rest.split_first_chunk::<8>()?;
            let (contents, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
            values.push(Self::read(*kind, contents)?);
            spelled = rest;
        }
        Some(values)
    }

    fn read(kind: u8, contents: &[u8]) -> Option<Self> {
        Some(match kind {
            0 => Self::Null,
            1 => Self::Int(i64::from_le_bytes(contents.try_into().ok()?)),
            2 => Self::Real(f64::from_bits(u64::from_le_bytes(contents.try_into().ok()?))),
            3 => Self::Text(str::from_utf8(contents).ok()?.to_owned()),
            4 => Self::Bytes(contents.to_vec()),
            _ => return None,
        })
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl ToSql for Value {
    fn to_sql(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        match (self, of) {
            (Self::Null, _) => return Ok(IsNull::Yes),
            (Self::Int(number), &Type::INT2) => out.put_i16((*number).try_into()?),
            (Self::Int(number), &Type::INT4) => out.put_i32((*number).try_into()?),
            (Self::Int(number), &Type::INT8) => out.put_i64(*number),
            (Self::Int(number @ (0 | 1)), &Type::BOOL) => out.put_u8(u8::try_from(*number)?),
            (Self::Real(number), &Type::FLOAT8) => out.put_f64(*number),
            (Self::Text(text), &Type::TEXT) => out.put_slice(text.as_bytes()),
            (Self::Bytes(bytes), &Type::BYTEA) => out.put_slice(bytes),
            (Self::Bytes(bytes), &Type::UUID) if bytes.len() == 16 => out.put_slice(bytes),
            _ => return Err(format!("a column of type {of} cannot hold the value that the folder has there").into()),
        }
        Ok(IsNull::No)
    }

    fn accepts(of: &Type) -> bool {
        is_known(of)
    }

    to_sql_checked!();
}

impl<'r> FromSql<'r> for Value {
    fn from_sql(of: &Type, raw: &'r [u8]) -> Result<Self, Failure> {
        Ok(match *of {
            Type::INT2 => Self::Int(i16::from_sql(of, raw)?.into()),
            Type::INT4 => Self::Int(i32::from_sql(of, raw)?.into()),
            Type::INT8 => Self::Int(i64::from_sql(of, raw)?),
            Type::BOOL => Self::Int(bool::from_sql(of, raw)?.into()),
            Type::FLOAT8 => Self::Real(f64::from_sql(of, raw)?),
            Type::TEXT => Self::Text(String::from_sql(of, raw)?),
            Type::UUID => Self::Bytes(Uuid::from_sql(of, raw)?.into_bytes().to_vec()),
            _ => Self::Bytes(raw.to_vec()),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Failure> {
        Ok(Self::Null)
    }

    fn accepts(of: &Type) -> bool {
        is_known(of)
    }
}

fn is_known(of: &Type) -> bool {
    [Type::INT2, Type::INT4, Type::INT8, Type::BOOL, Type::FLOAT8, Type::TEXT, Type::BYTEA, Type::UUID].contains(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_were_spelled_are_read_back_and_no_two_are_spelled_alike() {
        let values = vec![
            Value::Null,
            Value::Int(-1),
            Value::Int(0),
            Value::Real(0.0),
            Value::Text(String::new()),
            Value::Text("é\u{1F980}".to_owned()),
            Value::Bytes(vec![]),
            Value::Bytes("é".into()),
        ];
        let mut spelled = Vec::new();
        values.iter().for_each(|value| value.spell(&mut spelled));
        assert_eq!(Value::read_all(&spelled), Some(values.clone()));
        assert_eq!(Value::read_all(&spelled[..spelled.len() - 1]), None);
        let alone = |value: &Value| {
            let mut out = Vec::new();
            value.spell(&mut out);
            out
        };
        for (place, value) in values.iter().enumerate() {
            assert!(values[..place].iter().all(|other| alone(other) != alone(value)), "{value:?}");
        }
    }
}
