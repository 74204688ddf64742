//! Names that users wrote, repeated in messages to them.

/// How many characters of a name are repeated.
pub(super) const SHOWN_CHARS_MAX: usize = 64;

/// Names as words for people: `` `a`, `b` ``.
pub fn shown<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let shown = |name: &str| format!("`{}`", name.chars().take(SHOWN_CHARS_MAX).collect::<String>().escape_debug());
    names.into_iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// Says the same about all of these names: `reason` is the rest of a sentence that begins with one of them. `None` if there is no name.
pub fn refused(names: &[&str], reason: &str) -> Option<String> {
    let each = match names {
        [] => return None,
        [_] => "",
        _ => ": each",
    };
    Some(format!("{}{each} {reason}", shown(names.iter().copied())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_names_are_told_and_none_at_length() {
        assert_eq!(refused(&[], "is wrong"), None);
        assert_eq!(refused(&["a\n"], "is wrong").as_deref(), Some("`a\\n` is wrong"));
        assert_eq!(refused(&["a", "b"], "is wrong").as_deref(), Some("`a`, `b`: each is wrong"));
        assert_eq!(shown([&*"x".repeat(1_000)]).len(), 66);
    }
}
