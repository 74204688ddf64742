//! How a table of the shared store is made of what the embedded one has: its columns, and where each comes from. One copier and one checker work for
//! all of them. The statements are composed here, because they differ in names alone.

/// A table of the shared store.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name in the shared store.
    pub name: &'static str,
    /// Where its rows are in the embedded store: a table or a join.
    pub from: &'static str,
    /// Which of those rows, if not all.
    pub only: Option<&'static str>,
    /// The columns by which the rows are told apart, and in whose order they are copied.
    pub key: &'static [&'static str],
    /// Every column.
    pub columns: &'static [&'static str],
    /// Those that are spelled otherwise in the embedded store, with their expressions there.
    pub spelled: &'static [(&'static str, &'static str)],
    /// The column whose numbers the shared store gives from then on, if there is one.
    pub counted: Option<&'static str>,
}

/// A table that is called the same, and has the same columns.
pub(super) const fn same(name: &'static str, key: &'static [&'static str], columns: &'static [&'static str]) -> Table {
    Table { name, from: name, only: None, key, columns, spelled: &[], counted: None }
}

impl Table {
    /// All its rows as the embedded store has them, in the order of the key.
    pub fn select_source(&self) -> String {
        self.select_source_where(None)
    }

    /// Those after a key, which is bound.
    pub fn select_source_after(&self) -> String {
        let places: Vec<String> = (1..=self.key.len()).map(|place| format!("?{place}")).collect();
        self.select_source_where(Some(format!("({}) > ({})", self.key_expressions(), places.join(", "))))
    }

    fn select_source_where(&self, after: Option<String>) -> String {
        let columns: Vec<&str> = self.columns.iter().map(|column| self.expression(column)).collect();
        let conditions: Vec<&str> = self.only.into_iter().chain(after.as_deref()).collect();
        let filter = if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
        format!("SELECT {} FROM {}{filter} ORDER BY {}", columns.join(", "), self.from, self.key_expressions())
    }

    /// How many rows the embedded store has.
    pub(super) fn count_source(&self) -> String {
        let filter = self.only.map(|only| format!(" WHERE {only}")).unwrap_or_default();
        format!("SELECT count(*) FROM {}{filter}", self.from)
    }

    /// All its rows, in whatever order is quickest.
    pub(super) fn select_target(&self) -> String {
        format!("SELECT {} FROM {}", self.columns.join(", "), self.name)
    }

    /// Whether it has a row.
    pub(super) fn exists_in_target(&self) -> String {
        format!("SELECT EXISTS (SELECT 1 FROM {})", self.name)
    }

    /// Takes rows in, numbers that are given by the server included.
    pub(super) fn copy_into_target(&self) -> String {
        format!("COPY {} ({}) FROM STDIN BINARY", self.name, self.columns.join(", "))
    }

    /// Lets the server give numbers from after the last one.
    pub(super) fn count_on(&self) -> Option<String> {
        let (name, column) = (self.name, self.counted?);
        Some(format!(
            "SELECT setval(pg_get_serial_sequence('{name}', '{column}'), coalesce((SELECT max({column}) FROM {name}), 0) + 1, false)"
        ))
    }

    /// The places of the key's columns in a row.
    pub(super) fn key_places(&self) -> Vec<usize> {
        self.key.iter().filter_map(|key| self.columns.iter().position(|column| column == key)).collect()
    }

    fn key_expressions(&self) -> String {
        let key: Vec<&str> = self.key.iter().map(|column| self.expression(column)).collect();
        key.join(", ")
    }

    fn expression(&self, column: &'static str) -> &'static str {
        self.spelled.iter().find(|(name, _)| *name == column).map_or(column, |(_, expression)| *expression)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CROWS: Table = Table {
        only: Some("kind = 'crow'"),
        spelled: &[("nest", "coalesce(b.nest, 0)")],
        counted: Some("nest"),
        ..same("crows", &["nest", "egg"], &["egg", "nest", "color"])
    };

    #[test]
    fn statements_name_columns_in_one_order_and_keys_as_the_source_spells_them() {
        assert_eq!(
            CROWS.select_source_after(),
            "SELECT egg, coalesce(b.nest, 0), color FROM crows WHERE kind = 'crow' AND (coalesce(b.nest, 0), egg) > (?1, ?2) \
             ORDER BY coalesce(b.nest, 0), egg"
        );
        assert_eq!(same("crows", &["egg"], &["egg"]).select_source(), "SELECT egg FROM crows ORDER BY egg");
        assert_eq!(CROWS.select_target(), "SELECT egg, nest, color FROM crows");
        assert_eq!(CROWS.copy_into_target(), "COPY crows (egg, nest, color) FROM STDIN BINARY");
        assert_eq!(CROWS.key_places(), [1, 0]);
        assert!(CROWS.count_on().is_some_and(|sql| sql.contains("'crows', 'nest'")));
    }
}
