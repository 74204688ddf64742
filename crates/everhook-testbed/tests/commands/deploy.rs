//! `deploy/` against the binary's own words: every variable, flag, command, port and folder in it exists there. No container engine is needed.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{run, stderr, stdout};

pub(super) fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn read(name: &str) -> String {
    fs::read_to_string(deploy().join(name)).unwrap_or_else(|error| panic!("deploy/{name}: {error}"))
}

/// What follows a Dockerfile's instruction, once for each time that it is given.
fn instructions<'a>(dockerfile: &'a str, name: &str) -> Vec<&'a str> {
    let lines = dockerfile.lines().map(str::trim);
    lines.filter_map(|line| line.split_once(' ').filter(|(instruction, _)| *instruction == name)).map(|(_, rest)| rest).collect()
}

/// The words of an instruction in JSON: `["a", "b"]`.
fn words(instruction: &str) -> Vec<String> {
    serde_json::from_str(instruction).unwrap_or_else(|error| panic!("{instruction}: {error}"))
}

/// Names like `EVERHOOK_LISTEN`, also in comments.
fn variables(text: &str) -> BTreeSet<&str> {
    let names = text.split(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_');
    names.filter(|name| name.starts_with("EVERHOOK_")).collect()
}

async fn help(of: &str) -> String {
    let output = run(&[of, "--help"]).await;
    assert!(output.status.success(), "{of}: {}", stderr(&output));
    stdout(&output)
}

/// What is in force with these flags.
async fn config(flags: &[&str]) -> Value {
    let output = run(&[&["config", "--json"], flags].concat()).await;
    assert!(output.status.success(), "{flags:?}: {}", stderr(&output));
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demos_help_says_its_own_defaults() {
    let help = help("demo").await;
    assert!(help.contains("temporary") && !help.contains("./everhook-data"), "{help}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_variable_in_deploy_is_a_setting_with_a_flag_of_its_own() {
    let (help, in_force) = (help("serve").await, config(&[]).await);
    for file in ["Dockerfile", "compose.yaml", "example.env"] {
        for variable in variables(&read(file)) {
            let name = variable.trim_start_matches("EVERHOOK_").to_lowercase();
            assert!(!in_force[&name].is_null(), "deploy/{file} sets {variable}, and `everhook config` has no {name}");
            let flag = format!("--{}", name.replace('_', "-"));
            assert!(
                help.split_whitespace().any(|word| word.starts_with(&flag)),
                "`everhook serve --help` does not name {flag} ({variable})"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_image_starts_a_command_that_exists_with_values_that_are_taken() {
    let dockerfile = read("Dockerfile");
    let (entry, command) = (words(instructions(&dockerfile, "ENTRYPOINT")[0]), words(instructions(&dockerfile, "CMD")[0]));
    assert_eq!(entry, ["everhook"]);
    let help = help(&command[0]).await;
    let unknown: Vec<&String> = command[1..].iter().filter(|word| word.starts_with("--") && !help.contains(word.as_str())).collect();
    assert!(unknown.is_empty(), "`everhook {}` does not take {unknown:?}", command[0]);
    // Each variable is a setting, and the value is the one in force.
    let set =
        instructions(&dockerfile, "ENV").into_iter().flat_map(str::split_whitespace).map(|pair| pair.split_once('=').expect("NAME=value"));
    let set: Vec<(String, &str)> = set.map(|(name, value)| (name.trim_start_matches("EVERHOOK_").to_lowercase(), value)).collect();
    let flags: Vec<String> = set.iter().map(|(name, value)| format!("--{}={value}", name.replace('_', "-"))).collect();
    let in_force = config(&flags.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for (name, value) in &set {
        assert_eq!(in_force[name]["value"], *value, "{name} in {in_force}");
    }
}

#[test]
fn the_images_port_and_folder_are_the_ones_that_it_declares_and_compose_uses() {
    let (dockerfile, compose) = (read("Dockerfile"), read("compose.yaml"));
    let set = instructions(&dockerfile, "ENV").join(" ");
    let value = |name: &str| {
        set.split_whitespace().find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).unwrap_or_else(|| panic!("{name} is not set"))
    };
    let (data, port) = (value("EVERHOOK_DATA"), value("EVERHOOK_LISTEN").rsplit_once(':').expect("an address").1);
    assert_eq!(instructions(&dockerfile, "EXPOSE"), [port]);
    assert_eq!(instructions(&dockerfile, "VOLUME"), [data]);
    assert!(instructions(&dockerfile, "WORKDIR").contains(&data), "the folder of the data is not the working directory");
    assert!(dockerfile.contains(&format!("--mode=0700 {data}")), "nobody makes {data}");
    let nodes = compose.lines().filter(|line| line.contains("volumes: [")).filter(|line| line.contains(&format!(":{data}\""))).count();
    let ports = compose.lines().filter(|line| line.contains("ports: [") && line.contains(&format!(":{port}\""))).count();
    let of_nodes = compose.matches("<<: *node").count();
    assert_eq!((nodes, ports), (of_nodes, of_nodes), "every node has a volume at {data} and a port to {port}");
}

#[test]
fn files_packages_and_profiles_that_the_image_is_built_from_exist() {
    let (dockerfile, compose) = (read("Dockerfile"), read("compose.yaml"));
    let root = deploy().join("..");
    let words: Vec<&str> = dockerfile.split_whitespace().collect();
    let after = |flag: &str| words.iter().zip(words.iter().skip(1)).find(|(word, _)| **word == flag).map(|(_, next)| *next);
    let package = after("--package").expect("it builds a package");
    assert!(root.join("crates").join(package).join("Cargo.toml").is_file(), "there is no crate {package}");
    let profile = after("--profile").expect("it names a profile");
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("the workspace");
    assert!(manifest.contains(&format!("[profile.{profile}]")), "there is no profile {profile}");
    assert!(dockerfile.contains(&format!("cp target/{profile}/{package} ")), "the binary is not where this profile puts it");
    let words = compose.split(|c: char| c.is_whitespace() || "\"'}?".contains(c)).map(|word| word.trim_end_matches([':', ',', '.']));
    // The file with the secrets is copied from the example, and not checked in.
    let named = words.filter(|word| word.starts_with("deploy/") && *word != "deploy/.env");
    let missing: Vec<&str> = named.filter(|path| !root.join(path).exists()).collect();
    assert!(missing.is_empty(), "{missing:?} do not exist");
}

/// What the metrics of Everhook begin with, and the names of labels that begin the same.
const METRICS: [&str; 6] = ["webhook_", "everhook_", "process_", "endpoint_", "retry_", "notification_"];
const LABELS: [&str; 3] = ["webhook_id", "endpoint_id", "retry_schedule"];

/// The metrics that expressions of Prometheus name.
fn metrics_in(expressions: &str) -> BTreeSet<&str> {
    let names = expressions.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = names.filter(|name| METRICS.iter().any(|prefix| name.starts_with(prefix)) && !LABELS.contains(name));
    names.map(|name| ["_bucket", "_sum"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_that_the_alert_rules_and_the_dashboard_use_is_exported() {
    let node = super::started().await;
    let mut connection = everhook::cli::client::Connection::new(node.server());
    let answer = connection.send(http::Method::GET, "/metrics", "").await.unwrap_or_else(|error| panic!("/metrics: {error:#}"));
    let text = String::from_utf8_lossy(&answer.body);
    let exported: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let rules = read("prometheus/alerts.yaml") + &read("prometheus/nodes.yaml");
    // The name of a rule is no metric, and neither is what a comment says.
    let rules: String = rules
        .lines()
        .filter(|line| !line.contains("alert:") && !line.contains("- name:") && !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    let dashboard: Value = serde_json::from_str(&read("grafana/everhook.json")).expect("the dashboard is JSON");
    let targets =
        dashboard["panels"].as_array().expect("panels").iter().flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
    let panels: String = targets.map(|target| format!("{}\n", target["expr"].as_str().expect("an expression"))).collect();
    for (file, expressions) in [("prometheus/*.yaml", &rules), ("grafana/everhook.json", &panels)] {
        let used = metrics_in(expressions);
        assert!(used.len() > 10, "deploy/{file} names {used:?}");
        let unknown: Vec<_> = used.difference(&exported).collect();
        assert!(unknown.is_empty(), "deploy/{file} uses {unknown:?}, which this server does not export");
    }
}

#[test]
fn every_variable_that_compose_wants_is_in_the_example() {
    let (compose, example) = (read("compose.yaml"), read("example.env"));
    let given: BTreeSet<&str> =
        example.lines().filter(|line| !line.starts_with('#')).filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let wanted: BTreeSet<&str> =
        compose.match_indices("${").map(|(at, _)| compose[at + 2..].split([':', '}']).next().expect("a name")).collect();
    assert_eq!(given, wanted, "deploy/example.env and what deploy/compose.yaml substitutes differ");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_container_is_killed_only_after_the_server_had_its_grace_and_is_asked_for_health_where_it_answers() {
    let (dockerfile, compose) = (read("Dockerfile"), read("compose.yaml"));
    assert_eq!(instructions(&dockerfile, "STOPSIGNAL"), ["SIGTERM"]);
    let grace = compose.split_once("stop_grace_period: ").and_then(|(_, rest)| rest.split_once('s')).expect("a grace period").0;
    let grace: u64 = grace.parse().expect("seconds");
    let needed = everhook::wiring::STOP_GRACE.as_secs();
    assert!(needed < grace, "the server takes up to {needed} s to stop, and is killed after {grace}");
    let node = super::started().await;
    let mut connection = everhook::cli::client::Connection::new(node.server());
    for path in ["/healthz", "/readyz"] {
        assert!(dockerfile.contains(path), "the Dockerfile does not say where health is asked for");
        connection.ask(http::Method::GET, path, None).await.unwrap_or_else(|error| panic!("{path}: {error:#}"));
    }
}

#[test]
fn what_the_build_includes_is_not_left_out_of_the_image() {
    let ignored = read("Dockerfile.dockerignore");
    let rules: Vec<&str> = ignored.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    // As the builder reads them: the last rule that fits a path decides.
    let is_left_out = |path: &str| {
        let fits = |rule: &str| path == rule || path.starts_with(&format!("{rule}/"));
        let decides = |rule: &&&str| fits(rule.trim_start_matches('!').trim_start_matches('/'));
        rules.iter().rev().find(decides).is_some_and(|rule| !rule.starts_with('!'))
    };
    // `include_str!` in the API reads the pages of problem types; the rest is what cargo reads.
    for needed in ["docs/problems/uid-taken.md", "crates/everhook/src/main.rs", "Cargo.toml", "Cargo.lock"] {
        assert!(!is_left_out(needed), "{needed} is left out");
    }
    for needless in ["docs/guide.md", "target/debug", "everhook-data", ".git/HEAD"] {
        assert!(is_left_out(needless), "{needless} is sent to the builder");
    }
}

/// The services of `compose.yaml` that are URLs' hosts, and the port that each listens at unless it is told otherwise: those of their images.
const DEFAULT_PORTS: [(&str, &str, u16); 3] =
    [("postgres", "postgres:", 5_432), ("redis", "redis:", 6_379), ("rabbitmq", "rabbitmq:", 5_672)];

/// A value for each variable that Compose substitutes: what the comments of `example.env` ask for.
fn substituted(text: &str) -> String {
    let seal_key = everhook_testbed::database::SEAL_KEY;
    let values = [
        ("POSTGRES_PASSWORD", "secret-1"),
        ("RABBITMQ_PASSWORD", "secret-2"),
        ("EVERHOOK_SEAL_KEY", seal_key),
        ("EVERHOOK_ADMIN_KEY", "eh_0123456789abcdefghijkl"),
    ];
    values.iter().fold(text.to_owned(), |text, (name, value)| {
        let begin = format!("${{{name}");
        text.split(&begin)
            .enumerate()
            .map(|(index, part)| if index == 0 { part.to_owned() } else { format!("{value}{}", part.split_once('}').expect("its end").1) })
            .collect()
    })
}

/// The variables that every node of `compose.yaml` is started with.
fn environment_of_nodes(compose: &str) -> Vec<(String, String)> {
    let node = compose.split_once("x-node: &node").expect("what nodes share").1.split_once("\nservices:").expect("its end").0;
    let lines = node.split_once("environment:").expect("variables").1.lines().map(str::trim);
    let set = lines.filter(|line| line.starts_with("EVERHOOK_")).map(|line| line.split_once(": ").expect("NAME: value"));
    set.map(|(name, value)| (name.to_owned(), substituted(value.trim_matches('"')))).collect()
}

/// What `compose.yaml` says of a service.
fn service<'c>(compose: &'c str, name: &str) -> Option<&'c str> {
    let services = compose.split_once("\nservices:\n")?.1;
    let begin = services.find(&format!("  {name}:\n"))?;
    let rest = &services[begin + name.len() + 4..];
    Some(rest.find("\n\n").map_or(rest, |end| &rest[..end]))
}

#[tokio::test(flavor = "multi_thread")]
async fn composes_nodes_are_given_values_that_are_taken_and_hosts_and_ports_of_its_services() {
    let compose = read("compose.yaml");
    let set = environment_of_nodes(&compose);
    assert!(set.len() >= 5 && set.iter().all(|(_, value)| !value.contains('$')), "{set:?}");
    // The command takes each value, and says that it comes from where it was set.
    let mut command = everhook_testbed::node::command();
    command.args(["config", "--json"]).envs(set.clone());
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("the binary runs");
    assert!(output.status.success(), "{}", stderr(&output));
    let in_force: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    for (variable, _) in &set {
        let name = variable.trim_start_matches("EVERHOOK_").to_lowercase();
        let source = in_force[&name]["source"].as_str().unwrap_or_default();
        assert!(source.contains(variable.as_str()) || source.contains("environment"), "{variable} is not in force: {}", in_force[&name]);
    }
    let mut urls = 0;
    for (variable, value) in &set {
        let Ok(url) = value.parse::<url::Url>() else { continue };
        let host = url.host_str().unwrap_or_else(|| panic!("{variable} has no host"));
        let of_service = service(&compose, host).unwrap_or_else(|| panic!("{variable}: compose.yaml has no service {host}"));
        let (_, image, port) =
            DEFAULT_PORTS.into_iter().find(|(name, ..)| *name == host).unwrap_or_else(|| panic!("{host} has no known port"));
        assert!(of_service.contains(&format!("image: {image}")), "{host} is not what listens at {port}:\n{of_service}");
        assert_eq!(url.port(), Some(port), "{variable} leads to another port than the one that {host} listens at");
        urls += 1;
    }
    assert_eq!(urls, DEFAULT_PORTS.len(), "every service is used");
}
