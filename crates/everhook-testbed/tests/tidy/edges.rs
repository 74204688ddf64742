//! What may use what: the modules of the core in layers, the folders of the adapters side by side.

use std::collections::BTreeSet;

use crate::tree::{Tree, identifier, is_in_identifier, without_comments};

/// A crate whose top-level modules are held to a table.
struct Layers {
    /// Its sources.
    folder: &'static str,
    /// Each module, and the others that it may use.
    may_use: &'static [(&'static str, &'static [&'static str])],
    /// Files that use what their module may not. Correct one and remove its line; add none.
    tolerated: &'static [(&'static str, &'static str)],
    /// What to do about a violation.
    remedy: &'static str,
}

/// `ids ◄ model ◄ policy ◄ lifecycle ◄ line, manage ◄ lanes, nodes, jobs`; ports use only ids and model.
const CORE: Layers = Layers {
    folder: "crates/everhook-core/src/",
    may_use: &[
        ("ids", &[]),
        ("time", &[]),
        ("pruned", &[]),
        ("counted", &["pruned", "time"]),
        ("model", &["ids", "time"]),
        ("metrics", &["ids", "model", "time"]),
        ("ports", &["ids", "model", "time"]),
        ("policy", &["ids", "model", "time"]),
        ("lifecycle", &["ids", "model", "policy", "time"]),
        ("signing", &["ids", "model", "time"]),
        ("envelope", &["ids", "model", "time"]),
        ("health", &["ids", "model", "time"]),
        ("inbound", &["ids", "model", "signing", "time"]),
        ("providers", &["health", "ids", "model", "ports", "time"]),
        ("processors", &["health", "ids", "model", "ports", "providers", "time"]),
        ("reading", &[]),
        ("owned_tasks", &[]),
        ("repeated_failure", &["ports", "time"]),
        ("shape", &["ids", "model", "ports", "signing", "time"]),
        ("catalog", &["ids", "model", "policy", "ports", "reading", "shape", "time"]),
        ("sources", &["ids", "inbound", "model", "ports", "reading", "time"]),
        ("breakdowns", &["ids", "model", "ports", "time"]),
        ("limits", &["ids", "model", "policy", "ports", "pruned", "time", "repeated_failure"]),
        ("gates", &["ids", "model", "policy", "ports", "time"]),
        (
            "calls",
            &["owned_tasks", "gates", "ids", "limits", "metrics", "model", "policy", "ports", "pruned", "reading", "signing", "time"],
        ),
        (
            "line",
            &[
                "breakdowns",
                "calls",
                "catalog",
                "counted",
                "envelope",
                "ids",
                "inbound",
                "lifecycle",
                "limits",
                "metrics",
                "model",
                "owned_tasks",
                "policy",
                "ports",
                "processors",
                "providers",
                "pruned",
                "shape",
                "signing",
                "sources",
                "time",
                "repeated_failure",
            ],
        ),
        ("spool", &["catalog", "ids", "limits", "line", "metrics", "model", "policy", "ports", "pruned", "time", "repeated_failure"]),
        (
            "manage",
            &[
                "calls",
                "catalog",
                "health",
                "ids",
                "inbound",
                "lifecycle",
                "limits",
                "line",
                "model",
                "policy",
                "ports",
                "processors",
                "shape",
                "signing",
                "sources",
                "time",
            ],
        ),
        ("nodes", &["catalog", "ids", "limits", "line", "model", "policy", "ports", "pruned", "time", "repeated_failure"]),
        (
            "lanes",
            &[
                "catalog",
                "ids",
                "lifecycle",
                "limits",
                "line",
                "metrics",
                "model",
                "nodes",
                "policy",
                "ports",
                "pruned",
                "time",
                "repeated_failure",
            ],
        ),
        (
            "jobs",
            &[
                "calls",
                "catalog",
                "ids",
                "lifecycle",
                "limits",
                "line",
                "manage",
                "model",
                "policy",
                "ports",
                "processors",
                "pruned",
                "time",
                "repeated_failure",
            ],
        ),
        ("engine", &["jobs", "lanes", "limits", "line", "model", "nodes", "ports", "spool", "time", "repeated_failure"]),
    ],
    tolerated: &[("line/admission.rs", "spool"), ("line/mod.rs", "nodes"), ("line/mod.rs", "spool"), ("line/publish.rs", "spool")],
    remedy: "move what it needs into a lower module, or pass it in",
};

/// Folders do not know each other, but for what ARCHITECTURE.md names.
const ADAPTERS: Layers = Layers {
    folder: "crates/everhook-adapters/src/",
    may_use: &[
        ("archive", &[]),
        ("encoding", &["vault"]),
        ("commits", &[]),
        ("due", &[]),
        ("read_turns", &[]),
        ("system", &[]),
        ("vault", &[]),
        ("by_scheme", &[]),
        ("sealed_endpoints", &[]),
        ("http", &[]),
        ("redis", &["system"]),
        // The guard of addresses exists once.
        ("rabbitmq", &["http"]),
        ("smtp", &["http"]),
        ("otlp", &["http"]),
        ("sqlite", &["commits", "due", "encoding", "read_turns", "system", "vault"]),
        ("postgres", &["commits", "due", "encoding", "read_turns", "system"]),
        // Writes through the embedded store's writer.
        ("spool", &["commits", "encoding", "sqlite", "system"]),
        // Is about both stores.
        ("moving", &["postgres", "sqlite"]),
    ],
    tolerated: &[],
    remedy: "move what both need into a module of its own, or into the core",
};

