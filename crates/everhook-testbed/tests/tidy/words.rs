//! Words that were replaced by plainer ones do not come back.

use crate::tree::{Tree, is_in_identifier};

/// What is not said any more, and what is said instead. Matched as it is written, as a whole word or phrase.
const REPLACED: &[(&str, &str)] = &[
    ("there is no such thing by this id", "which resource is missing: \"No event has this id\""),
    ("the configuration is not right", "\"Invalid configuration\""),
    ("Does a delivery again", "\"Resends a delivery\""),
    ("Its secret is in the answer", "\"The response includes its secret\""),
    ("Goes on.", "\"Resumes delivery.\""),
    ("How an endpoint does", "\"Endpoint health\""),
    ("is there twice, with", "\"appears twice, with\""),
    ("the connection begins anew", "\"the connection is replaced\""),
    ("told_at\"", "`reported_at`"),
    ("crate::flow", "`crate::line`"),
    ("flow::publish", "`line::publish`"),
    ("core/flow", "`core/line`"),
    ("Acquaintance", "`KnownPublisher`"),
    ("Acquaintances", "`PublisherCache`"),
    ("Tenure", "`HeldLease`"),
    ("tenure", "`held_lease`"),
    ("EndpointStanding", "`EndpointActivity`"),
    ("PageWish", "`RequestedPage`"),
    ("homeless", "`orphaned`"),
    ("twin_of", "`duplicate_in_batch`"),
    ("SealedDirectory", "`SealedEndpoints`"),
    ("ports.directory", "the port of the subject: `ports.endpoints`, `ports.applications`, …"),
    ("Postman", "`ScriptedMailServer`"),
    ("postman", "`mail_server`"),
    ("is_greeted", "`has_moved_breakers`"),
    ("post: PoolAssignment", "`pool: PoolAssignment`"),
    ("heed_tenure", "`apply_lease_changes`"),
    ("Standing", "the name of the state: `HeldState`, `EndpointActivity`, `ReceivedProgress`"),
    ("event_standing", "`newest_deliveries`"),
    ("Wish", "`LeaseRequest`, or the name of what is requested"),
    ("wish", "request, input or setting"),
    ("wishes", "`criteria` or requests"),
    ("RemainsDeleted", "`ContentsDeleted`"),
    ("delete_remains", "`delete_contents`"),
    ("Circumstances", "`SettlementFacts`"),
    ("Aftermath", "`OutageOutcome`"),
    ("Equipment", "`AttemptContext`"),
    ("Misfit", "`SchemaMismatch`"),
    ("Manners", "`Behavior`"),
    ("Foreignness", "`ForeignFile`"),
    ("Lifeline", "`CloseOnDrop`"),
    ("SlotAsk", "`SlotRequest`"),
    ("Drawn", "`TokenGrant`"),
    ("Carrier", "`SpoolTransfer`"),
    ("acquaintance", "publisher"),
    ("acquaintances", "publishers"),
    ("do_again", "`replay_deliveries`"),
    ("tell_breaker", "`report_breaker`"),
    ("go_on", "what it does: `resume_window`, `continue_from`"),
    ("goes_on", "what it means: `is_running`, `has_more`"),
    ("tell_processors_deleted", "`announce_deleted_processors`"),
    ("tells_caller", "`notifies_caller`"),
    ("tell_server_full", "`log_server_full`"),
    ("mend", "correct, repair or fix"),
    ("mended", "corrected, repaired or fixed"),
    ("Others change the same resource", "\"The resource was changed by another request\""),
    ("has used up its work", "which limit was reached"),
    ("Two secrets sign already", "\"A secret rotation is in progress\""),
    ("did not answer as it should", "what was wrong with the answer"),
    ("Something else was decided", "\"already decided\""),
    ("There are as many as a limit allows", "\"A limit has been reached\""),
    ("What came of it", "\"The result\""),
    ("who was told what", "\"the notifications that were sent\""),
    ("are told what happened", "\"get notifications\""),
    ("What was done remains", "\"What it has already done is not undone.\""),
    ("what happened there last", "\"its latest activity\""),
    ("core/engine", "`core/lanes`, `core/nodes` or `core/jobs`"),
];

