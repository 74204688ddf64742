//! Sources: what anybody can post to `/in/{source}` without a key, at its worst.

use std::{collections::BTreeMap, time::Duration};

use http::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::{Instant, timeout},
};

use super::{
    arena::{Arena, Bounds, LeftToEnd, Tenant, keep_sending},
    connections::connect_from,
};

/// How long an attack goes on that has no end of its own.
const ATTACK_FOR: Duration = Duration::from_secs(3);
/// Longer than any answer takes.
const ANSWER_WITHIN: Duration = Duration::from_secs(40);
/// Where attackers come from: each is a client of its own to the server.
const ADDRESSES: [&str; 4] = ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"];
/// More than the attack makes, so that something else has to hold it up.
const NO_RATE: u32 = 1_000_000;

/// How often each status was answered.
pub type Statuses = BTreeMap<u16, usize>;

impl Tenant {
    /// Makes a source, and says its path.
    pub async fn source(&self, source: Value) -> String {
        let made = self.connect().ask(Method::POST, "/v1/sources", Some(&source)).await.expect("a source");
        format!("/in/{}", made["id"].as_str().expect("its id"))
    }
}

/// Posts once over a connection of its own, and says the status; `None` if the connection was refused or cut.
pub async fn post(arena: &Arena, from: &str, path: &str, headers: &str, body: &[u8]) -> Option<u16> {
    let mut stream = connect_from(from, arena).await?;
    let head = format!("POST {path} HTTP/1.1\r\nHost: everhook\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n", body.len());
    let exchange = async {
        // A server that refuses by the head may close before all of the body is sent.
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.write_all(body).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        answer
    };
    let answer = timeout(ANSWER_WITHIN, exchange).await.expect("an answer in time");
    std::str::from_utf8(answer.get(9..12)?).ok()?.parse().ok()
}

/// Has so many clients post the same until the time is up, and counts what they are answered.
async fn flood(arena: &Arena, clients: usize, path: &str, headers: &str, body: &[u8]) -> Statuses {
    let (until, mut statuses) = (Instant::now() + ATTACK_FOR, Statuses::new());
    let one = async |from: &'static str| {
        let mut seen = Vec::new();
        while Instant::now() < until {
            seen.extend(post(arena, from, path, headers, body).await);
        }
        seen
    };
    let clients = (0..clients).map(|number| one(ADDRESSES[number % ADDRESSES.len()]));
    for status in futures_util::future::join_all(clients).await.into_iter().flatten() {
        *statuses.entry(status).or_default() += 1;
    }
    statuses
}

/// How many events a source has, as far as one page shows.
async fn stored(tenant: &Tenant, path: &str) -> usize {
    let path = format!("/v1/sources/{}/events?limit=250", path.trim_start_matches("/in/"));
    let page = tenant.connect().ask(Method::GET, &path, None).await.expect("its events");
    page["data"].as_array().expect("rows").len()
}

