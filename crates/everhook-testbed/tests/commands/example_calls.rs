//! The four examples of docs/calling.md: each call is made as it is written there, and has the answers that the page shows.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use everhook::cli::client::Connection;
use everhook_testbed::node::Node;
use http::Method;
use serde_json::{Value, json};

use super::started;
use crate::api::calls::app::{Answer, App};

/// How long what happens later may take on a busy machine.
const HAPPENS_WITHIN: Duration = Duration::from_secs(60);
/// What differs from call to call: only its type is compared.
const VARIABLE: [&str; 5] = ["duration_ms", "age_ms", "picked", "picks", "attempt_count"];

/// One example of the page.
#[derive(Default)]
struct Example {
    capabilities: Value,
    path: String,
    call: Value,
    answers: Vec<Shown>,
}

/// An answer that the page shows.
struct Shown {
    /// When it comes, in words.
    when: String,
    /// The request that has it, if it is not the call.
    body: Option<Value>,
    status: u16,
    answer: Value,
}

/// The examples of the page, in their order.
fn examples() -> Vec<Example> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/calling.md");
    let page = fs::read_to_string(page).expect("the page");
    let (_, rest) = page.split_once("\n## Four examples\n").expect("the examples");
    let (section, _) = rest.split_once("\n## ").expect("another section");
    section.split("\n### ").skip(1).map(read_example).collect()
}

fn read_example(text: &str) -> Example {
    let mut example = Example::default();
    let (mut words, mut is_code) = ("", false);
    let mut code = String::new();
    for line in text.lines() {
        if line.starts_with("```") {
            if is_code {
                example.add(&code, words);
                code.clear();
            }
            is_code = !is_code;
        } else if is_code {
            code.extend([line, "\n"]);
        } else if line.starts_with("**") {
            words = line;
        }
    }
    example
}

impl Example {
    fn add(&mut self, code: &str, words: &str) {
        let read = |json: &str| serde_json::from_str::<Value>(json).unwrap_or_else(|error| panic!("{json}: {error}"));
        let (first, rest) = code.split_once(' ').expect("a word, and more");
        if let Some(path) = rest.lines().next().filter(|_| first == "POST") {
            path.clone_into(&mut self.path);
            self.call = read(code.split_once('\n').expect("a body").1);
        } else if let Ok(status) = first.parse() {
            let when = words.split("**").nth(1).expect("bold words").trim_end_matches('.').to_owned();
            let body =
                words.split('`').filter_map(|part| serde_json::from_str::<Value>(part).ok()).find(|value| value.get("action").is_some());
            self.answers.push(Shown { when, body, status, answer: read(rest) });
        } else {
            self.capabilities = read(code);
        }
    }

    fn capability(&self) -> &str {
        self.capabilities.as_object().and_then(|all| all.keys().next()).expect("a capability")
    }
}

/// An example that is tried out.
struct Trial<'a> {
    example: &'a Example,
    app: App,
    connection: Connection,
    /// What the app answers with where it answers.
    data: Value,
    calls: u32,
}

