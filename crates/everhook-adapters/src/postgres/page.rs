//! Reading lists a page at a time: two statements a list, one in each direction, from one text; both bounded by ids on either side.

use everhook_core::{model::PageRequest, ports::TimeRange};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{fault::Outcome, reader::Reader, rows::Params};
use crate::encoding::page::{self, is_backward};
pub(super) use crate::encoding::page::{SearchEnd, bounds, list, rows_before_search_end, rows_wanted};

/// The two statements of a list.
#[derive(Clone, Copy)]
pub(super) struct List {
    /// Newest first.
    pub(super) older: &'static str,
    /// Oldest first.
    pub(super) newer: &'static str,
}

impl List {
    /// Reads one page's rows in the direction of its cursor, as [`everhook_core::model::Page::from_read`] wants them.
    pub(super) async fn read<T>(
        self,
        reader: &Reader,
        page: PageRequest,
        parameters: Params<'_>,
        of_row: impl Fn(&Row) -> Outcome<T>,
    ) -> Outcome<Vec<T>> {
        let sql = if is_backward(page) { self.newer } else { self.older };
        reader.query(sql, parameters).await?.iter().map(of_row).collect()
    }
}

/// The open interval of ids that a page lies in, to be bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Between {
    pub(super) after: Uuid,
    pub(super) before: Uuid,
}

impl From<page::Between> for Between {
    fn from(between: page::Between) -> Self {
        Self { after: Uuid::from_bytes(between.after), before: Uuid::from_bytes(between.before) }
    }
}

impl Between {
    /// What the cursor leaves.
    pub(super) fn of(page: PageRequest) -> Self {
        page::Between::of(page).into()
    }

    /// What the cursor leaves up to where a search ends.
    pub(super) fn of_search(page: PageRequest, end: Option<SearchEnd>) -> Self {
        page::Between::of(page).ending_before(page, end).into()
    }

    /// What the cursor leaves of the ids that rows made in a span of time can have.
    pub(super) fn of_span(page: PageRequest, range: TimeRange) -> Self {
        page::Between::of(page).within(range).into()
    }
}