#[track_caller]
fn assert_only(statuses: &Statuses, allowed: &[u16]) {
    assert!(!statuses.is_empty() && statuses.keys().all(|status| allowed.contains(status)), "{statuses:?}, not only {allowed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_large_bodies_that_nobody_signed_is_refused() {
    let mut arena = Arena::start([]).await;
    let github = json!({"name": "github", "kind": "github", "secrets": ["s"], "rate_limit": {"per_ip_per_minute": NO_RATE}});
    let path = arena.attacker.source(github).await;
    let body = format!(r#"{{"a":"{}"}}"#, "x".repeat((1 << 20) - 100));
    let headers = format!("Content-Type: application/json\r\nX-GitHub-Event: push\r\nX-Hub-Signature-256: sha256={}\r\n", "0".repeat(64));
    let watch = arena.watch().await;
    let statuses = flood(&arena, 40, &path, &headers, body.as_bytes()).await;
    // A debug build keeps more of what it has freed than a release build, and takes in more of these bodies the quieter the machine is.
    let bounds = Bounds::of_this_run_growing(675 << 20);
    watch.end_within("40 clients that post 1 MB with a wrong signature to a source", bounds).await;
    // 503: there is no memory for more bodies of the organization at this moment.
    assert_only(&statuses, &[401, 503]);
    assert!(statuses.contains_key(&401) && stored(&arena.attacker, &path).await == 0, "{statuses:?}");
    let request =
        format!("POST {path} HTTP/1.1\r\nHost: everhook\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    let attack = keep_sending(&arena.node.url(), &request, 40);
    tokio::time::sleep(Duration::from_millis(500)).await;
    arena.stop("40 clients that post 1 MB with a wrong signature to a source", LeftToEnd::Nothing).await;
    drop(attack);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_ten_thousand_items_at_an_unsigned_source_are_held_up_by_its_limit() {
    let arena = Arena::start([]).await;
    let recipe = json!({"each": "/*", "body": "json"});
    let path =
        arena.attacker.source(json!({"name": "open", "kind": "custom", "recipe": recipe, "rate_limit": {"per_ip_per_minute": 500}})).await;
    let body = format!("[{}]", vec!["{}"; 10_000].join(","));
    let watch = arena.watch().await;
    let mut statuses = Statuses::new();
    for from in ADDRESSES {
        for _ in 0..15 {
            *statuses
                .entry(post(&arena, from, &path, "Content-Type: application/json\r\n", body.as_bytes()).await.unwrap_or(0))
                .or_default() += 1;
        }
    }
    watch.end("batches of 10,000 items to an unsigned source, from four addresses").await;
    assert_only(&statuses, &[200, 429]);
    // Five hundred requests a minute from each address, and a batch counts as a hundred and one. The attack takes less than a minute.
    assert!((4..=40).contains(&statuses[&200]) && statuses[&429] >= 20, "{statuses:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_shape_of_a_request_to_a_source_takes_long_or_becomes_many_times_its_size() {
    let arena = Arena::start([]).await;
    let source = |fields: Value| {
        let mut source = json!({"rate_limit": {"per_ip_per_minute": NO_RATE}});
        source.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        source
    };
    let owner = &arena.attacker;
    let open = owner.source(source(json!({"name": "open", "kind": "none"}))).await;
    let split = owner.source(source(json!({"name": "split", "kind": "custom", "recipe": {"each": "/a/*/b", "body": "json"}}))).await;
    let garmin = owner.source(source(json!({"name": "garmin", "kind": "garmin"}))).await;
    let stripe = owner.source(source(json!({"name": "stripe", "kind": "stripe", "secrets": ["s"]}))).await;
    let twilio = owner.source(source(json!({"name": "twilio", "kind": "twilio", "secrets": ["s"]}))).await;
    let standard =
        owner.source(source(json!({"name": "standard", "kind": "standard", "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}))).await;
    let json = "Content-Type: application/json\r\n";
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let million = |item: &str| item.repeat((1_000_000) / item.len());
    let many_headers: String = (0..60).map(|number| format!("X-Header-{number}: {}\r\n", "v".repeat(100))).collect();
    let (headers_60, headers_2000) = (format!("{json}{many_headers}"), format!("{json}{}", many_headers.repeat(35)));
    let signatures = format!("{json}Stripe-Signature: t=1700000000{}\r\n", ",v1=00".repeat(2_000));
    let list = format!("{json}webhook-id: a\r\nwebhook-timestamp: 1700000000\r\nwebhook-signature: {}\r\n", "v1,AAAA ".repeat(1_500));
    let xml = format!(
        "<?xml version=\"1.0\"?><!DOCTYPE a [<!ENTITY a \"aaaaaaaaaa\">{}]><a>{}</a>",
        (0..20).map(|n| format!("<!ENTITY a{n} \"{}\">", format!("&a{};", n - 1).repeat(10))).collect::<String>().replace("&a-1;", "&a;"),
        million("&a19;")
    );
    let bearing = |headers: &str, more: &str| format!("{headers}{more}\r\n");
    let twilio_form = bearing(form, "X-Twilio-Signature: AAAA");
    let attacks: Vec<(&str, &str, &str, String, &[u16])> = vec![
        ("deep JSON, split", &split, json, "[".repeat(1_000_000), &[400]),
        ("deep objects, split", &split, json, million(r#"{"a":["#), &[400]),
        ("deep JSON, whole", &garmin, json, million(r#"{"a":"#), &[400]),
        ("a number of a million digits", &split, json, format!("[{}]", "9".repeat(1_000_000)), &[200, 400]),
        ("a hundred thousand empty members", &garmin, json, format!("{{{}\"z\":1}}", million(r#""a":[],"#)), &[200, 400, 413]),
        ("an XML bomb", &open, "Content-Type: application/xml\r\n", xml, &[200, 413]),
        ("a form with half a million fields", &twilio, &twilio_form, million("a&"), &[400, 401]),
        ("a form of percent signs", &twilio, &twilio_form, million("%"), &[400, 401]),
        ("two thousand signatures", &stripe, &signatures, "{}".to_owned(), &[401, 431]),
        ("fifteen hundred signatures in a list", &standard, &list, "{}".to_owned(), &[401, 431]),
        ("sixty headers", &open, &headers_60, "{}".to_owned(), &[200]),
        ("two thousand headers", &open, &headers_2000, "{}".to_owned(), &[431]),
    ];
    let watch = arena.watch().await;
    for (name, path, headers, body, allowed) in attacks {
        for from in ADDRESSES {
            let status = post(&arena, from, path, headers, body.as_bytes()).await;
            assert!(status.is_some_and(|status| allowed.contains(&status)), "{name}: {status:?}, not one of {allowed:?}");
        }
    }
    watch.end("deep, wide and endless requests to sources").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_that_somebody_invents_take_bounded_memory() {
    /// More than are remembered (100,000), twice.
    const BATCHES: usize = 25;
    const USERS: usize = 9_000;
    let arena = Arena::start([]).await;
    // One event a minute about each user: that about the last one of each batch is refused, and with it the whole batch, when the others have been counted.
    let limits = json!({"per_ip_per_minute": NO_RATE, "per_user_per_minute": 1});
    let path = arena.attacker.source(json!({"name": "garmin", "kind": "garmin", "rate_limit": limits})).await;
    let headers = "Content-Type: application/json\r\n";
    let body = |items: Vec<String>| format!("{{\"dailies\":[{}]}}", items.join(","));
    let item = |user: String| format!("{{\"userId\":\"{user}\"}}");
    assert_eq!(post(&arena, "127.0.0.2", &path, headers, body(vec![item("zz".to_owned())]).as_bytes()).await, Some(200));
    let watch = arena.watch().await;
    let mut statuses = Statuses::new();
    for batch in 0..BATCHES {
        let users = (0..USERS).map(|user| item(format!("{batch}-{user}"))).chain([item("zz".to_owned())]);
        let status = post(&arena, ADDRESSES[batch % 4], &path, headers, body(users.collect()).as_bytes()).await;
        *statuses.entry(status.unwrap_or(0)).or_default() += 1;
    }
    watch.end("225,000 invented users of an unsigned source").await;
    assert_only(&statuses, &[200, 429]);
    // A bucket that is dropped to make room is full again, so that a batch may get in.
    assert!(statuses[&429] >= BATCHES - 5, "{statuses:?}");
}
