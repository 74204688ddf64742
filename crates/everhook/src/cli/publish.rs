//! `everhook publish`: publishes one event to a running server and says what became of it.
//!
//! Called by a person or a script. It sends the data byte for byte as given, so that what is signed is what was written.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use http::Method;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::client::{Connection, Server, ServerArgs};

/// Publish one event.
#[derive(Debug, clap::Args)]
pub struct PublishArgs {
    /// The event type, such as `user.created`.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: String,
    /// The event's data: any JSON value.
    #[arg(long, value_name = "JSON", required_unless_present = "data_file", conflicts_with = "data_file")]
    data: Option<String>,
    /// A file with the data; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    data_file: Option<PathBuf>,
    /// The application to publish to, by id or uid; the organization's `default` if absent.
    #[arg(long, value_name = "ID")]
    application: Option<String>,
    /// The idempotency key: publishing twice with the same key creates one event.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// The part of your platform that published the event.
    #[arg(long)]
    source: Option<String>,
    /// The priority of the event.
    #[arg(long, value_parser = ["high", "normal", "low"])]
    priority: Option<String>,
    /// What the event is about: endpoints with `ordering: per_key` get events with the same key in order.
    #[arg(long, value_name = "KEY")]
    ordering_key: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
    /// Print the server's response as JSON.
    #[arg(long)]
    json: bool,
}

/// The body of `POST /v1/events`. The data is raw JSON: parsing and printing it again would change numbers and escapes.
#[derive(Serialize)]
struct Publication<'a> {
    #[serde(rename = "type")]
    event_type: &'a str,
    data: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    application_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ordering_key: Option<&'a str>,
}

/// Publishes the event and prints the answer.
///
/// # Errors
/// When the data is no JSON, the server cannot be reached, or it refuses the event.
pub async fn run(args: PublishArgs) -> anyhow::Result<()> {
    let data = data_of(&args)?;
    let body = body_of(&args, &data)?;
    let mut connection = Connection::new(Server::from_args(&args.server)?);
    let answer = connection.send(Method::POST, "/v1/events", body).await?.into_json()?;
    if args.json {
        anstream::println!("{answer}");
    } else {
        anstream::println!("{}", outcome(&answer));
    }
    Ok(())
}

fn data_of(args: &PublishArgs) -> anyhow::Result<Box<RawValue>> {
    let text = match (&args.data, &args.data_file) {
        (Some(text), _) => text.clone(),
        (None, Some(file)) => read_text(file)?,
        (None, None) => unreachable!("clap asks for one of the two"),
    };
    serde_json::from_str(&text).context("the data is not JSON (text must be quoted: '\"like this\"')")
}

/// Reads a file, or standard input where it is named `-`.
fn read_text(file: &Path) -> anyhow::Result<String> {
    if file != Path::new("-") {
        return std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()));
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read standard input as text")?;
    Ok(text)
}

fn body_of(args: &PublishArgs, data: &RawValue) -> anyhow::Result<Vec<u8>> {
    let publication = Publication {
        event_type: &args.event_type,
        data,
        application_id: args.application.as_deref(),
        idempotency_key: args.idempotency_key.as_deref(),
        source: args.source.as_deref(),
        priority: args.priority.as_deref(),
        ordering_key: args.ordering_key.as_deref(),
    };
    serde_json::to_vec(&publication).context("cannot write the event as JSON")
}

/// One sentence for people.
fn outcome(answer: &Value) -> String {
    let id = answer["id"].as_str().unwrap_or("?");
    if answer["spooled"].as_bool() == Some(true) {
        return match answer["duplicate"].as_bool() {
            Some(true) => format!("event {id} is already spooled with this idempotency key, until the server's database is available"),
            _ => format!("event {id} accepted: spooled on the server's disk until its database is available"),
        };
    }
    let deliveries = answer["deliveries"].as_u64().unwrap_or(0);
    let to = match deliveries {
        0 => "no matching endpoint".to_owned(),
        1 => "1 delivery".to_owned(),
        many => format!("{many} deliveries"),
    };
    match answer["duplicate"].as_bool() {
        Some(true) => format!("event {id} was already published with this idempotency key ({to}); nothing was created"),
        _ => format!("event {id} accepted: {to}"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::json;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: PublishArgs,
    }

    #[test]
    fn the_answer_is_told_in_one_sentence() {
        let cases = [
            (json!({"id": "e", "deliveries": 0, "duplicate": false}), "event e accepted: no matching endpoint"),
            (json!({"id": "e", "deliveries": 1, "duplicate": false}), "event e accepted: 1 delivery"),
            (json!({"id": "e", "deliveries": 3, "duplicate": false}), "event e accepted: 3 deliveries"),
            (
                json!({"id": "e", "deliveries": 3, "duplicate": true}),
                "event e was already published with this idempotency key (3 deliveries); nothing was created",
            ),
        ];
        let spooled = |duplicate: bool| json!({"id": "e", "deliveries": null, "duplicate": duplicate, "spooled": true});
        assert_eq!(outcome(&spooled(false)), "event e accepted: spooled on the server's disk until its database is available");
        assert_eq!(
            outcome(&spooled(true)),
            "event e is already spooled with this idempotency key, until the server's database is available"
        );
        for (answer, sentence) in cases {
            assert_eq!(outcome(&answer), sentence);
        }
    }

    #[test]
    fn data_is_sent_byte_for_byte_and_fields_not_given_are_left_out() {
        let line = Line::parse_from(["publish", "--type", "user.created", "--data", r#"{"n": 1.10, "e": "\u0041", "n": 2}"#]);
        let data = data_of(&line.args).expect("JSON");
        let body = body_of(&line.args, &data).expect("a body");
        assert_eq!(String::from_utf8_lossy(&body), r#"{"type":"user.created","data":{"n": 1.10, "e": "\u0041", "n": 2}}"#);
    }

    #[test]
    fn exactly_one_of_data_and_data_file_must_be_given() {
        assert!(Line::try_parse_from(["publish", "--type", "a"]).is_err());
        assert!(Line::try_parse_from(["publish", "--type", "a", "--data", "1", "--data-file", "f"]).is_err());
        assert!(Line::try_parse_from(["publish", "--type", "a", "--data-file", "f"]).is_ok());
    }
}
