//! Lists a page at a time: which page a request wants, how it is read, and how it is written. Used by every route that lists.
//!
//! Stores know cursors only. An offset is walked here, page by page, so that no store needs a second way to read a list.

use std::borrow::Cow;

use everhook_core::{
    manage::Fault,
    model::{Cursor, Page, PageRequest},
    ports::StoreError,
};
use serde::{Deserialize, Serialize};
use utoipa::{
    IntoParams, PartialSchema, ToSchema,
    openapi::{ArrayBuilder, KnownFormat, ObjectBuilder, Ref, RefOr, Schema, SchemaFormat, Type, schema::SchemaType},
};
use uuid::Uuid;

use super::{error::ApiError, wire::read};

/// How many rows a page has by default, and at most.
const LIMIT_DEFAULT: u32 = 50;
const LIMIT_MAX: u32 = 250;

/// How many bytes of large rows a page has before it ends early, and how many of them are read at once: each may have a hundred kilobytes, and many pages
/// may be asked for at once.
const LARGE_PAGE_BYTES: usize = 2 * 1024 * 1024;
const LARGE_ROWS_STEP: u32 = 25;

/// How far an offset may reach. The rows before it are read and dropped, so that it bounds the work of a request; cursors continue from there.
const OFFSET_MAX: u32 = 10_000;

/// One page of a list, newest first.
#[derive(Serialize)]
pub struct List<T> {
    /// The rows.
    pub data: Vec<T>,
    /// The cursor of older rows.
    pub next_cursor: Option<String>,
    /// The cursor of newer rows.
    pub prev_cursor: Option<String>,
    /// How many rows there are, at most 1,000; only where `count=true` asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Whether there are more than `count`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count_is_capped: Option<bool>,
    /// When the oldest row that the search examined was created; only where rows are searched for one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub searched_until: Option<String>,
    /// Whether the search examined everything; if not, `next_cursor` continues it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_complete: Option<bool>,
}

/// How many rows are counted: reading as many takes some milliseconds.
const COUNT_MAX: u32 = 1_000;

/// Reads whether rows are to be counted.
pub fn read_count(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "must be `true` or `false`".to_owned())
}

impl<T> List<T> {
    /// The same page with the number of all rows, counted up to a bound.
    ///
    /// # Errors
    /// [`StoreError`] if the list could not be read.
    pub async fn counted<R, F>(self, list: impl FnOnce(PageRequest) -> F) -> Result<Self, StoreError>
    where
        F: Future<Output = Result<Page<R>, StoreError>>,
    {
        let all = list(PageRequest { limit: COUNT_MAX, cursor: Cursor::Newest }).await?;
        Ok(Self { count: Some(all.rows.len()), count_is_capped: Some(all.next.is_some()), ..self })
    }
}

/// Named after its rows, which it refers to by name, so that generated clients have one type for a row wherever it comes from.
impl<T: ToSchema> ToSchema for List<T> {
    fn name() -> Cow<'static, str> {
        Cow::Owned(format!("{}List", T::name().trim_end_matches("Out")))
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
}

impl<T: ToSchema> PartialSchema for List<T> {
    fn schema() -> RefOr<Schema> {
        let cursor = |words: &str| {
            let nullable = SchemaType::from_iter([Type::String, Type::Null]);
            ObjectBuilder::new().schema_type(nullable).description(Some(words))
        };
        let rows = ArrayBuilder::new().items(Ref::from_schema_name(T::name())).description(Some("The rows."));
        let list = ObjectBuilder::new().description(Some("One page of a list, newest first."));
        let list = list.property("data", rows).required("data");
        let list =
            list.property("next_cursor", cursor("Send it as `cursor` to get older rows; null if there are none.")).required("next_cursor");
        let list =
            list.property("prev_cursor", cursor("Send it as `cursor` to get newer rows; null if there are none.")).required("prev_cursor");
        if SEARCHED.contains(&&*T::name()) { with_search_fields(list).into() } else { list.into() }
    }
}

/// The rows that can be counted and searched for, as the document calls them.
const SEARCHED: [&str; 2] = ["EventOut", "DeliveryOut"];

