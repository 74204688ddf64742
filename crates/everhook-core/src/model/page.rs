//! Reading long lists a page at a time, newest first.
//!
//! Every list is ordered by id, which is the order of making, so that one kind of cursor serves them all.

use uuid::Uuid;

/// The position of a page in its list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cursor {
    /// From the newest row.
    #[default]
    Newest,
    /// The rows just older than this one.
    OlderThan(Uuid),
    /// The rows just newer than this one.
    NewerThan(Uuid),
}

/// Which page is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// How many rows at most.
    pub limit: u32,
    /// Its position.
    pub cursor: Cursor,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows, newest first.
    pub rows: Vec<T>,
    /// The page of older rows; `None` if there are none.
    pub next: Option<Cursor>,
    /// The page of newer rows; `None` if this one began with the newest.
    pub prev: Option<Cursor>,
}

impl<T> Page<T> {
    /// Makes the page of rows that were read in the cursor's direction, one more than asked if there were as many.
    ///
    /// The extra row only shows that the list continues, and is dropped.
    pub fn from_read(rows: Vec<T>, request: PageRequest, id: impl Fn(&T) -> Uuid) -> Self {
        Self::from_walk(rows, request, id, None)
    }

    /// As [`Page::from_read`], of a filtered list that was not searched to its end: the id of the last row that was compared with the filter.
    ///
    /// The page may then have fewer rows than asked for, or none, and its cursor continues behind that id.
    pub fn from_walk(mut rows: Vec<T>, request: PageRequest, id: impl Fn(&T) -> Uuid, stopped_at: Option<Uuid>) -> Self {
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let (older, newer) = match request.cursor {
            Cursor::Newest => (has_more, false),
            Cursor::OlderThan(_) => (has_more, true),
            Cursor::NewerThan(_) => {
                rows.reverse();
                (true, has_more)
            }
        };
        let mut next = rows.last().filter(|_| older).map(|row| Cursor::OlderThan(id(row)));
        let mut prev = rows.first().filter(|_| newer).map(|row| Cursor::NewerThan(id(row)));
        if let Some(stopped_at) = stopped_at.filter(|_| !has_more) {
            match request.cursor {
                Cursor::Newest | Cursor::OlderThan(_) => next = Some(Cursor::OlderThan(stopped_at)),
                Cursor::NewerThan(_) => prev = Some(Cursor::NewerThan(stopped_at)),
            }
        }
        Self { rows, next, prev }
    }

    /// The same page of other values.
    pub fn map<U>(self, f: impl FnMut(T) -> U) -> Page<U> {
        Page { rows: self.rows.into_iter().map(f).collect(), next: self.next, prev: self.prev }
    }
}