/// Every use of a module that the table does not allow.
pub fn violations(tree: &Tree) -> Vec<String> {
    [CORE, ADAPTERS].iter().flat_map(|layers| violations_of(tree, layers)).collect()
}

fn violations_of(tree: &Tree, layers: &Layers) -> Vec<String> {
    let modules: BTreeSet<&str> = tree.files(layers.folder, ".rs").map(|(path, _)| module_of(path, layers)).collect();
    let mut found = Vec::new();
    let mut tolerated: BTreeSet<(&str, &str)> = layers.tolerated.iter().copied().collect();
    for module in modules.iter().filter(|module| **module != "lib" && rule_of(module, layers).is_none()) {
        found.push(format!("{}{module} is new: say in tests/tidy/edges.rs which modules it may use", layers.folder));
    }
    for (path, text) in tree.files(layers.folder, ".rs") {
        let module = module_of(path, layers);
        let Some(allowed) = rule_of(module, layers) else { continue };
        for used in used_modules(text).into_iter().filter(|used| modules.contains(used.as_str()) && used != module) {
            let place = path.strip_prefix(layers.folder).expect("it begins like this");
            let is_tolerated = layers.tolerated.contains(&(place, used.as_str()));
            tolerated.retain(|entry| *entry != (place, used.as_str()));
            if !allowed.contains(&used.as_str()) && !is_tolerated {
                found.push(format!("{path} uses `{used}`, which `{module}` may not: {}", layers.remedy));
            }
        }
    }
    if !modules.is_empty() {
        let stale = tolerated
            .iter()
            .map(|(file, used)| format!("{file} does not use `{used}` any more: remove it from `tolerated` in tests/tidy/edges.rs"));
        found.extend(stale);
    }
    found
}

fn rule_of(module: &str, layers: &Layers) -> Option<&'static [&'static str]> {
    layers.may_use.iter().find(|(name, _)| *name == module).map(|(_, allowed)| *allowed)
}

/// The top-level module that a file belongs to.
fn module_of<'a>(path: &'a str, layers: &Layers) -> &'a str {
    identifier(path.strip_prefix(layers.folder).expect("it begins like this"))
}

/// What follows each `crate::`, also within braces.
fn used_modules(text: &str) -> BTreeSet<String> {
    let text = without_comments(text);
    let places = text.match_indices("crate::").filter(|(at, _)| !text[..*at].ends_with(is_in_identifier));
    let mut used = BTreeSet::new();
    for (at, prefix) in places {
        let rest = &text[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(group) => used.extend(items_of(group)),
            None => used.extend([identifier(rest).to_owned()]),
        }
    }
    used
}

/// The first identifier of each item of a group, up to the brace that closes it.
fn items_of(group: &str) -> Vec<String> {
    let (mut depth, mut item, mut items) = (0_u32, String::new(), Vec::new());
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => items.push(std::mem::take(&mut item)),
            _ => item.push(c),
        }
    }
    items.push(item);
    items.iter().map(|item| identifier(item.trim_start()).to_owned()).filter(|name| !name.is_empty()).collect()
}

#[test]
fn a_use_of_a_higher_module_is_found_alone_and_within_braces() {
    for planted in
        ["use crate::ports::Clock;", "use crate::{\n    model::{Event, Stage},\n    ports::Clock,\n};", "fn f(_: &crate::ports::Clock) {}"]
    {
        let tree = Tree::planted([
            ("crates/everhook-core/src/policy/retry.rs", planted),
            ("crates/everhook-core/src/ports/mod.rs", "// use crate::policy: only a comment"),
            ("crates/everhook-core/src/model/mod.rs", ""),
        ]);
        let found = violations(&tree);
        assert!(found[0].contains("policy/retry.rs uses `ports`, which `policy` may not"), "{planted}: {found:?}");
    }
}

#[test]
fn a_folder_of_the_adapters_that_knows_another_is_found() {
    let tree = Tree::planted([
        ("crates/everhook-adapters/src/redis/mod.rs", "use crate::postgres::PostgresStore;"),
        ("crates/everhook-adapters/src/postgres/mod.rs", ""),
    ]);
    assert!(violations(&tree)[0].contains("redis/mod.rs uses `postgres`"));
}

#[test]
fn a_module_without_a_rule_is_found() {
    let found = violations(&Tree::planted([("crates/everhook-core/src/surprise/mod.rs", "")]));
    assert!(found[0].contains("surprise is new: say in tests/tidy/edges.rs"), "{found:?}");
}

#[test]
fn an_exception_that_is_not_needed_is_found() {
    let tolerated = &[("line/mod.rs", "spool")];
    let layers = Layers { folder: "crates/everhook-core/src/", may_use: &[("line", &[]), ("spool", &[])], tolerated, remedy: "" };
    let planted = |text| Tree::planted([("crates/everhook-core/src/line/mod.rs", text), ("crates/everhook-core/src/spool/mod.rs", "")]);
    assert_eq!(violations_of(&planted("use crate::spool::Intake;"), &layers), [""; 0]);
    let found = violations_of(&planted(""), &layers);
    assert!(found.len() == 1 && found[0].contains("line/mod.rs does not use `spool` any more"), "{found:?}");
}