/// The fields that only some requests get.
fn with_search_fields(list: ObjectBuilder) -> ObjectBuilder {
    let field = |kind: Type, words: &str| ObjectBuilder::new().schema_type(kind).description(Some(words));
    let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
    let searched_until =
        field(Type::String, "The time up to which a search has looked; only in the response to a search.").format(Some(format));
    list.property("count", field(Type::Integer, "The number of rows, at most 1,000; only with `count=true`."))
        .property("count_is_capped", field(Type::Boolean, "Whether there are more rows than `count`."))
        .property("searched_until", searched_until)
        .property("search_complete", field(Type::Boolean, "Whether the search is complete; if not, `next_cursor` continues it."))
}

impl<T> From<Page<T>> for List<T> {
    fn from(page: Page<T>) -> Self {
        Self {
            data: page.rows,
            next_cursor: page.next.map(write_cursor),
            prev_cursor: page.prev.map(write_cursor),
            count: None,
            count_is_capped: None,
            searched_until: None,
            search_complete: None,
        }
    }
}

/// Which page to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// The number of rows: 1 to 250, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
    /// The position of the page: a `next_cursor` or `prev_cursor`.
    cursor: Option<String>,
    /// The number of rows to skip: 0 to 10,000. Cannot be combined with `cursor`, which is faster.
    #[param(value_type = Option<u32>, maximum = 10_000)]
    offset: Option<String>,
}

impl PageQuery {
    /// Reads all parameters.
    pub fn read(&self) -> Result<RequestedPage, ApiError> {
        let mut faults = Vec::new();
        let requested = RequestedPage::read(self.limit.as_deref(), self.cursor.as_deref(), self.offset.as_deref(), &mut faults);
        if faults.is_empty() { Ok(requested) } else { Err(ApiError::bad_query(faults)) }
    }
}

/// The page that a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedPage {
    request: PageRequest,
    /// How many rows to skip from the cursor of the request.
    offset: u32,
}

impl RequestedPage {
    /// Reads `limit`, `cursor` and `offset`; what is wrong with them is added to the faults.
    pub fn read(limit: Option<&str>, cursor: Option<&str>, offset: Option<&str>, faults: &mut Vec<Fault>) -> Self {
        let limit = read(limit, "limit", faults, |text| match text.parse() {
            Ok(limit) if (1..=LIMIT_MAX).contains(&limit) => Ok(limit),
            _ => Err(format!("must be 1 to {LIMIT_MAX}")),
        });
        let offset = read(offset, "offset", faults, |text| match text.parse() {
            Ok(_) if cursor.is_some() => Err("cannot be combined with `cursor`".to_owned()),
            Ok(offset) if offset <= OFFSET_MAX => Ok(offset),
            _ => Err(format!("must be 0 to {OFFSET_MAX}")),
        });
        let cursor =
            read(cursor, "cursor", faults, |text| read_cursor(text).ok_or_else(|| "is not a cursor that a list returned".to_owned()));
        let request = PageRequest { limit: limit.unwrap_or(LIMIT_DEFAULT), cursor: cursor.unwrap_or_default() };
        Self { request, offset: offset.unwrap_or_default() }
    }

    /// The page itself, where nothing is to be skipped.
    pub fn without_offset(self) -> Option<PageRequest> {
        Some(self.request).filter(|_| self.offset == 0)
    }

    /// What a search, which examines rows from the newest to the oldest within a limit of work, cannot do.
    pub fn faults_of_search(self, is_counted: bool) -> Vec<Fault> {
        let mut faults = Vec::new();
        if is_counted {
            faults.push(Fault::new("count", "cannot be given with a search, which stops before it has examined all rows"));
        }
        if self.offset > 0 {
            faults.push(Fault::new("offset", "cannot be given with a search: continue with `next_cursor`"));
        }
        if matches!(self.request.cursor, Cursor::NewerThan(_)) {
            faults.push(Fault::new("cursor", "of a search must be a `next_cursor`: it continues to older rows only"));
        }
        faults
    }

    /// Reads the page from a list. What lies before the offset is read too, and dropped.
    ///
    /// # Errors
    /// [`StoreError`] if the list could not be read.
    pub async fn fetch<T, F>(self, mut list: impl FnMut(PageRequest) -> F) -> Result<Page<T>, StoreError>
    where
        F: Future<Output = Result<Page<T>, StoreError>>,
    {
        let limit = self.request.limit;
        match self.skip(LIMIT_MAX, &mut list).await? {
            Some(cursor) => list(PageRequest { limit, cursor }).await,
            None => Ok(Page { rows: Vec::new(), next: None, prev: None }),
        }
    }

