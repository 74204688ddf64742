//! Requests as a receiver gets them, byte for byte.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use axum::{Router, http::HeaderMap, routing::post};
use everhook::cli::client::Connection;
use everhook_testbed::node::Node;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// A first delivery takes milliseconds; this machine may be busy.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(10);

/// One request, and the secrets that it must verify with.
pub struct Capture {
    pub secrets: Vec<String>,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Capture {
    /// Publishes an event to an endpoint with one secret.
    pub async fn of_one_request(node: &Node) -> Self {
        let mut scene = Scene::set(node).await;
        let secret = scene.secret().await;
        scene.publish(vec![secret]).await
    }

    /// Publishes an event while the grace of a rotation lasts.
    pub async fn of_a_request_during_rotation(node: &Node) -> Self {
        let mut scene = Scene::set(node).await;
        let old = scene.secret().await;
        let path = format!("/v1/endpoints/{}/secret/rotate", scene.endpoint);
        scene.ask(Method::POST, &path, Some(json!({"grace_seconds": 3_600}))).await;
        let new = scene.secret().await;
        assert_ne!(old, new, "a rotation makes a new secret");
        scene.publish(vec![new, old]).await
    }
}

/// An endpoint of its own event type, and what arrives there.
struct Scene {
    connection: Connection,
    endpoint: String,
    event_type: String,
    arrivals: mpsc::Receiver<(BTreeMap<String, String>, String)>,
}

impl Scene {
    async fn set(node: &Node) -> Self {
        let (address, arrivals) = receiver().await;
        let mut connection = Connection::new(node.server());
        let event_type = format!("capture.{}", address.port());
        let endpoint = json!({"url": format!("http://{address}/"), "event_types": [&event_type]});
        let made = connection.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.expect("the endpoint is made");
        Self { connection, endpoint: made["id"].as_str().expect("an id").to_owned(), event_type, arrivals }
    }

    async fn ask(&mut self, method: Method, path: &str, body: Option<Value>) -> Value {
        self.connection.ask(method, path, body.as_ref()).await.expect("the server says yes")
    }

    async fn secret(&mut self) -> String {
        let path = format!("/v1/endpoints/{}/secret", self.endpoint);
        let answer = self.ask(Method::GET, &path, None).await;
        answer["secret"].as_str().expect("a secret").to_owned()
    }

    async fn publish(mut self, secrets: Vec<String>) -> Capture {
        let event = json!({"type": self.event_type, "data": {"text": "Grüße, \"quoted\" \\ and 1.10", "n": 1.10}});
        self.ask(Method::POST, "/v1/events", Some(event)).await;
        let arrival = tokio::time::timeout(ARRIVAL_TIMEOUT, self.arrivals.recv()).await.expect("the event arrives in time");
        let (headers, body) = arrival.expect("the receiver lives");
        Capture { secrets, headers, body }
    }
}

async fn receiver() -> (SocketAddr, mpsc::Receiver<(BTreeMap<String, String>, String)>) {
    let (sender, arrivals) = mpsc::channel(16);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    let receive = move |headers: HeaderMap, body: String| async move {
        let text = |value: &http::HeaderValue| value.to_str().expect("headers are text").to_owned();
        let headers = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        sender.send((headers, body)).await.expect("the test listens");
    };
    let app = Router::new().route("/", post(receive));
    tokio::spawn(async move { axum::serve(listener, app).await });
    (address, arrivals)
}
