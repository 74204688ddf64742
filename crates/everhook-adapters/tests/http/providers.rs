//! What is asked of health providers, over real connections, against a provider that misbehaves.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use everhook_adapters::system::SystemClock;
use everhook_core::{
    health::{GarminType, Unmappable, callback::CallbackFault, limits::SaidWindow, map_activity},
    model::{
        FailureCategory, Secret,
        health::{BackfillChunk, BackfillType, ChunkOutcome, ExternalUserId, RecordId, Tokens},
    },
    ports::FETCH_BYTES_MAX,
    providers::{Asked, HealthProviders, NoAnswer, NotRefreshed, OnBehalfOf, ProviderSettings, StravaClient},
    time::Timestamp,
};
use tokio::io::AsyncWriteExt as _;

use super::{AMPLE, SHORT, organization, server, server::Server, transport};

/// A provider that answers as a test says, and what it was asked.
struct Provider {
    server: Server,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Provider {
    /// The answer may depend on the request and on how many came before it.
    async fn answering(answer: impl Fn(&str, usize) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let (answer, requests) = (Arc::new(answer), Arc::new(Mutex::new(Vec::new())));
        let seen = requests.clone();
        let server = Server::start(move |mut stream, _| {
            let (answer, seen) = (answer.clone(), seen.clone());
            async move {
                while let Some(request) = server::read_request(&mut stream).await {
                    let number = seen.lock().unwrap().len();
                    let bytes = answer(&request, number);
                    seen.lock().unwrap().push(request);
                    stream.write_all(&bytes).await.ok();
                }
            }
        })
        .await;
        Self { server, requests }
    }

    /// One that always answers so.
    async fn always(status: u16, headers: &str, body: &str) -> Self {
        let answer = answer(status, headers, body);
        Self::answering(move |_, _| answer.clone()).await
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    fn settings(&self, request_timeout: Duration) -> ProviderSettings {
        let mut settings = ProviderSettings { request_timeout, ..ProviderSettings::default() };
        let base = format!("http://127.0.0.1:{}", self.server.port);
        settings.strava.api = format!("{base}/api/v3").parse().unwrap();
        settings.strava.client = Some(StravaClient { id: "42".to_owned(), secret: secret("hush&=") });
        settings.garmin.api = base.parse().unwrap();
        settings
    }

    fn client(&self) -> HealthProviders {
        client(self.settings(AMPLE))
    }

    /// The activity 7 of a user whose token is `token`.
    async fn activity(&self) -> Asked<bytes::Bytes> {
        activity(&self.client(), "token").await
    }
}

fn client(settings: ProviderSettings) -> HealthProviders {
    HealthProviders::new(settings, Arc::new(transport()), Arc::new(SystemClock::new()))
}

async fn activity(client: &HealthProviders, token: &str) -> Asked<bytes::Bytes> {
    client.strava_activity(OnBehalfOf { organization: organization(1), token: &secret(token) }, &record("7")).await
}

fn answer(status: u16, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Status\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn secret(text: &str) -> Secret<String> {
    Secret::new(text.to_owned())
}

fn record(id: &str) -> RecordId {
    RecordId::of(id).unwrap()
}

fn tokens(access: &str, refresh: Option<&str>) -> Tokens {
    Tokens { access: secret(access), refresh: refresh.map(secret), expires_at: None }
}

/// Category and words of what may work later.
fn unavailable<T: std::fmt::Debug>(asked: Asked<T>) -> (FailureCategory, String) {
    match asked.outcome {
        Err(NoAnswer::Unavailable { category, error }) => (category, error),
        other => panic!("expected a failure that may pass, got {other:?}"),
    }
}

#[tokio::test]
async fn an_activity_is_fetched_with_the_users_token_and_tells_the_limits() {
    let headers =
        "x-readratelimit-limit: 100,1000\r\nX-ReadRateLimit-Usage: 3,40\r\nx-ratelimit-limit: 200,2000\r\nx-ratelimit-usage: 3,40\r\n";
    let provider = Provider::always(200, headers, r#"{"id":7}"#).await;
    let asked = provider.activity().await;
    assert_eq!(asked.outcome.as_deref(), Ok(&br#"{"id":7}"#[..]));
    let said = asked.notice.said.unwrap();
    assert_eq!((said.quarter, said.day), (SaidWindow { limit: 100, used: 3 }, SaidWindow { limit: 1_000, used: 40 }));
    let requests = provider.requests();
    assert!(requests[0].starts_with("GET /api/v3/activities/7 HTTP/1.1\r\n"), "{requests:?}");
    assert!(requests[0].contains("\r\nauthorization: Bearer token\r\n"), "{requests:?}");
}

#[tokio::test]
async fn a_refusal_for_too_many_requests_is_told_with_and_without_limits() {
    let with = Provider::always(429, "x-readratelimit-limit: 100,1000\r\nx-readratelimit-usage: 101,300\r\n", "{}").await.activity().await;
    assert_eq!(with.outcome, Err(NoAnswer::Limited { retry_at: None }));
    assert_eq!(with.notice.said.map(|said| said.quarter.used), Some(101));
    assert!(with.notice.is_refused);
    let without = Provider::always(429, "", "").await.activity().await;
    assert_eq!((without.outcome, without.notice.said), (Err(NoAnswer::Limited { retry_at: None }), None));
    assert!(without.notice.is_refused);
    let later = Provider::always(429, "retry-after: 900\r\n", "").await.activity().await;
    assert!(matches!(later.outcome, Err(NoAnswer::Limited { retry_at: Some(_) })));
}

#[tokio::test]
async fn a_token_that_ended_is_refreshed_and_the_new_one_works() {
    let provider = Provider::answering(|request, _| {
        if request.starts_with("POST /api/v3/oauth/token ") {
            return answer(200, "", r#"{"token_type":"Bearer","access_token":"new","expires_at":1568775134,"refresh_token":"next"}"#);
        }
        if request.contains("authorization: Bearer new") {
            answer(200, "", "{}")
        } else {
            answer(401, "", r#"{"message":"Authorization Error"}"#)
        }
    })
    .await;
    let client = provider.client();
    assert_eq!(activity(&client, "old").await.outcome, Err(NoAnswer::Unauthorized));
    let fresh = client.strava_refresh(organization(1), &tokens("old", Some("r+1"))).await.unwrap();
    assert_eq!(fresh, Tokens { expires_at: Some(Timestamp::from_secs(1_568_775_134)), ..tokens("new", Some("next")) });
    assert!(activity(&client, fresh.access.expose()).await.outcome.is_ok());
    let form = provider.requests()[1].split_once("\r\n\r\n").unwrap().1.to_owned();
    assert_eq!(form, "client_id=42&client_secret=hush%26%3D&grant_type=refresh_token&refresh_token=r%2B1");
}

#[tokio::test]
async fn a_refresh_that_fails_says_whose_fault_it_is() {
    let about = |resource: &str| format!(r#"{{"message":"Bad Request","errors":[{{"resource":"{resource}","code":"invalid"}}]}}"#);
    let unanswered = |category, error: &str| NotRefreshed::Unanswered(NoAnswer::Unavailable { category, error: error.to_owned() });
    for (status, body, expected) in [
        (400, about("RefreshToken"), NotRefreshed::Refused),
        (401, String::new(), NotRefreshed::Refused),
        (400, about("Application"), NotRefreshed::ClientRefused),
        (401, about("Application"), NotRefreshed::ClientRefused),
        (429, String::new(), NotRefreshed::Unanswered(NoAnswer::Limited { retry_at: None })),
        (500, String::new(), unanswered(FailureCategory::ServerError, "the provider answered 500")),
        (200, "{}".to_owned(), unanswered(FailureCategory::ServerError, "Strava's answer to a refresh has no tokens")),
        (200, "<html>".to_owned(), unanswered(FailureCategory::ServerError, "Strava's answer to a refresh has no tokens")),
    ] {
        let provider = Provider::always(status, "", &body).await;
        let refreshed = provider.client().strava_refresh(organization(1), &tokens("a", Some("r"))).await;
        assert_eq!(refreshed, Err(expected), "{status} {body}");
    }
    let provider = Provider::always(200, "", "{}").await;
    assert_eq!(provider.client().strava_refresh(organization(1), &tokens("a", None)).await, Err(NotRefreshed::NoRefreshToken));
    let mut unregistered = provider.settings(AMPLE);
    unregistered.strava.client = None;
    assert_eq!(client(unregistered).strava_refresh(organization(1), &tokens("a", Some("r"))).await, Err(NotRefreshed::NoClient));
    assert_eq!(provider.requests().len(), 0);
}

#[tokio::test]
async fn what_may_pass_is_told_apart_from_what_will_not() {
    for (status, expected) in
        [(401, NoAnswer::Unauthorized), (403, NoAnswer::Forbidden), (404, NoAnswer::NotFound), (410, NoAnswer::NotFound)]
    {
        assert_eq!(Provider::always(status, "", "").await.activity().await.outcome, Err(expected), "{status}");
    }
    for (status, category) in
        [(500, FailureCategory::ServerError), (503, FailureCategory::ServerError), (418, FailureCategory::ClientError)]
    {
        let (found, error) = unavailable(Provider::always(status, "", "").await.activity().await);
        assert_eq!((found, error), (category, format!("the provider answered {status}")));
    }
    // No request is made for what is no id.
    let provider = Provider::always(200, "", "{}").await;
    let (client, token) = (provider.client(), secret("token"));
    let of = OnBehalfOf { organization: organization(1), token: &token };
    assert_eq!(client.strava_activity(of, &record("7/../../athlete")).await.outcome, Err(NoAnswer::NotFound));
    assert_eq!(provider.server.accepted(), 0);
    assert!(client.strava_athlete(of).await.outcome.is_ok());
    assert!(provider.requests()[0].starts_with("GET /api/v3/athlete HTTP/1.1\r\n"));
}

#[tokio::test]
async fn a_redirect_is_not_followed_because_the_token_would_travel_along() {
    let elsewhere = Provider::always(200, "", "{}").await;
    let location = format!("location: http://127.0.0.1:{}/\r\n", elsewhere.server.port);
    let (category, _) = unavailable(Provider::always(302, &location, "").await.activity().await);
    assert_eq!((category, elsewhere.server.accepted()), (FailureCategory::Redirect, 0));
}

#[tokio::test]
async fn a_provider_that_is_slow_or_gone_fails_in_time() {
    let slow = Server::start(|mut stream, _| async move {
        server::read_request(&mut stream).await;
        tokio::time::sleep(AMPLE).await;
    })
    .await;
    let mut settings = ProviderSettings { request_timeout: SHORT, ..ProviderSettings::default() };
    settings.strava.api = format!("http://127.0.0.1:{}", slow.port).parse().unwrap();
    assert_eq!(unavailable(activity(&client(settings), "t").await).0, FailureCategory::Timeout);
    let resets = Server::start(|stream, _| async move { drop(stream) }).await;
    let mut settings = ProviderSettings::default();
    settings.strava.api = format!("http://127.0.0.1:{}", resets.port).parse().unwrap();
    assert_eq!(unavailable(activity(&client(settings), "t").await).0, FailureCategory::Network);
    // Every address is vetted, also that of a provider.
    let mut settings = ProviderSettings::default();
    settings.strava.api = "http://10.0.0.1/".parse().unwrap();
    assert_eq!(unavailable(activity(&client(settings), "t").await).0, FailureCategory::BlockedAddress);
}

#[tokio::test]
async fn a_large_answer_comes_whole_and_a_huge_one_is_cut_off() {
    let large = format!(r#"{{"padding":"{}"}}"#, "x".repeat(FETCH_BYTES_MAX - 100));
    let asked = Provider::always(200, "", &large).await.activity().await;
    assert_eq!(asked.outcome.map(|body| body.len()), Ok(large.len()));
    let huge = "x".repeat(FETCH_BYTES_MAX + 1);
    let (category, _) = unavailable(Provider::always(200, "", &huge).await.activity().await);
    assert_eq!(category, FailureCategory::PayloadTooLarge);
    // One without end is left as soon as it is too large.
    let (ended, mut written) = tokio::sync::mpsc::unbounded_channel();
    let endless = Server::start(move |mut stream, _| {
        let ended = ended.clone();
        async move {
            server::read_request(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok();
            ended.send(server::write_until_closed(&mut stream, |_| vec![b'x'; 64 * 1024]).await).ok();
        }
    })
    .await;
    let mut settings = ProviderSettings::default();
    settings.strava.api = format!("http://127.0.0.1:{}", endless.port).parse().unwrap();
    assert_eq!(unavailable(activity(&client(settings), "t").await).0, FailureCategory::PayloadTooLarge);
    // What the system buffers on both sides comes on top.
    let written = written.recv().await.unwrap();
    assert!(written < FETCH_BYTES_MAX * 4, "{written}");
}

#[tokio::test]
async fn a_malformed_answer_is_no_activity() {
    for body in ["<html>maintenance</html>", "", "[]", "{\"id\":"] {
        let answer = Provider::always(200, "", body).await.activity().await.outcome.unwrap();
        let mapped = map_activity(&answer, &record("7"), &ExternalUserId::parse("1").unwrap());
        assert_eq!(mapped, Err(Unmappable::NotAnObject), "{body}");
    }
}

#[tokio::test]
async fn garmin_says_what_a_user_allows() {
    let token = secret("token");
    let of = OnBehalfOf { organization: organization(1), token: &token };
    for body in [r#"["HEALTH_EXPORT"]"#, r#"{"permissions":["HEALTH_EXPORT"]}"#] {
        let provider = Provider::always(200, "", body).await;
        let permissions = provider.client().garmin_permissions(of).await.outcome.unwrap();
        assert_eq!(permissions.iter().collect::<Vec<_>>(), ["HEALTH_EXPORT"]);
        assert!(provider.requests()[0].starts_with("GET /wellness-api/rest/user/permissions HTTP/1.1\r\n"));
    }
    for (status, body, expected) in [(401, "", NoAnswer::Unauthorized), (403, "", NoAnswer::Forbidden)] {
        assert_eq!(Provider::always(status, "", body).await.client().garmin_permissions(of).await.outcome, Err(expected));
    }
    for (status, body) in [(500, ""), (200, ""), (200, "{}"), (200, "<html>")] {
        unavailable(Provider::always(status, "", body).await.client().garmin_permissions(of).await);
    }
}

#[tokio::test]
async fn a_backfill_asks_for_one_type_and_one_piece() {
    let token = secret("token");
    let of = OnBehalfOf { organization: organization(1), token: &token };
    let (start, end) = (Timestamp::from_secs(1_700_000_000), Timestamp::from_secs(1_702_592_000));
    let chunk = BackfillChunk { data: BackfillType::parse("pulseOx").unwrap(), start, end };
    for (status, expected) in [
        (202, ChunkOutcome::Accepted),
        (409, ChunkOutcome::DoneBefore),
        (403, ChunkOutcome::NoHistoryPermission),
        (400, ChunkOutcome::RefusedByProvider),
        (401, ChunkOutcome::RefusedByProvider),
    ] {
        let provider = Provider::always(status, "", "").await;
        assert_eq!(provider.client().garmin_backfill(of, chunk).await.outcome, Ok(expected), "{status}");
        let line =
            "GET /wellness-api/rest/backfill/pulseOx?summaryStartTimeInSeconds=1700000000&summaryEndTimeInSeconds=1702592000 HTTP/1.1\r\n";
        assert!(provider.requests()[0].starts_with(line), "{:?}", provider.requests());
    }
    let limited = Provider::always(429, "", "").await.client().garmin_backfill(of, chunk).await;
    assert_eq!(limited.outcome, Err(NoAnswer::Limited { retry_at: None }));
    assert!(limited.notice.is_refused);
    unavailable(Provider::always(500, "", "").await.client().garmin_backfill(of, chunk).await);
    // Nobody needs what comes with the answer, however much it is.
    let talkative = Provider::always(202, "", &"x".repeat(10 << 20)).await;
    assert_eq!(talkative.client().garmin_backfill(of, chunk).await.outcome, Ok(ChunkOutcome::Accepted));
}

#[tokio::test]
async fn a_ping_is_fetched_from_the_configured_server_alone() {
    let (garmin, elsewhere) = (Provider::always(200, "", "[]").await, Provider::always(200, "", "[]").await);
    let (client, token) = (garmin.client(), secret("token"));
    let url = |port: u16, path: &str| format!("http://127.0.0.1:{port}{path}?uploadStartTimeInSeconds=1&uploadEndTimeInSeconds=2&token=X");
    let path = "/wellness-api/rest/dailies";
    let good = client.garmin_ping(organization(1), Some(&token), GarminType::Dailies, &url(garmin.server.port, path)).await;
    assert_eq!(good.outcome.as_deref(), Ok(&b"[]"[..]));
    assert!(
        garmin.requests()[0]
            .starts_with("GET /wellness-api/rest/dailies?uploadStartTimeInSeconds=1&uploadEndTimeInSeconds=2&token=X HTTP/1.1\r\n")
    );
    assert!(garmin.requests()[0].contains("authorization: Bearer token"));
    let other = client.garmin_ping(organization(1), Some(&token), GarminType::Dailies, &url(elsewhere.server.port, path)).await;
    assert_eq!(other.outcome, Err(NoAnswer::Blocked(CallbackFault::OtherServer)));
    let other = client.garmin_ping(organization(1), None, GarminType::Sleeps, &url(garmin.server.port, path)).await;
    assert_eq!(other.outcome, Err(NoAnswer::Blocked(CallbackFault::OtherPath)));
    assert_eq!((elsewhere.server.accepted(), garmin.requests().len()), (0, 1));
}
