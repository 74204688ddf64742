use serde_json::json;

use super::*;
use crate::{
    ids::{ApplicationId, OrganizationId},
    model::{
        Application, ApplicationKind, CacheAges, CallBackoff, Canary, FallbackStep, Hedge, HedgeDelay, PickCount, SlowCallRule, TripRule,
    },
    time::Timestamp,
};

fn check_url(url: &str) -> Result<(), String> {
    if url.starts_with("https://") { Ok(()) } else { Err("must begin with `https://`".to_owned()) }
}

fn read_it(document: &Value) -> Result<Manifest, Vec<ManifestFault>> {
    read(document, None, &ManifestDefaults::default(), &check_url)
}

fn capability(of: Value) -> Capability {
    let manifest = read_it(&json!({"base_url": "https://app.example", "capabilities": {"one": of}})).unwrap();
    manifest.capabilities.into_values().next().unwrap()
}

fn faults(document: Value) -> Vec<String> {
    read_it(&document).unwrap_err().into_iter().map(|fault| fault.field).collect()
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn the_manifest_of_an_app_is_taken_as_other_platforms_write_it() {
    let manifest = read_it(&json!({"webhooks": {
        "winnerSelection": {"path": "/api/platform/winner-selection", "timeout": 5000, "retry": {"enabled": false}},
        "quiz:answer_submit": {"path": "/quiz", "retry": {"enabled": true, "maxAttempts": 3, "backoff": "exponential"}},
    }}))
    .unwrap();
    let of = |name| &manifest.capabilities[&CapabilityName::parse(name).unwrap()];
    let (winners, quiz) = (of("winnerSelection"), of("quiz:answer_submit"));
    assert_eq!((winners.timeout, winners.attempts_max, winners.path.as_str()), (ms(5_000), 1, "/api/platform/winner-selection"));
    assert_eq!((quiz.timeout, quiz.attempts_max, quiz.backoff), (ms(2_000), 3, CallBackoff::Exponential));
    assert_eq!(manifest.base_url, None);
    assert_eq!(winners.breaker.half_open_max_calls, 1);
    assert!(matches!(winners.breaker.rule, TripRule::Consecutive { failure_threshold: 5, success_threshold: 3 }));
}

#[test]
fn a_capability_that_answers_later_says_how_its_jobs_are_retried() {
    let manifest = read_it(&json!({"webhooks": {
        "winnerSelection": {"path": "/api/platform/winner-selection", "timeout": 5000, "retry": {"enabled": false}},
        "analytics": {
            "path": "/api/platform/analytics", "timeout": 30000, "async": true,
            "retry": {"enabled": true, "maxAttempts": 3, "backoff": "exponential"},
        },
    }}))
    .unwrap();
    let analytics = &manifest.capabilities[&CapabilityName::parse("analytics").unwrap()];
    assert_eq!((analytics.is_async, analytics.timeout), (true, ms(30_000)));
    let retried = |retry: Value| {
        let one = capability(json!({"path": "/", "async": true, "retry": retry}));
        (one.attempts_max, one.backoff)
    };
    let table = [
        (json!({"enabled": true, "maxAttempts": 3, "backoff": "exponential"}), (3, CallBackoff::Exponential)),
        (json!({}), (3, CallBackoff::Exponential)),
        (json!({"backoff": "linear"}), (3, CallBackoff::Linear)),
        (json!({"max_attempts": 10, "backoff": "fixed"}), (10, CallBackoff::Fixed)),
        (json!({"enabled": false}), (1, CallBackoff::Exponential)),
        (json!({"enabled": false, "max_attempts": 5}), (1, CallBackoff::Exponential)),
    ];
    for (retry, expected) in table {
        assert_eq!(retried(retry.clone()), expected, "{retry}");
    }
    let unsaid = capability(json!({"path": "/", "async": true}));
    assert_eq!((unsaid.attempts_max, unsaid.backoff), (3, CallBackoff::Exponential));
    assert_eq!(
        faults(json!({"capabilities": {"one": {"path": "/", "async": true, "retry": {"max_attempts": 11, "delay": 1}}}})),
        ["capabilities.one.retry.max_attempts", "capabilities.one.retry.delay"]
    );
}

#[test]
fn everything_can_be_said() {
    let one = capability(json!({
        "path": "/a", "timeout": "2s", "async": false, "canary": {"baseUrl": "https://next.example", "percent": 5}, "idempotent": true, "mode": "off", "maxConcurrency": 7,
        "hedge": {"after": 30, "max": 1, "budgetPercent": 10},
        "cache": {"fresh": "10s", "staleWhileRevalidate": 20_000, "stale_if_error": "1h"},
        "circuitBreaker": {"failureThreshold": 2, "sleepWindowMs": 5_000, "slowCalls": {"percentage": 60}},
        "fallback": [
            {"type": "cache"},
            {"type": "default", "http": {"url": "https://other.example/x", "timeoutMs": 300}},
            {"type": "default", "random_pick": {"from": "/participants", "count": "/prizes"}},
            {"type": "default", "static": {"winners": []}},
            {"type": "error"},
        ],
        "responseSchema": {"type": "object"},
    }));
    assert_eq!((one.timeout, one.max_concurrency, one.mode), (ms(2_000), 7, CallMode::Off));
    assert_eq!(one.canary, Some(Canary { base_url: "https://next.example".to_owned(), percent: 5, is_withdrawn: false }));
    assert_eq!(one.hedge, Some(Hedge { after: HedgeDelay::Fixed(ms(30)), budget_percent: 10 }));
    assert_eq!(one.cache, CacheAges { fresh: ms(10_000), stale_while_revalidate: ms(20_000), stale_if_error: ms(3_600_000) });
    assert_eq!(one.slow_calls, Some(SlowCallRule { slower_than: ms(1_600), percentage: 60, calls_min: 20 }));
    assert_eq!(one.breaker.sleep, ms(5_000));
    assert_eq!(
        one.fallback,
        [
            FallbackStep::Cache,
            FallbackStep::Http { url: "https://other.example/x".to_owned(), timeout: ms(300) },
            FallbackStep::RandomPick { from: "/participants".to_owned(), count: PickCount::Pointer("/prizes".to_owned()) },
            FallbackStep::Static(r#"{"winners":[]}"#.to_owned()),
            FallbackStep::Error,
        ]
    );
    assert_eq!(one.response_schema.as_deref(), Some(r#"{"type":"object"}"#));
}

#[test]
fn the_short_form_of_a_cache_keeps_answers_for_errors_or_answers_with_them_first() {
    let ages = |step: Value| capability(json!({"path": "/a", "fallback": [step]})).cache;
    let none = CacheAges::default();
    assert_eq!(ages(json!({"type": "cache"})), CacheAges { stale_if_error: ms(300_000), ..none });
    assert_eq!(ages(json!({"type": "cache", "ttl": "1m", "mode": "first"})), CacheAges { fresh: ms(60_000), ..none });
    let implied = capability(json!({"path": "/a", "cache": {"stale_if_error": "1m"}, "fallback": [{"type": "error"}]}));
    assert_eq!(implied.fallback, [FallbackStep::Cache, FallbackStep::Error]);
}

#[test]
fn every_fault_is_named() {
    let one = |of: Value| json!({"capabilities": {"one": of}});
    #[rustfmt::skip]
    let table: Vec<(Value, &[&str])> = vec![
        (json!([]), &["manifest"]),
        (json!({}), &["capabilities"]),
        (json!({"capabilities": []}), &["capabilities"]),
        (json!({"capabilities": {}, "webhooks": {}}), &["webhooks"]),
        (json!({"capabilities": {}, "base_url": "ftp://x", "baseUrl": "https://x"}), &["base_url", "base_url"]),
        (json!({"capabilities": {}, "base_url": "https://x?a=1"}), &["base_url"]),
        (json!({"capabilities": {}, "owner_email": "nobody", "healthPath": "h"}), &["owner_email", "health_path"]),
        (json!({"base_url": "https://a.example", "capabilities": {}, "health_path": "h"}), &["health_path"]),
        (json!({"base_url": "https://a.example", "capabilities": {}, "health_path": "/a b"}), &["health_path"]),
        (json!({"base_url": "https://a.example", "capabilities": {}, "health_path": 7}), &["health_path"]),
        (json!({"capabilities": {"a b": {"path": "/"}}}), &["capabilities.a b"]),
        (json!({"capabilities": {"one": 1, "two": {"path": "x", "sekret": 1}}}), &["capabilities.one", "capabilities.two.path", "capabilities.two.sekret"]),
        (one(json!({})), &["capabilities.one.path"]),
        (one(json!({"path": 1})), &["capabilities.one.path"]),
        (one(json!({"path": "/a b"})), &["capabilities.one.path"]),
        (one(json!({"path": "/", "timeout": 5})), &["capabilities.one.timeout"]),
        (one(json!({"path": "/", "timeout": "5 weeks"})), &["capabilities.one.timeout"]),
        (one(json!({"path": "/", "timeout": -1})), &["capabilities.one.timeout"]),
        (one(json!({"path": "/", "timeout": 1e300})), &["capabilities.one.timeout"]),
        (one(json!({"path": "/", "mode": "dark"})), &["capabilities.one.mode"]),
        (one(json!({"path": "/", "async": true, "mode": "shadow", "canary": {"base_url": "https://next.example.com", "percent": 5}})), &["capabilities.one.canary", "capabilities.one.mode"]),
        (one(json!({"path": "/", "canary": {}})), &["capabilities.one.canary.base_url", "capabilities.one.canary.percent"]),
        (one(json!({"path": "/", "canary": {"base_url": "http://x", "percent": 51, "until": 1}})), &["capabilities.one.canary.percent", "capabilities.one.canary.base_url", "capabilities.one.canary.until"]),
        (one(json!({"path": "/", "async": true, "timeout": "25h", "fallback": [{"type": "error"}]})), &["capabilities.one.timeout", "capabilities.one.fallback"]),
        (one(json!({"path": "/", "fallback": [{"type": "queue"}, {"type": "error"}]})), &["capabilities.one.fallback[1]"]),
        (one(json!({"path": "/", "retry": {"enabled": 1, "max_attempts": 0, "backoff": "x"}})), &["capabilities.one.retry.enabled", "capabilities.one.retry.max_attempts", "capabilities.one.retry.backoff"]),
        (one(json!({"path": "/", "hedge": {"after": "p50", "max": 2}})), &["capabilities.one.hedge", "capabilities.one.hedge.after", "capabilities.one.hedge.max"]),
        (one(json!({"path": "/", "max_concurrency": 0})), &["capabilities.one.max_concurrency"]),
        (one(json!({"path": "/", "circuit_breaker": {"failure_threshold": 0, "minimum_throughput": 1}})), &["capabilities.one.circuit_breaker.failure_threshold", "capabilities.one.circuit_breaker.minimum_throughput"]),
        (one(json!({"path": "/", "circuit_breaker": {"sleep_window_ms": 1}})), &["capabilities.one.circuit_breaker.sleep_window_ms"]),
        (one(json!({"path": "/", "fallback": {}})), &["capabilities.one.fallback"]),
        (one(json!({"path": "/", "fallback": [{"type": "x"}, 1]})), &["capabilities.one.fallback[0].type", "capabilities.one.fallback[1]"]),
        (one(json!({"path": "/", "fallback": [{"type": "manual", "ttl": "1h"}, {"type": "error"}]})), &["capabilities.one.fallback[0].ttl", "capabilities.one.fallback[1]"]),
        (one(json!({"path": "/", "fallback": [{"type": "manual", "expires_after": "59s"}]})), &["capabilities.one.fallback[0].expires_after"]),
        (one(json!({"path": "/", "fallback": [{"type": "manual", "expires_after": "91d"}]})), &["capabilities.one.fallback[0].expires_after"]),
        (one(json!({"path": "/", "fallback": [{"type": "error"}, {"type": "cache"}]})), &["capabilities.one.fallback[1]"]),
        (one(json!({"path": "/", "fallback": [{"type": "default"}]})), &["capabilities.one.fallback[0].type"]),
        (one(json!({"path": "/", "fallback": [{"type": "default", "random_pick": {"from": "x", "count": 0}}]})), &["capabilities.one.fallback[0].random_pick.from", "capabilities.one.fallback[0].random_pick.count"]),
        (one(json!({"path": "/", "fallback": [{"type": "default", "http": {"url": "http://x"}}]})), &["capabilities.one.fallback[0].http.url"]),
        (one(json!({"path": "/", "cache": {"fresh": "8d", "for": 1}})), &["capabilities.one.cache.fresh", "capabilities.one.cache.for"]),
    ];
    for (document, expected) in table {
        assert_eq!(faults(document.clone()), expected, "{document}");
    }
}

#[test]
fn a_huge_manifest_is_refused_with_few_words() {
    let many: serde_json::Map<String, Value> = (0..10_000).map(|n| (format!("c{n}"), json!({"path": "/"}))).collect();
    assert_eq!(faults(json!({"capabilities": many})), ["capabilities"]);
    let wrong: serde_json::Map<String, Value> = (0..100).map(|n| (format!("c{n}"), json!({"path": 1, "x": 1, "y": 1}))).collect();
    assert_eq!(faults(json!({"capabilities": wrong})).len(), 50);
    let large = json!({"capabilities": {"one": {"path": "/", "fallback": [{"type": "default", "static": "x".repeat(70_000)}]}}});
    assert_eq!(faults(large), ["capabilities.one.fallback[0].static"]);
}

#[test]
fn what_a_manifest_leaves_open_is_the_applications() {
    let application = Application {
        id: ApplicationId::from_uuid(uuid::Uuid::from_u128(1)),
        organization: OrganizationId::from_uuid(uuid::Uuid::from_u128(2)),
        uid: None,
        name: "shop".to_owned(),
        kind: ApplicationKind::Custom,
        strict_event_types: false,
        owner_email: None,
        base_url: Some("https://app.example".to_owned()),
        health_path: Some("/up".to_owned()),
        created_at: Timestamp::EPOCH,
    };
    let read = |more: Value| {
        let mut document = json!({"capabilities": {"one": {"path": "/one"}}});
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        read(&document, application.base_url.as_deref(), &ManifestDefaults::default(), &check_url).unwrap()
    };
    let places = |manifest: &Manifest| {
        let of = |text: Option<&str>| text.unwrap_or("-").to_owned();
        format!("{} {}", of(manifest.base_url(&application)), of(manifest.health_path(&application)))
    };
    assert_eq!(places(&read(json!({}))), "https://app.example /up");
    assert_eq!(places(&read(json!({"baseUrl": "https://other.example", "healthPath": "/health"}))), "https://other.example /health");
    for off in [json!({"health_path": null}), json!({"healthPath": null})] {
        assert_eq!(places(&read(off)), "https://app.example -");
    }
    assert_eq!(read(json!({})).owner_email, None);
    assert_eq!(read(json!({"ownerEmail": "a@b.c"})).owner_email, EmailAddress::parse("a@b.c").ok());
    // What the application has itself is held against the paths, too.
    let too_far = |url: &str| if url.len() > 30 { Err("is too long".to_owned()) } else { Ok(()) };
    let document = json!({"capabilities": {"one": {"path": "/a-path-that-is-too-long"}}, "health_path": "/health-of-this-app"});
    let faults = super::read(&document, application.base_url.as_deref(), &ManifestDefaults::default(), &too_far).unwrap_err();
    assert_eq!(faults.into_iter().map(|fault| fault.field).collect::<Vec<_>>(), ["health_path", "capabilities.one.path"]);
}

#[test]
fn a_base_url_of_an_application_leaves_room_for_paths() {
    let fault = |url: &str| fault_of_application_base_url(url, &check_url);
    assert_eq!(fault("https://app.example/v1"), None);
    assert_eq!(fault(&format!("https://app.example/{}", "a".repeat(980))), None);
    for bad in
        ["http://app.example", "https://app.example?a=1", "https://app.example#a", &format!("https://app.example/{}", "a".repeat(981))]
    {
        assert!(fault(bad).is_some(), "{bad}");
    }
}
