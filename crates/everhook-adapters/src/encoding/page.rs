//! Which ids and instants a page of a list lies between, and the statements that read it in either direction.

use std::num::NonZeroU32;

use everhook_core::{
    model::{Cursor, PageRequest},
    ports::TimeRange,
    time::Timestamp,
};
use uuid::Uuid;

/// The two statements of a list, `List { older, newer }`, from the file of the one that reads newest first. The other has each `DESC` of it turned.
macro_rules! list {
    ($file:literal) => {{
        const NEWEST_FIRST: &str = include_str!($file);
        const OLDEST_FIRST: &[u8; NEWEST_FIRST.len()] = &$crate::encoding::page::oldest_first(NEWEST_FIRST);
        List { older: NEWEST_FIRST, newer: $crate::encoding::page::text(OLDEST_FIRST) }
    }};
}
pub(crate) use list;

/// A statement that reads newest first, in the other order. Run by the compiler, which stops at a statement that has no order to turn.
pub(crate) const fn oldest_first<const N: usize>(newest_first: &str) -> [u8; N] {
    let from = newest_first.as_bytes();
    let (mut turned, mut at, mut orders) = ([b' '; N], 0, 0);
    while at < N {
        if at + 4 <= N && from[at] == b'D' && from[at + 1] == b'E' && from[at + 2] == b'S' && from[at + 3] == b'C' {
            (turned[at], turned[at + 1], turned[at + 2]) = (b'A', b'S', b'C');
            (at, orders) = (at + 4, orders + 1);
        } else {
            turned[at] = from[at];
            at += 1;
        }
    }
    assert!(orders > 0, "a list is read newest first: ORDER BY … DESC");
    turned
}

/// The text that a statement's bytes are.
pub(crate) const fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("turning an order keeps a text a text"),
    }
}

/// The open interval of ids that a page lies in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Between {
    pub(crate) after: [u8; 16],
    pub(crate) before: [u8; 16],
}

impl Between {
    /// What the cursor leaves.
    pub(crate) fn of(page: PageRequest) -> Self {
        let (first, last) = ([0; 16], [0xff; 16]);
        match page.cursor {
            Cursor::Newest => Self { after: first, before: last },
            Cursor::OlderThan(id) => Self { after: first, before: id.into_bytes() },
            Cursor::NewerThan(id) => Self { after: id.into_bytes(), before: last },
        }
    }

    /// Ends it where the search does, in the direction of the page.
    pub(crate) fn ending_before(self, page: PageRequest, end: Option<SearchEnd>) -> Self {
        let Some(end) = end else { return self };
        let id = end.beyond.into_bytes();
        if is_backward(page) { Self { before: id, ..self } } else { Self { after: id, ..self } }
    }

    /// Narrows it to the ids that rows made in a span of time can have, so that a list does not walk what cannot be in it.
    ///
    /// Ids begin with the millisecond of their making. The span is widened by [`ID_SLACK_MS`] either way, because a row can be dated a little
    /// before or after its id was made; the statement still compares the row's own time.
    pub(crate) fn within(self, range: TimeRange) -> Self {
        let after = range.from.map_or(self.after, |from| self.after.max(first_id(millis(from) - ID_SLACK_MS)));
        let before = range.to.map_or(self.before, |to| self.before.min(first_id(millis(to).saturating_add(ID_SLACK_MS))));
        Self { after, before }
    }
}

/// Where the search of a filtered list stops before the list ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchEnd {
    /// The last id that is compared with the filter.
    pub(crate) last: Uuid,
    /// The first that is not.
    pub(crate) beyond: Uuid,
}

impl SearchEnd {
    /// Of the ids that stand there; a list that ends sooner has fewer than two.
    pub(crate) fn of(ids: &[Uuid]) -> Option<Self> {
        match ids {
            [last, beyond] => Some(Self { last: *last, beyond: *beyond }),
            _ => None,
        }
    }
}

