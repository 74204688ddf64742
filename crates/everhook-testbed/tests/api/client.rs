//! A server for one test, and the smallest client that can talk to it.

use bytes::Bytes;
use everhook::{
    config::ServeArgs,
    wiring::{self, Running},
};
use everhook_core::line::Line;
use everhook_testbed::database::{Database, SEAL_KEY};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server with an empty store.
pub struct Server {
    running: Running,
    /// A key that may do everything.
    pub admin: String,
    _folder: Option<TempDir>,
    _database: Option<Database>,
}

/// What a server that was stopped leaves behind. It goes when this is dropped.
pub struct LeftBehind {
    _folder: Option<TempDir>,
    _database: Option<Database>,
}

/// What the server answered.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON; null if it has none.
    pub fn json(&self) -> Value {
        if self.body.is_empty() { Value::Null } else { serde_json::from_slice(&self.body).expect("the answer is JSON") }
    }

    /// The body as JSON, after checking the status.
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// The fields that a problem complains about, after checking that it is one.
    pub fn faults(&self, status: u16) -> Vec<String> {
        let problem = self.problem(status);
        let errors = problem["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().map(|error| error["field"].as_str().unwrap().to_owned()).collect()
    }

    /// The problem, after checking that it is a complete one.
    pub fn problem(&self, status: u16) -> Value {
        let problem = self.expect(status);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(problem["status"], status);
        assert!(problem["type"].as_str().is_some_and(|path| path.starts_with("/docs/problems/")), "{problem}");
        for field in ["type", "title", "detail"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{field} is missing in {problem}");
        }
        problem
    }
}

/// Whether the tests run on PostgreSQL instead of the embedded store.
pub fn is_on_postgres() -> bool {
    std::env::var("EVERHOOK_TEST_STORE").is_ok_and(|store| store == "postgres")
}

impl Server {
    /// Starts a server on a port of the system's choice.
    pub async fn start() -> Self {
        Self::start_set(|args| args).await
    }

    /// The same with other settings.
    pub async fn start_set(set: impl FnOnce(ServeArgs) -> ServeArgs) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = if is_on_postgres() { Some(Database::with_schema().await) } else { None };
        let args = ServeArgs {
            listen: Some("127.0.0.1:0".to_owned()),
            data: Some(folder.path().join("data").display().to_string()),
            allow_private_networks: Some("true".to_owned()),
            database: database.as_ref().map(Database::url),
            seal_key: database.as_ref().map(|_| SEAL_KEY.to_owned()),
            ..ServeArgs::default()
        };
        Self { _folder: Some(folder), _database: database, ..Self::start_with(&set(args)).await }
    }

    /// Starts a server as told.
    pub async fn start_with(args: &ServeArgs) -> Self {
        let running = wiring::start(&args.load_from([]).unwrap().config).await.unwrap();
        let made = running.admin_key.clone();
        let admin = made.or(args.admin_key.clone()).expect("the first start makes an admin key");
        Self { running, admin, _folder: None, _database: None }
    }

    /// Where it listens.
    pub fn address(&self) -> std::net::SocketAddr {
        self.running.address
    }

    /// What it runs on, for what no request can bring about.
    pub fn line(&self) -> &Line {
        &self.running.line
    }

    /// A request with any body, over a connection of its own.
    pub async fn send<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let stream = tokio::net::TcpStream::connect(self.address()).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let driving = tokio::spawn(connection);
        let response = sender.send_request(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        drop(sender);
        driving.abort();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// A request with a key and a JSON text.
    pub async fn call(&self, method: Method, path: &str, key: &str, body: impl Into<Bytes>) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "test")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {key}"))
            .body(Full::new(body.into()))
            .unwrap();
        self.send(request).await
    }

    /// GET as admin.
    pub async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, &self.admin, "").await
    }

    /// GET as admin who acts in this organization.
    pub async fn get_in(&self, organization: &str, path: &str) -> Answer {
        let request = Request::get(path).header("host", "test").header("authorization", format!("Bearer {}", self.admin));
        self.send(request.header("x-organization", organization).body(Full::<Bytes>::default()).unwrap()).await
    }

    /// POST as admin who acts in this organization.
    pub async fn post_in(&self, organization: &str, path: &str, body: Value) -> Answer {
        let request = Request::post(path)
            .header("host", "test")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {}", self.admin))
            .header("x-organization", organization);
        self.send(request.body(Full::new(Bytes::from(body.to_string()))).unwrap()).await
    }

    /// POST as admin.
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.call(Method::POST, path, &self.admin, body.to_string()).await
    }

    /// PUT as admin.
    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.call(Method::PUT, path, &self.admin, body.to_string()).await
    }

    /// PATCH as admin.
    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.call(Method::PATCH, path, &self.admin, body.to_string()).await
    }

    /// DELETE as admin.
    pub async fn delete(&self, path: &str) -> Answer {
        self.call(Method::DELETE, path, &self.admin, "").await
    }

    /// Makes an endpoint that nobody listens at, with these fields beside.
    pub async fn endpoint(&self, fields: Value) -> Value {
        let mut body = json!({ "url": "http://127.0.0.1:9/hook", "event_types": ["*"] });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.post("/v1/endpoints", body).await.expect(201)
    }

    /// Makes an organization and returns a key of it with these scopes.
    pub async fn stranger(&self, scopes: &[&str]) -> String {
        let organization = self.post("/v1/organizations", json!({ "name": "stranger" })).await.expect(201);
        let key = self.post_in(organization["id"].as_str().unwrap(), "/v1/api-keys", json!({ "name": "k", "scopes": scopes })).await;
        key.expect(201)["key"].as_str().unwrap().to_owned()
    }

    /// Makes a key of the default organization.
    pub async fn key(&self, scopes: &[&str]) -> String {
        self.post("/v1/api-keys", json!({ "name": "k", "scopes": scopes })).await.expect(201)["key"].as_str().unwrap().to_owned()
    }

    /// Ends it, so that the folder can go.
    pub async fn stop(self) -> LeftBehind {
        self.running.stop().await;
        LeftBehind { _folder: self._folder, _database: self._database }
    }
}
