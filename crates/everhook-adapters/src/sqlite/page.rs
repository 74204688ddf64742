//! Reading lists a page at a time: two statements a list, one in each direction, from one text; both bounded by ids on either side.

use everhook_core::model::PageRequest;
use rusqlite::{Connection, Params, Row};

use super::fault::Outcome;
pub(super) use crate::encoding::page::{Between, SearchEnd, bounds, is_backward, list, merge, rows_before_search_end, rows_wanted};

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
    pub(super) fn read<T>(
        self,
        connection: &Connection,
        page: PageRequest,
        parameters: impl Params,
        of_row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Outcome<Vec<T>> {
        let sql = if is_backward(page) { self.newer } else { self.older };
        let mut statement = connection.prepare_cached(sql)?;
        Ok(statement.query_map(parameters, of_row)?.collect::<Result<_, _>>()?)
    }
}
