//! What is cited exists: decisions by their number, files in backticks, links of Markdown and the headings that they lead to.

use crate::tree::{Tree, is_in_identifier};

/// Where a path in backticks begins, if it is one of ours. Those of a crate may leave `crates/` out.
const ROOTS: [&str; 8] =
    ["crates/", "docs/", "scripts/", "deploy/", "everhook-core/", "everhook-adapters/", "everhook-testbed/", "everhook/src/"];
/// What the pictures and the tables call the sources of the core.
const CORE: (&str, &str) = ("core/", "crates/everhook-core/src/");
/// Tells of releases, which had the files of their time.
const HISTORY: &str = "CHANGELOG.md";

/// Everything cited that does not exist.
pub fn violations(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.all().filter(|(path, _)| !path.contains("/tests/tidy/")) {
        for number in decisions_in(text) {
            if tree.files(&format!("docs/decisions/{number}-"), ".md").next().is_none() {
                found.push(format!("{path} cites decision {number}, which docs/decisions does not have: correct the number"));
            }
        }
        if path != HISTORY {
            let missing = paths_in(text).into_iter().filter(|cited| !exists(tree, cited));
            found.extend(missing.map(|cited| format!("{path} cites `{cited}`, which does not exist: cite where it is now")));
        }
        if path.ends_with(".md") {
            found.extend(links_in(text).into_iter().filter_map(|link| broken(tree, path, text, link)));
        }
    }
    found
}

/// The numbers after `decisions/`, `decision ` and at the beginning of a link's text.
fn decisions_in(text: &str) -> Vec<&str> {
    let after = |marker| text.match_indices(marker).map(move |(at, _)| &text[at + str::len(marker)..]);
    let numbers = ["decisions/", "decision ", "Decision ", "["].into_iter().flat_map(after);
    let numbers = numbers
        .filter_map(|rest| rest.get(..4))
        .filter(|number| number.starts_with("00") && number.bytes().all(|byte| byte.is_ascii_digit()));
    numbers.collect()
}

/// Paths of ours in backticks, and `core/….rs` anywhere. A pattern or a part left out (`…`, `*`, `{`) is none.
fn paths_in(text: &str) -> Vec<String> {
    let quoted = text.split('`').skip(1).step_by(2).filter(|quoted| ROOTS.iter().any(|root| quoted.starts_with(root)));
    let quoted = quoted.filter(|quoted| quoted.chars().all(|c| is_in_identifier(c) || "./-".contains(c)));
    let drawn = text.match_indices(CORE.0).filter(|(at, _)| !text[..*at].ends_with(|c: char| is_in_identifier(c) || "/-.".contains(c)));
    let drawn =
        drawn.map(|(at, _)| text[at..].split(|c: char| !is_in_identifier(c) && !"./".contains(c)).next().expect("at least one part"));
    let drawn = drawn.filter(|path| path.ends_with(".rs")).map(|path| path.replacen(CORE.0, CORE.1, 1).replace("/src/src/", "/src/"));
    quoted.map(str::to_owned).chain(drawn).collect()
}

fn exists(tree: &Tree, cited: &str) -> bool {
    // A test names it without its extension, and a module may be a folder.
    let forms = [cited.to_owned(), format!("crates/{cited}"), format!("{cited}.rs"), format!("crates/{cited}.rs")];
    forms.iter().any(|form| tree.has(form)) || tree.files(cited, "").next().is_some()
}

fn links_in(text: &str) -> Vec<&str> {
    let targets = text.match_indices("](").filter_map(|(at, open)| text[at + open.len()..].split_once(')')).map(|(target, _)| target);
    targets.filter(|target| !target.contains(':') && !target.contains(char::is_whitespace)).collect()
}

/// What is wrong with a link, if anything.
fn broken(tree: &Tree, path: &str, text: &str, link: &str) -> Option<String> {
    let (target, heading) = link.split_once('#').map_or((link, None), |(target, heading)| (target, Some(heading)));
    let place = if target.is_empty() { path.to_owned() } else { resolved(path, target) };
    if !tree.has(&place) && !place.is_empty() && !is_unread(&place) {
        return Some(format!("{path} links to {link}, and there is no {place}: correct the link"));
    }
    let heading = heading.filter(|_| place.ends_with(".md"))?;
    let text = if place == path { text } else { tree.text(&place)? };
    let is_there =
        text.lines().any(|line| line.starts_with('#') && slug(line) == heading) || text.contains(&format!("<a id=\"{heading}\">"));
    (!is_there).then(|| format!("{path} links to {link}, and {place} has no such heading: correct the link"))
}

/// Files that the tree does not hold.
fn is_unread(place: &str) -> bool {
    [".png", ".svg", ".json", ".lock", ".snap"].iter().any(|end| place.ends_with(end))
}

/// A link's target from the root.
fn resolved(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// How a heading is linked to: lower case, without punctuation, dashes for spaces.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars().filter(|c| is_in_identifier(*c) || " -".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn a_decision_a_path_a_link_and_a_heading_that_do_not_exist_are_found() {
    let there = ("docs/decisions/0001-four-crates.md", "# Four crates\n\n## What was chosen\n");
    let cases = [
        ("See decision 0099.", "cites decision 0099"),
        ("See [0098](https://example.com).", "cites decision 0098"),
        ("See `crates/everhook-core/src/nowhere.rs`.", "cites `crates/everhook-core/src/nowhere.rs`"),
        ("1 PUBLISH  core/flow/nowhere.rs   match", "cites `crates/everhook-core/src/flow/nowhere.rs`"),
        ("See [it](nowhere.md).", "there is no docs/nowhere.md"),
        ("See [it](decisions/0001-four-crates.md#what-was-refused).", "has no such heading"),
    ];
    for (planted, expected) in cases {
        let found = violations(&Tree::planted([there, ("docs/page.md", planted)]));
        assert!(found.len() == 1 && found[0].contains(expected), "{planted}: {found:?}");
    }
    let right = "Decision 0001, `docs/decisions`, [it](decisions/0001-four-crates.md#what-was-chosen).";
    assert_eq!(violations(&Tree::planted([there, ("docs/page.md", right)])), [""; 0]);
}
