//! The HTML of the mails that people get most, as it is sent: a change of a page is seen in its snapshot.
//!
//! Each page is also written to `target/tmp/mail-pages`. Look at a changed page in a browser before the snapshot is accepted: light, dark, and 390 pixels wide.

use std::path::Path;

use everhook_core::{
    model::EventType,
    policy::notice::{DEFAULT_BRAND, email, of_event},
};
use serde_json::{Value, json};

/// What every mail about an endpoint says of it. The names are as long and as strange as tenants make them.
fn endpoint() -> Value {
    json!({
        "application_id": "01a1f185-edf5-7730-bbbd-8b8a816e29a2", "application_name": "Shop <b>& Söhne</b>",
        "endpoint_id": "01a1f185-f041-7da1-b79e-c4bb54e5e70a", "endpoint_name": "Orders",
        "endpoint_url": "https://hooks.example.com/receivers/01a1f185f0417da1b79ec4bb54e5e70a/a-path-without-any-place-to-break-it/orders",
        "endpoint_description": "Every order of the shop, for the warehouse",
        "first_failure_at": "2026-11-14T07:03:12.482913Z", "last_error": "the endpoint answered 503 Service Unavailable",
    })
}

fn alert() -> Value {
    json!({
        "alert_id": "01a1f185-f041-7da1-b79e-c4bb54e5e70b", "rule": "endpoint_success_rate", "severity": "critical", "metric": "success_rate",
        "scope": "endpoint", "target_id": "01a1f185-f041-7da1-b79e-c4bb54e5e70a", "target_name": "Orders", "value": 87.456, "threshold": 90,
        "comparison": "below", "unit": "percent", "window_seconds": 3600, "fired_at": "2026-11-19T08:00:00Z", "repeat": false,
        "summary": "The success rate of Orders is 87.5 %, below 90 %.",
    })
}

fn app() -> Value {
    json!({
        "application_id": "01a1f185-edf5-7730-bbbd-8b8a816e29a2", "application_name": "Prize wheel", "url": "https://app.example.com/health",
        "status": "unhealthy", "detail": "the app answered 500 Internal Server Error", "failure_count": 3,
        "failing_since": "2026-11-19T07:58:30Z", "checked_at": "2026-11-19T08:00:00Z",
    })
}

/// The first value with the members of the second.
fn with(mut data: Value, more: &Value) -> Value {
    let members = data.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    data
}

fn page(event_type: &str, data: &Value) -> String {
    let event_type = EventType::parse(event_type).expect("a type");
    email::write(&of_event(&event_type, data).expect("it has words"), DEFAULT_BRAND).html
}

#[test]
fn mails_look_as_they_did() {
    let warning = json!({
        "failing_for": "3 days", "disable_in": "2 days", "failure_count": 31, "disable_at": "2026-11-21T08:00:00Z",
        "last_attempt_at": "2026-11-19T01:35:05Z", "next_attempt_at": "2026-11-19T11:35:05Z",
    });
    let failing = json!({ "reason": "failing", "failing_for": "5 days", "failure_count": 47, "disabled_at": "2026-11-21T08:00:00Z" });
    let gone = json!({ "disabled_at": "2026-11-21T08:00:00Z", "last_error": "the endpoint answered 410 Gone" });
    let resolved = json!({
        "value": 99.2, "resolved_at": "2026-11-19T09:00:00Z", "summary": "The success rate of Orders is 99.2 %, not below 90 % any more.",
    });
    let healthy = json!({ "status": "healthy", "detail": null });
    let pages = [
        ("warning", page("endpoint.warning", &with(endpoint(), &warning))),
        ("disabled", page("endpoint.disabled", &with(endpoint(), &failing))),
        ("gone", page("endpoint.disabled", &with(endpoint(), &gone))),
        ("recovered", page("endpoint.recovered", &with(endpoint(), &json!({ "recovered_at": "2026-11-22T08:00:00Z" })))),
        ("alert_fired", page("alert.fired", &alert())),
        ("alert_resolved", page("alert.resolved", &with(alert(), &resolved))),
        ("app_unhealthy", page("app.unhealthy", &app())),
        ("app_healthy", page("app.healthy", &with(app(), &healthy))),
    ];
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mail-pages");
    std::fs::create_dir_all(&folder).expect("a folder for the pages");
    for (name, html) in pages {
        std::fs::write(folder.join(format!("{name}.html")), &html).expect("the page is written");
        insta::assert_snapshot!(format!("mail_page_{name}"), html);
    }
}
