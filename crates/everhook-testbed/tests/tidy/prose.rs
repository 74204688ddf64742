//! Markdown that can be read and compared line by line, and texts that are true on every machine.

use crate::tree::Tree;

/// A line may be longer if it is one sentence.
const CHARACTERS_MAX: usize = 160;

/// Pages with longer lines of several sentences. Correct one and remove its line; add none.
const TOLERATED: &[&str] = &[];

/// Folders of one machine or one person.
const MACHINE_FOLDERS: [&str; 4] = ["/home/", "/root/", "/Users/", "/work/"];
/// Where such a path is only an example.
const MACHINE_EXAMPLES: [&str; 2] = ["crates/everhook/src/cli/bench/procs.rs", "crates/everhook-testbed/tests/tidy/prose.rs"];

/// Long lines and machine paths.
pub fn violations(tree: &Tree) -> Vec<String> {
    found_in(tree, TOLERATED)
}

fn found_in(tree: &Tree, tolerated: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.all() {
        let is_example = MACHINE_EXAMPLES.contains(&path);
        for (line, folder) in
            text.lines().enumerate().filter(|_| !is_example).filter_map(|(number, line)| Some((number + 1, machine_folder(line)?)))
        {
            found.push(format!(
                "{path}:{line} names a path below `{folder}`, which other machines do not have: name it from the root of the repository"
            ));
        }
    }
    for (path, text) in tree.files("", ".md") {
        let long = long_lines(text);
        if tolerated.contains(&path) {
            if long.is_empty() {
                found.push(format!("{path} has no long lines any more: remove it from `TOLERATED` in tests/tidy/prose.rs"));
            }
            continue;
        }
        let sentences =
            |line| format!("{path}:{line} has several sentences in more than {CHARACTERS_MAX} characters: one sentence a line, or a list");
        found.extend(long.into_iter().map(sentences));
    }
    found
}

fn machine_folder(line: &str) -> Option<&'static str> {
    let begins = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}/".contains(c));
    MACHINE_FOLDERS.into_iter().find(|folder| line.match_indices(folder).any(|(at, _)| begins(at)))
}

/// The numbers of long lines that hold more than one sentence. Tables and code are exempt.
fn long_lines(text: &str) -> Vec<usize> {
    let (mut is_code, mut found) = (false, Vec::new());
    for (number, line) in text.lines().enumerate() {
        is_code ^= line.trim_start().starts_with("```");
        let is_prose = !is_code && !line.trim_start().starts_with('|');
        if is_prose && line.chars().count() > CHARACTERS_MAX && has_several_sentences(line) {
            found.push(number + 1);
        }
    }
    found
}

/// Whether a sentence ends within the line and another begins. What is in backticks ends nothing.
fn has_several_sentences(line: &str) -> bool {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
    let ends = prose.match_indices(['.', '!', '?']).map(|(at, _)| (&prose[..at], &prose[at + 1..]));
    ends.into_iter().any(|(before, after)| {
        let is_word = before.chars().next_back().is_some_and(|c| c.is_lowercase() || ")]*\"".contains(c)) || before.ends_with("code");
        let after = after.trim_start_matches(['"', ')', '*', '_']);
        let next = after.trim_start();
        is_word && next.len() < after.len() && next.starts_with(|c: char| c.is_uppercase() || "[*\"".contains(c) || c == '`')
    })
}

#[test]
fn a_wall_of_sentences_is_found_and_a_long_sentence_a_table_and_code_are_not() {
    let long = "word ".repeat(40);
    let cases = [
        (format!("A sentence. Another, with {long}."), true),
        (format!("See `code.rs`. Another, with {long}."), true),
        (format!("One sentence with `a.b. C` and 1.5 of e.g. that, {long}."), false),
        (format!("| A sentence. Another. | {long} |"), false),
        (format!("```\nA sentence. Another, {long}\n```"), false),
        ("A sentence. Another.".to_owned(), false),
    ];
    for (text, is_found) in cases {
        assert_eq!(!violations(&Tree::planted([("docs/page.md", &text)])).is_empty(), is_found, "{text}");
    }
}

#[test]
fn a_path_of_one_machine_is_found() {
    for (text, is_found) in
        [("cd /home/me/everhook", true), ("run `/root/x`", true), ("https://example.com/home/page", false), ("GET /v1/home/", false)]
    {
        assert_eq!(!violations(&Tree::planted([("docs/page.md", text)])).is_empty(), is_found, "{text}");
    }
}

#[test]
fn a_page_that_was_mended_does_not_stay_on_the_list() {
    let found = found_in(&Tree::planted([("docs/page.md", "A sentence.")]), &["docs/page.md"]);
    assert!(found.len() == 1 && found[0].contains("docs/page.md has no long lines any more"), "{found:?}");
    let wall = format!("A sentence. Another, with {}.", "word ".repeat(40));
    assert_eq!(found_in(&Tree::planted([("docs/page.md", &wall)]), &["docs/page.md"]), [""; 0]);
}