impl Trial<'_> {
    async fn ask(&mut self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.connection.send(method, path, body).await.expect("an answer");
        (answer.status.as_u16(), serde_json::from_slice(&answer.body).expect("JSON"))
    }

    /// Makes the call of the page; as another question than before, if the app is not to have answered it.
    async fn call(&mut self, is_new: bool) -> (u16, Value) {
        self.calls += 1;
        let mut call = self.example.call.clone();
        if is_new && let Some(Value::String(key)) = call.get_mut("cache_key") {
            key.push_str(&self.calls.to_string());
        }
        self.ask(Method::POST, &self.example.path.clone(), &call).await
    }

    /// The id that the answer to a call of an app that is away names.
    async fn handed_over(&mut self, field: &str) -> String {
        self.app.answer(Answer::Resets);
        let (status, answer) = self.call(true).await;
        assert_eq!(status, 202, "{answer}");
        answer[field].as_str().expect("an id").to_owned()
    }

    /// A job once it stands so.
    async fn job(&mut self, id: &str, is_so: impl Fn(&Value) -> bool) -> (u16, Value) {
        let begun = Instant::now();
        loop {
            let (status, job) = self.ask(Method::GET, &format!("/v1/jobs/{id}"), &Value::Null).await;
            if is_so(&job) || begun.elapsed() > HAPPENS_WITHIN {
                return (status, job);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Closes the breaker, whatever happened before.
    async fn reset(&mut self) {
        let path = format!("/v1/applications/default/capabilities/{}/circuit-breaker", self.example.capability());
        let (status, answer) = self.ask(Method::PATCH, &path, &json!({ "action": "reset" })).await;
        assert_eq!(status, 200, "{answer}");
    }

    /// Has what the page says happen, and returns the answer.
    async fn answer_to(&mut self, shown: &Shown) -> (u16, Value) {
        self.reset().await;
        let is_new = shown.when.contains("has not answered this before");
        match shown.when.as_str() {
            "The app answers" => self.app.answer(Answer::data(&self.data)),
            "The app refuses" => self.app.answer(Answer::Body(200, r#"{"success": false, "error": {"code": "NO"}}"#.to_owned())),
            when if when.starts_with("The app is too slow") => self.app.answer(Answer::Hangs),
            when if when.starts_with("The app is away") => self.app.answer(Answer::Resets),
            when if when.starts_with("The circuit breaker is open") => {
                self.app.answer(Answer::Resets);
                for _ in 0..5 {
                    self.call(true).await;
                }
            }
            "The app is back in time" => {
                let id = self.handed_over("job_id").await;
                self.job(&id, |job| job["attempt_count"] != json!(0)).await;
                self.app.answer(Answer::data(&self.data));
                return self.job(&id, |job| job["status"] == "completed").await;
            }
            "The app stays away" => {
                let id = self.handed_over("job_id").await;
                return self.job(&id, |job| job["status"] == "dead").await;
            }
            when if when.starts_with("The organizer") => {
                let id = self.handed_over("approval_id").await;
                let decision = shown.body.clone().expect("the page says what is sent");
                return self.ask(Method::POST, &format!("/v1/approvals/{id}"), &decision).await;
            }
            other => panic!("the page shows an answer to `{other}`, which is not tried here"),
        }
        self.call(is_new).await
    }
}

/// That an answer is as shown: `…` stands for any text, and as a field for any others.
fn assert_like(shown: &Value, real: &Value, at: &str) {
    match (shown, real) {
        (Value::Object(fields), Value::Object(found)) => {
            let (rest, named): (Vec<_>, Vec<_>) = fields.iter().partition(|(name, _)| *name == "…");
            for (name, value) in &named {
                let real = found.get(*name).unwrap_or_else(|| panic!("{at}: `{name}` is not in {real}"));
                match VARIABLE.contains(&name.as_str()) {
                    true => assert_eq!(std::mem::discriminant(*value), std::mem::discriminant(real), "{at}.{name}: {real}"),
                    false => assert_like(value, real, &format!("{at}.{name}")),
                }
            }
            let unnamed: Vec<_> = found.keys().filter(|name| !fields.contains_key(*name)).collect();
            assert!(!rest.is_empty() || unnamed.is_empty(), "{at}: the page does not show {unnamed:?} of {real}");
        }
        (Value::String(text), Value::String(found)) if text.contains('…') => {
            let begins = text.split('…').next().unwrap_or_default();
            assert!(found.starts_with(begins), "{at}: `{found}` is not `{text}`");
        }
        _ => assert_eq!(shown, real, "{at}"),
    }
}

async fn try_out(node: &Node, example: &Example) {
    let app = App::answering(Answer::Resets).await;
    let mut connection = Connection::new(node.server());
    let manifest = json!({ "base_url": app.url(), "capabilities": example.capabilities });
    connection.ask(Method::PUT, "/v1/applications/default/manifest", Some(&manifest)).await.expect("the manifest is accepted");
    let answered = example.answers.iter().find(|shown| shown.when == "The app answers").expect("the app answers sometimes");
    let mut trial = Trial { example, app, connection, data: answered.answer["data"].clone(), calls: 0 };
    for shown in &example.answers {
        let (status, answer) = trial.answer_to(shown).await;
        let at = format!("{}: {}", example.capability(), shown.when);
        assert_eq!(status, shown.status, "{at}: {answer}");
        assert_like(&shown.answer, &answer, &at);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_four_examples_of_the_page_about_calls_have_the_answers_that_it_shows() {
    let examples = examples();
    let counts: Vec<_> = examples.iter().map(|example| (example.capability(), example.answers.len())).collect();
    assert_eq!(counts, [("winnerSelection", 4), ("validateAnswer", 5), ("notification", 5), ("participantRegistration", 5)]);
    let node = started().await;
    for example in &examples {
        try_out(&node, example).await;
    }
}
