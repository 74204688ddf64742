//! That the server tells administrators by e-mail, over real SMTP, and once although it is killed in between.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Router, http::StatusCode, routing::post};
use everhook::cli::client::Connection;
use everhook_testbed::{
    mail_server::{MailAction, MailServer, MailStep},
    node::{ADMIN_KEY, Node},
};
use http::Method;
use serde_json::json;

use super::{run, scratch, stderr, stdout};

/// A mail takes milliseconds, and its first retry comes after 5 s; this machine may be busy.
const TOLD_WITHIN: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A server with two administrators and this mail server.
fn node(mail_server: &MailServer) -> Node {
    let smtp = format!("--smtp=smtp://127.0.0.1:{}", mail_server.port);
    Node::new(scratch()).with_flags([&smtp, "--smtp-from=Everhook <hooks@example.com>", "--admin-emails=ops@example.com, dev@example.com"])
}

/// Publishes an event to a receiver that answers 410.
async fn disable_an_endpoint(node: &Node) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let router = Router::new().route("/", post(|| async { StatusCode::GONE }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let mut connection = Connection::new(node.server());
    let endpoint = json!({"url": format!("http://{address}/"), "name": "Orders <b>", "event_types": ["order.paid"]});
    connection.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.expect("the endpoint is made");
    let event = json!({"type": "order.paid", "data": {}});
    connection.ask(Method::POST, "/v1/events", Some(&event)).await.expect("it is published");
}

async fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun_at = Instant::now();
    while !is_so() {
        assert!(begun_at.elapsed() < TOLD_WITHIN, "{what}");
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn administrators_are_told_that_an_endpoint_was_disabled() {
    let mail_server = MailServer::start().await.expect("a mail server");
    let mut node = node(&mail_server);
    node.start();
    node.wait_until_ready().await;
    disable_an_endpoint(&node).await;
    wait_until("two mails come", || mail_server.taken().len() == 2).await;
    let mut recipients: Vec<_> = mail_server.taken().into_iter().flat_map(|mail| mail.to).collect();
    recipients.sort();
    assert_eq!(recipients, ["dev@example.com", "ops@example.com"]);
    let mail = &mail_server.taken()[0];
    assert_eq!((mail.from.as_str(), mail.header("from").as_deref()), ("hooks@example.com", Some("Everhook <hooks@example.com>")));
    assert_eq!(mail.header("subject").as_deref(), Some("[Everhook - Action Required] Endpoint Disabled: Orders <b>"));
    assert!(mail.data.contains("410 Gone") && mail.data.contains("Orders &lt;b&gt;"), "{}", mail.data);
    // Whoever looks finds where each went, and that it was delivered.
    let mut connection = Connection::new(node.server());
    let deliveries = connection.ask(Method::GET, "/v1/deliveries?application_id=operational&status=delivered", None).await.expect("a list");
    let kinds: Vec<_> = deliveries["data"].as_array().expect("rows").iter().map(|row| row["destination"]["kind"].clone()).collect();
    assert_eq!(kinds, ["channel", "channel"], "{deliveries}");
    let path = format!("/v1/deliveries/{}/attempts/1", deliveries["data"][0]["id"].as_str().expect("an id"));
    let attempt = connection.ask(Method::GET, &path, None).await.expect("an attempt");
    assert!(attempt["email"]["text"].as_str().expect("a text").contains("410 Gone") && attempt["request"].is_null(), "{attempt}");
    assert_eq!(attempt["response"]["status"], 250);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_is_tested_by_its_address_and_the_command_fails_with_what_the_other_side_said() {
    let mail_server = MailServer::start().await.expect("a mail server");
    let mut node = node(&mail_server);
    node.add_flags(&["--brand", "Acme & Sons"]);
    node.start();
    node.wait_until_ready().await;
    let test = ["channels", "test", "ops@example.com", "--url", &node.url(), "--key", ADMIN_KEY];
    let tested = run(&test).await;
    assert!(tested.status.success(), "{}", stderr(&tested));
    assert!(stdout(&tested).contains("`ops@example.com` works"), "{}", stdout(&tested));
    let mail = &mail_server.taken()[0];
    assert_eq!(mail.header("subject").as_deref(), Some("[Acme & Sons - Test] Test Notification"));
    assert_eq!(mail.header("list-id").as_deref(), Some("Everhook notifications <notifications.everhook.example.com>"));
    mail_server.script([(MailStep::Body, MailAction::Reply("550 no such user"))]);
    let failed = run(&[&test[..], &["--json"]].concat()).await;
    assert_eq!(failed.status.code(), Some(1), "{}", stdout(&failed));
    assert!(stderr(&failed).contains("the test notification was not delivered") && stdout(&failed).contains("\"delivered\":false"));
    let missing = run(&["channels", "test", "nobody", "--url", &node.url(), "--key", ADMIN_KEY]).await;
    assert!(stderr(&missing).contains("no channel has this name"), "{}", stderr(&missing));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_while_mail_is_transferred_loses_none() {
    let mail_server = MailServer::start().await.expect("a mail server");
    // The first connections hang in the middle of a mail.
    mail_server.script([(MailStep::Body, MailAction::Hang), (MailStep::Body, MailAction::Hang)]);
    let mut node = node(&mail_server);
    node.start();
    node.wait_until_ready().await;
    disable_an_endpoint(&node).await;
    wait_until("both mails hang", || mail_server.script_left() == 0).await;
    node.kill();
    node.start();
    node.wait_until_ready().await;
    wait_until("two mails come", || mail_server.taken().len() >= 2).await;
    let mut recipients: Vec<_> = mail_server.taken().into_iter().flat_map(|mail| mail.to).collect();
    recipients.sort();
    assert_eq!(recipients, ["dev@example.com", "ops@example.com"], "each once: the first transfers never ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_fails_is_warned_of_disabled_and_recovers_within_seconds_if_the_settings_say_so() {
    let mail_server = MailServer::start().await.expect("a mail server");
    let mut node = node(&mail_server);
    node.add_flags(&[
        "--endpoint-failing-min=1",
        "--endpoint-failing-spread=0s",
        "--endpoint-warning-after=1s",
        "--endpoint-disable-after=3s",
        "--health-check-cron=* * * * * *",
    ]);
    node.start();
    node.wait_until_ready().await;
    let works = Arc::new(AtomicBool::new(false));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let answers = works.clone();
    let answer = move || async move { if answers.load(Ordering::Relaxed) { StatusCode::OK } else { StatusCode::BAD_GATEWAY } };
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/", post(answer))).await });
    let mut connection = Connection::new(node.server());
    let endpoint = json!({"url": format!("http://{address}/"), "uid": "shop", "name": "Shop", "event_types": ["order.paid"]});
    connection.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.expect("the endpoint is made");
    let event = json!({"type": "order.paid", "data": {}});
    connection.ask(Method::POST, "/v1/events", Some(&event)).await.expect("it is published");
    wait_until("four mails come", || mail_server.taken().len() == 4).await;
    let health = connection.ask(Method::GET, "/v1/endpoints/shop/health", None).await.expect("its health");
    assert_eq!(health["status"], "disabled", "{health}");
    works.store(true, Ordering::Relaxed);
    connection.ask(Method::PUT, "/v1/endpoints/shop", Some(&json!({"enabled": true}))).await.expect("it is enabled");
    connection.ask(Method::POST, "/v1/events", Some(&event)).await.expect("it is published");
    wait_until("six mails come", || mail_server.taken().len() == 6).await;
    let mails = mail_server.taken();
    let mut subjects: Vec<_> =
        mails.iter().filter(|mail| mail.to == ["ops@example.com"]).filter_map(|mail| mail.header("subject")).collect();
    subjects.sort();
    let expected = [
        "[Everhook - Action Required] Endpoint Disabled: Shop",
        "[Everhook - Info] Endpoint Recovered: Shop",
        "[Everhook - Warning] Failing Endpoint: Shop",
    ];
    assert_eq!(subjects, expected);
    let history = connection.ask(Method::GET, "/v1/endpoints/shop/health", None).await.expect("its health")["history"].clone();
    let kinds: Vec<_> = history.as_array().expect("rows").iter().map(|row| row["kind"].clone()).collect();
    assert_eq!(kinds, ["recovered", "disabled", "warned"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_e_mail_are_checked_and_the_password_is_never_shown() {
    let shown = run(&["config", "--smtp", "smtp://me:hunter2@mail.example.com", "--smtp-from", "hooks@example.com"]).await;
    assert!(shown.status.success(), "{}", stderr(&shown));
    assert!(stdout(&shown).contains("smtp_from") && !stdout(&shown).contains("hunter2"), "{}", stdout(&shown));
    let cases: [(&[&str], &str); 5] = [
        (&["--smtp", "smtp://mail.example.com"], "requires `smtp_from`"),
        (&["--smtp-from", "hooks@example.com"], "smtp_from: requires `smtp`"),
        (&["--admin-emails", "ops@example.com"], "admin_emails: requires `smtp`"),
        (&["--smtp", "http://me:hunter2@mail", "--smtp-from", "a@b"], "must be a URL as in smtp://"),
        (&["--smtp", "smtp://mail", "--smtp-from", "a@b", "--admin-emails", "a@b, no address"], "`no address` must be an e-mail address"),
    ];
    for (flags, words) in cases {
        let refused = run(&[&["config"], flags].concat()).await;
        assert_eq!(refused.status.code(), Some(1), "{flags:?}");
        assert!(stderr(&refused).contains(words) && !stderr(&refused).contains("hunter2"), "{flags:?}: {}", stderr(&refused));
    }
}