/// How many rows lie before the last one that is compared.
pub(crate) fn rows_before_search_end(compared_max: NonZeroU32) -> i64 {
    i64::from(compared_max.get()) - 1
}

/// How far a row's own time can lie from that of its id.
const ID_SLACK_MS: i64 = 60_000;
/// The milliseconds that an id has room for: 48 bits.
const ID_MILLIS_MAX: i64 = (1 << 48) - 1;

/// One more than asked for: the extra row tells that the list goes on.
pub(crate) fn rows_wanted(page: PageRequest) -> i64 {
    i64::from(page.limit) + 1
}

/// Whether the rows are read from the oldest on.
pub(crate) fn is_backward(page: PageRequest) -> bool {
    matches!(page.cursor, Cursor::NewerThan(_))
}

/// Takes the rows of one more list into a page that is merged from several. Says where the page ends if it is full: what lies behind that id need not
/// be read from further lists.
pub(crate) fn merge<T>(merged: &mut Vec<T>, more: Vec<T>, page: PageRequest, id: impl Fn(&T) -> Uuid) -> Option<Uuid> {
    let wanted = usize::try_from(rows_wanted(page)).unwrap_or(usize::MAX);
    merged.extend(more);
    merged.sort_unstable_by_key(&id);
    if !is_backward(page) {
        merged.reverse();
    }
    merged.truncate(wanted);
    merged.last().filter(|_| merged.len() == wanted).map(id)
}

/// A span of time as the two bounds of a statement.
pub(crate) fn bounds(range: TimeRange) -> (i64, i64) {
    let from = range.from.map_or(i64::MIN, Timestamp::as_micros);
    let to = range.to.map_or(i64::MAX, Timestamp::as_micros);
    (from, to)
}

/// The smallest id that can be made at an instant.
pub(crate) fn first_id_at(at: Timestamp) -> [u8; 16] {
    first_id(millis(at))
}

fn millis(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(1_000)
}

/// The smallest id of a millisecond.
fn first_id(millis: i64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..6].copy_from_slice(&millis.clamp(0, ID_MILLIS_MAX).to_be_bytes()[2..]);
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_merged_from_lists_is_that_of_all_of_them_and_says_where_it_ends() {
        let lists = [vec![9, 5, 1], vec![], vec![8, 2], vec![7, 6]];
        let merged_from = |cursor| {
            let page = PageRequest { limit: 3, cursor };
            let (mut merged, mut ends) = (Vec::new(), Vec::new());
            for list in &lists {
                ends.push(merge(&mut merged, list.clone(), page, |id| Uuid::from_u128(*id)).map(|id| id.as_u128()));
            }
            (merged, ends)
        };
        assert_eq!(merged_from(Cursor::Newest), (vec![9, 8, 7, 6], vec![None, None, Some(2), Some(6)]));
        assert_eq!(merged_from(Cursor::NewerThan(Uuid::nil())), (vec![1, 2, 5, 6], vec![None, None, Some(8), Some(6)]));
    }

    #[test]
    fn a_list_read_backward_has_every_order_turned_and_nothing_else() {
        const NEWEST_FIRST: &str = "SELECT description FROM t WHERE id < ?1 ORDER BY a DESC, id DESC LIMIT 5;";
        const TURNED: [u8; NEWEST_FIRST.len()] = oldest_first(NEWEST_FIRST);
        assert_eq!(text(&TURNED), "SELECT description FROM t WHERE id < ?1 ORDER BY a ASC , id ASC  LIMIT 5;");
    }

    #[test]
    fn the_first_id_of_a_millisecond_is_not_above_any_id_made_in_it() {
        let made = uuid::Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, 1_700_000_000, 123_000_000)).into_bytes();
        assert!(first_id(1_700_000_000_123) <= made);
        assert!(made < first_id(1_700_000_000_124));
    }
}
