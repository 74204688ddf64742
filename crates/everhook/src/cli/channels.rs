//! `everhook channels test`: sends a test notification through a channel of a running server and says what came of it.

use anyhow::bail;
use http::Method;
use serde_json::Value;
use url::form_urlencoded;

use super::client::{Connection, Server, ServerArgs};

/// Test a notification channel.
#[derive(Debug, clap::Args)]
pub struct ChannelsArgs {
    #[command(subcommand)]
    command: ChannelsCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ChannelsCommand {
    /// Send a test notification
    Test(TestArgs),
}

#[derive(Debug, clap::Args)]
struct TestArgs {
    /// The channel's name, or its e-mail address.
    name: String,
    #[command(flatten)]
    server: ServerArgs,
    /// Print the server's response as JSON.
    #[arg(long)]
    json: bool,
}

/// Sends the notification and prints what the other side said.
///
/// # Errors
/// When the server cannot be reached or refuses, or the notification was not delivered.
pub async fn run(ChannelsArgs { command: ChannelsCommand::Test(args) }: ChannelsArgs) -> anyhow::Result<()> {
    let mut connection = Connection::new(Server::from_args(&args.server)?);
    // A path writes a blank otherwise than a form does.
    let name: String = form_urlencoded::byte_serialize(args.name.as_bytes()).collect();
    let path = format!("/v1/channels/{}/test", name.replace('+', "%20"));
    let answer = connection.ask(Method::POST, &path, None).await?;
    if args.json {
        anstream::println!("{answer}");
    } else if is_delivered(&answer) {
        anstream::println!("{}", outcome(&args.name, &answer));
    }
    if !is_delivered(&answer) {
        bail!("{}", outcome(&args.name, &answer));
    }
    Ok(())
}

fn is_delivered(answer: &Value) -> bool {
    answer["delivered"] == true
}

/// One sentence for people.
fn outcome(name: &str, answer: &Value) -> String {
    let millis = answer["duration_ms"].as_u64().unwrap_or_default();
    let status = answer["status"].as_u64().map(|status| format!(" with {status}")).unwrap_or_default();
    if is_delivered(answer) {
        return format!("the test notification was accepted{status} after {millis} ms: `{name}` works");
    }
    format!("the test notification was not delivered: {}", answer["error"].as_str().unwrap_or("there is no answer"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_answer_is_told_in_one_sentence() {
        let taken = json!({"delivered": true, "status": 200, "duration_ms": 12, "error": null});
        assert_eq!(outcome("ops", &taken), "the test notification was accepted with 200 after 12 ms: `ops` works");
        let failed = json!({"delivered": false, "status": 404, "duration_ms": 12, "error": "Slack answered 404: no_service"});
        assert_eq!(outcome("ops", &failed), "the test notification was not delivered: Slack answered 404: no_service");
    }
}