/// The same for words that are also not parts of names, however they are written: `keep_figures`, `QueueFigures`, `FIGURES_AGE`.
const REPLACED_PARTS: &[(&str, &str)] = &[
    ("figures", "statistics (of attempts), results (of a run) or measurements"),
    ("tenancy", "`organization` (the model), `shards` or `OwnedShards` (of a lane's owner)"),
    ("errand", "background task, `BackgroundTask`"),
    ("errands", "background tasks"),
    ("standing", "the name of the state: `HeldState`, `EndpointActivity`, `ReceivedProgress`"),
    ("heed", "apply, follow or take note of: `apply_votes`"),
    ("heeds", "applies, follows or takes note of"),
    ("heeded", "applied"),
    ("standings", "`activities` (of endpoints) or `newest` (deliveries)"),
];

/// Files that show what not to write.
const EXAMPLES: [&str; 2] = ["STYLE.md", "crates/everhook-testbed/tests/tidy/"];

/// Every replaced word that is still there.
pub fn violations(tree: &Tree) -> Vec<String> {
    let mut found = found_in(tree, REPLACED, says);
    found.extend(found_in(tree, REPLACED_PARTS, says_part));
    found
}

fn found_in(tree: &Tree, replaced: &[(&str, &str)], says: fn(&str, &str) -> bool) -> Vec<String> {
    let files = tree.all().filter(|(path, _)| !EXAMPLES.iter().any(|example| path.starts_with(example)));
    let lines = files.flat_map(|(path, text)| text.lines().enumerate().map(move |(number, line)| (path, number + 1, line)));
    let mut found = Vec::new();
    for (path, number, line) in lines {
        for (word, instead) in replaced.iter().filter(|(word, _)| says(line, word)) {
            found.push(format!("{path}:{number} says `{word}`: write {instead}"));
        }
    }
    found
}

/// Whether the line has the word, and not only as a part of a longer one.
fn says(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let is_within = |neighbor: Option<char>| neighbor.is_some_and(is_in_identifier);
        !is_within(line[..at].chars().next_back()) && !is_within(line[at + word.len()..].chars().next())
    })
}

/// Whether the line has the word in any case, also as a part of a name.
fn says_part(line: &str, word: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    lower.match_indices(word).any(|(at, _)| {
        let (before, after) = (line[..at].chars().next_back(), line[at + word.len()..].chars().next());
        // A part of a name begins with a capital letter, or behind what is no letter; it ends before either.
        let begins =
            before.is_none_or(|before| !before.is_alphabetic() || (before.is_lowercase() && line[at..].starts_with(char::is_uppercase)));
        begins
            && after.is_none_or(|after| {
                !after.is_alphabetic() || (after.is_uppercase() && line[..at + word.len()].ends_with(char::is_lowercase))
            })
    })
}

#[test]
fn a_replaced_part_is_found_in_names_of_any_case() {
    let said = ["figures", "Figures", "keep_figures", "QueueFigures", "FIGURES_AGE", "struct FiguresOfQueue", "`figures`"];
    assert!(said.iter().all(|line| says_part(line, "figures")));
    let not_said = ["configures", "prefigures", "figure", "ReconFiguresx", "figuresque", "understanding"];
    assert!(!not_said.iter().any(|line| says_part(line, "figures") || says_part(line, "standing")));
}

#[test]
fn a_replaced_word_is_found_whole_and_with_its_replacement() {
    let replaced = [("Acquaintances", "`PublisherCache`"), ("Goes on.", "\"Resumes delivery.\"")];
    let tree = Tree::planted([
        ("crates/a.rs", "struct MyAcquaintances;\nstruct Acquaintances;"),
        ("docs/b.md", "Goes on."),
        ("STYLE.md", "not Acquaintances"),
    ]);
    let expected =
        ["crates/a.rs:2 says `Acquaintances`: write `PublisherCache`", "docs/b.md:1 says `Goes on.`: write \"Resumes delivery.\""];
    assert_eq!(found_in(&tree, &replaced, says), expected);
}
