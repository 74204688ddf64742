//! One step of a pass over sealed values, between reading its rows and writing them: the same for both stores.

use everhook_core::{
    model::SealedPlace,
    ports::{Resealed, StoreError},
};
use uuid::Uuid;

use super::{
    payload::Seals,
    resealing::{EndpointValues, PairValues, PayloadValues, Row, SourceValues},
};

/// How many cached answers one step looks at: fewer than of other rows, because each is read whole to see which key it names.
pub(crate) const ANSWERS_A_STEP: u32 = 50;

/// The rows of one step.
pub(crate) enum Rows<E, S, V, P> {
    /// Of endpoints, or of their revisions.
    Endpoints(Vec<E>),
    Sources(Vec<S>),
    /// Of channels, applications' secrets, health connections, jobs, approvals or health metrics.
    Pairs(Vec<V>),
    Payloads(Vec<P>),
    /// Answers that are sealed otherwise. They are removed: nothing depends on them.
    Answers(Vec<AnswerKey>),
}

/// As they were read.
pub(crate) type Found = Rows<EndpointValues, SourceValues, PairValues, PayloadValues>;
/// With what replaces them.
pub(crate) type Ready = Rows<Row<EndpointValues>, Row<SourceValues>, Row<PairValues>, Row<PayloadValues>>;

/// What a cached answer is found by.
pub(crate) struct AnswerKey {
    pub(crate) lane: Uuid,
    pub(crate) hash: Vec<u8>,
}

/// One step of a pass.
pub(crate) struct Step<R> {
    pub(crate) from: SealedPlace,
    /// Behind the last row that it looks at.
    pub(crate) next: Option<SealedPlace>,
    pub(crate) looked_at: usize,
    pub(crate) rows: R,
}

impl Step<Found> {
    /// `last` is the last row that was looked at. If there was none, the next kind follows.
    pub(crate) fn new(from: SealedPlace, last: Option<(Uuid, i64)>, looked_at: usize, rows: Found) -> Self {
        let next = match last {
            Some((id, number)) => Some(SealedPlace { kind: from.kind, id, number }),
            None => from.kind.next().map(SealedPlace::first_of),
        };
        Self { from, next, looked_at, rows }
    }

    /// Seals again what is sealed otherwise.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if there is no key yet.
    pub(crate) fn reseal(self, seals: &Seals) -> Result<Step<Ready>, StoreError> {
        let rows = match self.rows {
            Rows::Endpoints(rows) => Rows::Endpoints(rows.into_iter().map(|row| row.reseal(seals)).collect::<Result<_, _>>()?),
            Rows::Sources(rows) => Rows::Sources(rows.into_iter().map(|row| row.reseal(seals)).collect::<Result<_, _>>()?),
            Rows::Pairs(rows) => Rows::Pairs(rows.into_iter().map(|row| row.reseal(seals)).collect::<Result<_, _>>()?),
            Rows::Payloads(rows) => Rows::Payloads(rows.into_iter().map(|row| row.reseal(seals)).collect::<Result<_, _>>()?),
            Rows::Answers(keys) => Rows::Answers(keys),
        };
        Ok(Step { from: self.from, next: self.next, looked_at: self.looked_at, rows })
    }
}

impl Step<Ready> {
    /// How many rows change, and how many values do not open.
    pub(crate) fn counts(&self) -> (u64, u64) {
        fn of<T>(rows: &[Row<T>]) -> (u64, u64) {
            (changed(rows).count() as u64, rows.iter().map(|row| row.unreadable).sum())
        }
        match &self.rows {
            Rows::Endpoints(rows) => of(rows),
            Rows::Sources(rows) => of(rows),
            Rows::Pairs(rows) => of(rows),
            Rows::Payloads(rows) => of(rows),
            Rows::Answers(keys) => (keys.len() as u64, 0),
        }
    }

    /// How many bytes are written of rows that may be large.
    pub(crate) fn bytes(&self) -> usize {
        match &self.rows {
            Rows::Pairs(rows) => changed(rows).filter_map(|(_, new)| new.first.as_ref()).map(Vec::len).sum(),
            Rows::Payloads(rows) => changed(rows).map(|(_, new)| new.body.len()).sum(),
            Rows::Endpoints(_) | Rows::Sources(_) | Rows::Answers(_) => 0,
        }
    }

    /// What it did, once it is written.
    pub(crate) fn done(&self) -> Resealed {
        Resealed { resealed: self.counts().0, next: self.next }
    }
}

/// The rows that are to be written, each as it was and as it is to be.
pub(crate) fn changed<T>(rows: &[Row<T>]) -> impl Iterator<Item = (&T, &T)> {
    rows.iter().filter_map(|row| Some((&row.old, row.new.as_ref()?)))
}