    /// As [`RequestedPage::fetch`], for rows that may be large: they are read a few at a time, and the page ends early when it has as many bytes as an answer
    /// should. Its cursors continue from there.
    ///
    /// # Errors
    /// [`StoreError`] if the list could not be read.
    pub async fn fetch_large<T, F>(self, mut list: impl FnMut(PageRequest) -> F, size: impl Fn(&T) -> usize) -> Result<Page<T>, StoreError>
    where
        F: Future<Output = Result<Page<T>, StoreError>>,
    {
        let mut page = Page { rows: Vec::new(), next: None, prev: None };
        let Some(mut cursor) = self.skip(LARGE_ROWS_STEP, &mut list).await? else { return Ok(page) };
        let goes_back = matches!(cursor, Cursor::NewerThan(_));
        let (mut left, mut bytes, mut is_first) = (self.request.limit, 0, true);
        while left > 0 && bytes < LARGE_PAGE_BYTES {
            let step = left.min(LARGE_ROWS_STEP);
            let mut read = list(PageRequest { limit: step, cursor }).await?;
            let is_short = read.rows.len() < usize::try_from(step).unwrap_or(usize::MAX);
            left -= step;
            bytes += read.rows.iter().map(&size).sum::<usize>();
            let on = if goes_back { read.prev } else { read.next };
            // The page keeps its beginning; where it continues is known by the last read.
            if is_first || !goes_back {
                page.next = read.next;
            }
            if is_first || goes_back {
                page.prev = read.prev;
            }
            is_first = false;
            if goes_back {
                read.rows.append(&mut page.rows);
                page.rows = read.rows;
            } else {
                page.rows.append(&mut read.rows);
            }
            // A short page that continues has searched as much as one request may.
            let Some(on) = on.filter(|_| !is_short) else { break };
            cursor = on;
        }
        Ok(page)
    }

    /// Where the rows behind the offset begin, read in steps; `None` if the list has no more.
    async fn skip<T, F>(self, step_max: u32, list: &mut impl FnMut(PageRequest) -> F) -> Result<Option<Cursor>, StoreError>
    where
        F: Future<Output = Result<Page<T>, StoreError>>,
    {
        let mut cursor = self.request.cursor;
        let mut left = self.offset;
        while left > 0 {
            let step = left.min(step_max);
            // A page after which the list continues is full, so that the whole step was skipped.
            match list(PageRequest { limit: step, cursor }).await?.next {
                Some(next) => cursor = next,
                None => return Ok(None),
            }
            left -= step;
        }
        Ok(Some(cursor))
    }
}

fn write_cursor(cursor: Cursor) -> String {
    match cursor {
        Cursor::Newest => String::new(),
        Cursor::OlderThan(id) => format!("o{}", id.simple()),
        Cursor::NewerThan(id) => format!("n{}", id.simple()),
    }
}

fn read_cursor(text: &str) -> Option<Cursor> {
    let id = |rest: &str| Uuid::try_parse(rest).ok();
    match text.split_at_checked(1)? {
        ("o", rest) => id(rest).map(Cursor::OlderThan),
        ("n", rest) => id(rest).map(Cursor::NewerThan),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURSOR: &str = "o01920000000070008000000000000001";

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let id = Uuid::from_u128(0x0192_0000_0000_7000_8000_0000_0000_0001);
        for cursor in [Cursor::OlderThan(id), Cursor::NewerThan(id)] {
            assert_eq!(read_cursor(&write_cursor(cursor)), Some(cursor));
        }
        for bad in ["", "o", "x0192", "é", "o-1"] {
            assert_eq!(read_cursor(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_limit_is_1_to_250() {
        for (text, limit) in
            [(None, Some(50)), (Some("1"), Some(1)), (Some("250"), Some(250)), (Some("0"), None), (Some("251"), None), (Some("ten"), None)]
        {
            let mut faults = Vec::new();
            let requested = RequestedPage::read(text, None, None, &mut faults);
            assert_eq!(faults.is_empty().then_some(requested.request.limit), limit, "{text:?}");
        }
    }

    #[test]
    fn an_offset_is_0_to_10000_and_never_beside_a_cursor() {
        let table = [
            (None, None, Some(0)),
            (Some(CURSOR), None, Some(0)),
            (None, Some("0"), Some(0)),
            (None, Some("10000"), Some(10_000)),
            (None, Some("10001"), None),
            (None, Some("-1"), None),
            (None, Some("ten"), None),
            (Some(CURSOR), Some("0"), None),
            (Some(CURSOR), Some("1"), None),
        ];
        for (cursor, offset, expected) in table {
            let mut faults = Vec::new();
            let requested = RequestedPage::read(None, cursor, offset, &mut faults);
            assert_eq!(faults.is_empty().then_some(requested.offset), expected, "{cursor:?} {offset:?}");
            assert!(faults.iter().all(|fault| fault.field == "offset"));
        }
    }

    #[tokio::test]
    async fn an_offset_skips_as_many_rows_and_cursors_go_on_from_there() {
        // (offset, the newest row of the page, how often the list was read), over the rows 599 to 0.
        let table = [
            (0, Some(599), 1),
            (1, Some(598), 2),
            (250, Some(349), 2),
            (251, Some(348), 3),
            (599, Some(0), 4),
            (600, None, 3),
            (10_000, None, 3),
        ];
        for (offset, newest, reads_expected) in table {
            let mut reads = 0;
            let requested = RequestedPage { request: PageRequest { limit: 2, cursor: Cursor::Newest }, offset };
            let list = |page: PageRequest| {
                reads += 1;
                std::future::ready(Ok(six_hundred_rows(page)))
            };
            let page = requested.fetch(list).await.unwrap();
            assert_eq!((page.rows.first().copied(), reads), (newest, reads_expected), "{offset}");
            let oldest = page.rows.last().copied();
            let next = oldest.filter(|row| *row > 0).map(|row| Cursor::OlderThan(Uuid::from_u128(row)));
            assert_eq!(page.next, next, "{offset}");
        }
    }

    #[tokio::test]
    async fn a_page_of_large_rows_ends_early_and_goes_on_both_ways() {
        let id = Uuid::from_u128;
        // (bytes of a row, cursor, offset) → (newest row, oldest row) of a page of 250 over the rows 599 to 0.
        let large = LARGE_PAGE_BYTES / 60;
        let table = [
            (1, Cursor::Newest, 0, (599, 350)),
            (large, Cursor::Newest, 0, (599, 525)),
            (large, Cursor::Newest, 30, (569, 495)),
            (large, Cursor::OlderThan(id(100)), 0, (99, 25)),
            (large, Cursor::OlderThan(id(10)), 0, (9, 0)),
            (large, Cursor::NewerThan(id(100)), 0, (175, 101)),
            (1, Cursor::NewerThan(id(100)), 0, (350, 101)),
            (large, Cursor::NewerThan(id(590)), 0, (599, 591)),
        ];
        for (bytes, cursor, offset, (newest, oldest)) in table {
            let requested = RequestedPage { request: PageRequest { limit: 250, cursor }, offset };
            let page = requested.fetch_large(|page| std::future::ready(Ok(six_hundred_rows(page))), |_| bytes).await.unwrap();
            let expected: Vec<u128> = (oldest..=newest).rev().collect();
            assert_eq!(page.rows, expected, "{cursor:?} {offset}");
            assert_eq!(page.next, (oldest > 0).then(|| Cursor::OlderThan(id(oldest))), "{cursor:?} {offset}");
            let begins = cursor == Cursor::Newest && offset == 0;
            assert_eq!(page.prev, (!begins && newest < 599).then(|| Cursor::NewerThan(id(newest))), "{cursor:?} {offset}");
        }
    }

    fn six_hundred_rows(page: PageRequest) -> Page<u128> {
        let (begin, end) = match page.cursor {
            Cursor::OlderThan(id) => (0, id.as_u128()),
            Cursor::NewerThan(id) => {
                let rows = (id.as_u128() + 1..600).take(page.limit as usize + 1).collect();
                return Page::from_read(rows, page, |row| Uuid::from_u128(*row));
            }
            Cursor::Newest => (0, 600),
        };
        let rows = (begin..end).rev().take(page.limit as usize + 1).collect();
        Page::from_read(rows, page, |row| Uuid::from_u128(*row))
    }
}
