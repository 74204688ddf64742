//! What people read, and what no tenant's value can make of it.

use serde_json::{Value, json};

use super::{
    routing::{Omission, choose},
    *,
};
use crate::{
    ids::{ChannelId, ScheduleVersion},
    model::{Channel, ChannelName, ChannelTarget, EmailAddress, EventTypePattern, SealedSecret, ServiceChannel, ServiceKind},
    time::Timestamp,
};

fn notice_of(event_type: &str, data: &Value) -> Notice {
    let event_type = EventType::parse(event_type).unwrap();
    assert!(has_words_for(&event_type));
    of_event(&event_type, data).unwrap()
}

fn orders() -> Value {
    json!({
        "application_id": "a-1", "application_name": "Shop", "endpoint_id": "e-1", "endpoint_name": "Orders",
        "endpoint_url": "https://example.com/hook", "disabled_at": "2026-01-02T03:04:05Z", "last_error": "410 Gone",
    })
}

fn alert(severity: &str, recipients: &Value) -> Value {
    json!({
        "alert_id": "al-1", "dedupe_key": "rule-1:e-1", "organization_id": "o-1", "rule": "endpoint_success_rate", "severity": severity,
        "metric": "success_rate", "scope": "endpoint", "target_id": "e-1", "target_name": "Orders", "value": 87.456, "threshold": 90,
        "comparison": "below", "unit": "percent", "window_seconds": 3600, "fired_at": "2026-01-02T03:04:05Z", "repeat": false,
        "summary": "The success rate of Orders is 87.5 %, below 90 %.", "recipients": recipients,
    })
}

/// What a tenant may call an endpoint to do harm.
const HOSTILE: &str = "<script>alert(1)</script>\r\nBcc: x@y <!channel> @channel @everyone <@U123> <https://evil.example|click> [click](https://evil.example) `code` *bold* {{DATE(1)}} ${x} www.evil.example \u{202e}";

#[test]
fn a_disabled_endpoint_is_named_with_what_to_do() {
    let notice = email::write(&notice_of("endpoint.disabled", &orders()), DEFAULT_BRAND);
    assert_eq!(notice.subject, "[Everhook - Action Required] Endpoint Disabled: Orders");
    for part in
        ["Application:   Shop (a-1)", "Endpoint:      Orders (e-1)", "URL:           https://example.com/hook", "PUT /v1/endpoints/e-1"]
    {
        assert!(notice.text.contains(part), "{part} is missing in {}", notice.text);
    }
    assert!(notice.html.contains(">Shop (a-1)</td>") && notice.html.contains("prefers-color-scheme:dark"));
    // Without a name, the URL says which one; without anything, it is still a mail.
    let title = |data: Value| notice_of("endpoint.disabled", &data).title;
    assert!(title(json!({"endpoint_url": "https://example.com"})).ends_with(": https://example.com"));
    assert!(!email::write(&notice_of("endpoint.disabled", &json!({})), DEFAULT_BRAND).text.contains("URL:"));
    assert!(notice_of("endpoint.disabled", &orders()).subject("Hooks").starts_with("[Hooks - Action Required]"));
}

#[test]
fn every_type_that_there_are_words_for_has_some_whatever_its_data_says() {
    for name in TYPES_WITH_WORDS {
        for data in [json!({}), Value::Null, json!([1]), orders(), alert("critical", &Value::Null)] {
            let notice = notice_of(name, &data);
            assert!(!notice.title.is_empty() && !notice.summary.is_empty() && !notice.label.is_empty(), "{name}");
        }
    }
    let other = EventType::parse("order.paid").unwrap();
    assert!(!has_words_for(&other) && of_event(&other, &json!({})).is_none());
}

#[test]
fn the_end_of_a_problem_has_the_key_and_the_severity_of_its_beginning() {
    let app = json!({"application_id": "a-1"});
    let queue = json!({"organization_id": "o-1", "queue": "q"});
    let pairs = [
        ("alert.fired", "alert.resolved", alert("critical", &Value::Null)),
        ("endpoint.disabled", "endpoint.recovered", orders()),
        ("circuit.opened", "circuit.closed", orders()),
        ("app.unhealthy", "app.healthy", app),
        ("amqp.unreachable", "amqp.recovered", queue),
    ];
    for (begin, end, data) in pairs {
        let (begin, end) = (notice_of(begin, &data), notice_of(end, &data));
        assert_eq!((begin.state, end.state), (NoticeState::Problem, NoticeState::Resolved), "{}", begin.title);
        assert!(begin.dedupe_key.is_some() && begin.dedupe_key == end.dedupe_key, "{}", begin.title);
        assert_eq!(begin.severity, end.severity, "{}", begin.title);
    }
}

#[test]
fn an_alert_says_its_numbers_with_their_units() {
    let notice = notice_of("alert.fired", &alert("critical", &Value::Null));
    assert_eq!(notice.subject(DEFAULT_BRAND), "[Everhook - Critical] Alert: endpoint_success_rate: Orders");
    let fact = |name| notice.facts.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
    assert_eq!(fact("Value"), Some("87.46 %"));
    assert_eq!((fact("Threshold"), fact("Window")), (Some("below 90 %"), Some("60 minutes")));
    assert_eq!(notice.dedupe_key.as_deref(), Some("rule-1:e-1"));
}

#[test]
fn in_a_mail_what_a_tenant_wrote_is_neither_markup_nor_a_second_line() {
    let data = json!({"endpoint_name": HOSTILE, "endpoint_url": "\"><img src=x>", "last_error": "a".repeat(10_000)});
    let notice = email::write(&notice_of("endpoint.disabled", &data), DEFAULT_BRAND);
    assert!(notice.subject.starts_with("[Everhook - Action Required] Endpoint Disabled: <script>alert(1)</script>  Bcc: x@y"));
    assert!(!notice.html.contains("<script>") && !notice.html.contains("<img") && !notice.html.contains("href"));
    assert!(!notice.text.lines().any(|line| line.starts_with("Bcc")), "{}", notice.text);
    assert!(notice.html.len() < 12_000, "{}", notice.html.len());
}

#[test]
fn in_slack_what_a_tenant_wrote_is_neither_a_mention_nor_a_link_nor_markup() {
    let data = json!({"endpoint_name": HOSTILE, "endpoint_url": HOSTILE, "endpoint_id": HOSTILE, "last_error": HOSTILE});
    let body: Value = serde_json::from_slice(&slack::write(&notice_of("endpoint.disabled", &data), DEFAULT_BRAND)).unwrap();
    assert_eq!((&body["parse"], &body["link_names"], &body["unfurl_links"]), (&json!("none"), &json!(false), &json!(false)));
    let attachment = &body["attachments"][0];
    let mut texts = vec![body["text"].as_str().unwrap(), attachment["fallback"].as_str().unwrap()];
    // Without what stands in code, where nothing is interpreted.
    let text = attachment["text"].as_str().unwrap();
    texts.extend(text.split('`').step_by(2));
    for outside in texts {
        for bad in ["<", ">", "@c", "@e", "@U", "://", "*bold", "[click", "www.", "`"] {
            assert!(!outside.contains(bad), "{bad} in {outside}");
        }
    }
    for field in attachment["fields"].as_array().unwrap() {
        let value = field["value"].as_str().unwrap();
        let inner = value.strip_prefix('`').and_then(|value| value.strip_suffix('`')).expect("values stand in code");
        assert!(!inner.contains(['`', '<', '>', '\n']), "{inner}");
    }
}

#[test]
fn in_teams_what_a_tenant_wrote_is_text_and_fits_a_message() {
    let long = format!("{HOSTILE}{}", "😀".repeat(1_000));
    let data = json!({
        "endpoint_name": long, "endpoint_url": long, "endpoint_id": long, "last_error": long, "application_id": long, "application_name": long,
        "endpoint_description": long, "disabled_at": long, "first_failure_at": long, "failing_for": long, "reason": "failing",
    });
    let body = teams::write(&notice_of("endpoint.disabled", &data), DEFAULT_BRAND);
    assert!(body.len() < 28 * 1_024, "Teams takes 28 KB, and this is {}", body.len());
    let body: Value = serde_json::from_slice(&body).unwrap();
    let card = &body["attachments"][0]["content"];
    assert!(card["msteams"].get("entities").is_none(), "without entities nobody is mentioned");
    for block in card["body"].as_array().unwrap() {
        assert_eq!(block["type"], "RichTextBlock", "other elements know links");
        for run in block["inlines"].as_array().unwrap() {
            let text = run["text"].as_str().unwrap();
            assert!(
                run["type"] == "TextRun" && run.get("selectAction").is_none() && !text.contains("{{") && !text.contains("${"),
                "{text}"
            );
        }
    }
}

#[test]
fn pagerduty_is_told_to_trigger_and_to_resolve_the_same_incident() {
    let write = |name: &str, data: &Value| -> Value {
        let event_type = EventType::parse(name).unwrap();
        let of = pagerduty::PagerDutyEvent { routing_key: "R", event_type: &event_type, at: "2026-01-02T03:04:05Z", event_id: "ev-1" };
        serde_json::from_slice(&pagerduty::write(&notice_of(name, data), DEFAULT_BRAND, &of)).unwrap()
    };
    let fired = write("alert.fired", &alert("critical", &Value::Null));
    assert_eq!(
        (&fired["event_action"], &fired["dedup_key"], &fired["routing_key"]),
        (&json!("trigger"), &json!("rule-1:e-1"), &json!("R"))
    );
    assert_eq!((&fired["payload"]["severity"], &fired["payload"]["class"]), (&json!("critical"), &json!("alert.fired")));
    let resolved = write("alert.resolved", &alert("critical", &Value::Null));
    assert_eq!((&resolved["event_action"], &resolved["dedup_key"]), (&json!("resolve"), &fired["dedup_key"]));
    // What has no end is an incident of its own.
    assert_eq!(write("job.dead", &json!({"capability": "c"}))["dedup_key"], "ev-1");
    let long = alert("warning", &Value::Null);
    let long = write("alert.fired", &json!({"dedupe_key": "k".repeat(1_000), "rule": "r".repeat(5_000), "severity": long["severity"]}));
    assert!(long["dedup_key"].as_str().unwrap().len() <= 255 && long["payload"]["summary"].as_str().unwrap().chars().count() <= 1_024);
}

#[test]
fn a_webhook_gets_the_words_and_the_data_as_it_was_published() {
    let data = br#"{"endpoint_name":"Orders","n":1.10,"e":"\u0041"}"#;
    let notice = notice_of("endpoint.disabled", &serde_json::from_slice(data).unwrap());
    let of = webhook::WebhookEvent { channel: "ops", id: "ev-1", event_type: "endpoint.disabled", at: "2026-01-02T03:04:05Z", data };
    let body = String::from_utf8(webhook::write(&notice, &of).to_vec()).unwrap();
    assert!(body.contains(r#""data":{"endpoint_name":"Orders","n":1.10,"e":"\u0041"}"#), "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&body["severity"], &body["state"], &body["title"]),
        (&json!("critical"), &json!("problem"), &json!("Endpoint Disabled: Orders"))
    );
}

fn email_channel(address: &str, to: fn(EmailAddress) -> ChannelTarget) -> Channel {
    let to = to(EmailAddress::parse(address).unwrap());
    Channel { id: ChannelId::from_uuid(uuid::Uuid::from_u128(address.len() as u128)), retry_schedule: ScheduleVersion(1), to }
}

fn service(name: &str, patterns: &[&str], min_severity: Option<NoticeSeverity>) -> Channel {
    let service = ServiceChannel {
        name: ChannelName::parse(name).unwrap(),
        kind: ServiceKind::Slack,
        credentials: SealedSecret(Vec::new()),
        event_types: patterns.iter().map(|text| EventTypePattern::parse(text).unwrap()).collect(),
        min_severity,
        enabled: true,
        created_at: Timestamp::EPOCH,
        updated_at: Timestamp::EPOCH,
    };
    let id = ChannelId::from_uuid(uuid::Uuid::from_u128(1_000 + name.len() as u128));
    Channel { id, retry_schedule: ScheduleVersion(1), to: ChannelTarget::Service(Box::new(service)) }
}

#[test]
fn an_alert_goes_to_whom_it_names_and_to_everyone_if_that_is_nobody() {
    let channels = [
        email_channel("ops@example.com", ChannelTarget::Admin),
        email_channel("shop@example.com", ChannelTarget::Owner),
        email_channel("app@example.com", ChannelTarget::Owner),
        service("all", &["*"], None),
        service("critical", &["*"], Some(NoticeSeverity::Critical)),
        service("jobs-only", &["job.dead"], None),
    ];
    let chosen = |name: &str, data: &Value| {
        let event_type = EventType::parse(name).unwrap();
        let may: Vec<&Channel> = channels.iter().filter(|channel| routing::may_get(channel, &event_type)).collect();
        choose(&may, &event_type, data).into_iter().map(Channel::name).collect::<Vec<_>>().join(" ")
    };
    let cases = [
        (json!({"admins": true}), "warning", "ops@example.com all"),
        (json!({"admins": true}), "critical", "ops@example.com all critical"),
        // An owner with an address is nobody else: administrators get it only if they are named as well.
        (json!({"owner": true, "owner_email": "shop@example.com"}), "warning", "shop@example.com all"),
        (
            json!({"owner": true, "owner_email": "shop@example.com", "admins": true}),
            "critical",
            "ops@example.com shop@example.com all critical",
        ),
        (json!({"owner": true, "owner_email": "ops@example.com"}), "warning", "ops@example.com all"),
        (json!({"owner": false, "owner_email": "shop@example.com", "admins": true}), "warning", "ops@example.com all"),
        (json!({"owner": true, "owner_email": "shop@example.com", "channels": ["jobs-only"]}), "warning", "shop@example.com all jobs-only"),
        // The administrators stand in for an owner without one, and for one whose channel is gone.
        (json!({"owner": true}), "warning", "ops@example.com all"),
        (json!({"owner": true, "owner_email": null}), "warning", "ops@example.com all"),
        (json!({"owner": true, "owner_email": "gone@example.com"}), "warning", "ops@example.com all"),
        // Named ones get it, whatever else they asked for.
        (json!({"channels": ["jobs-only"]}), "warning", "jobs-only"),
        (json!({"channels": ["critical", "ops@example.com"]}), "warning", "ops@example.com critical"),
        (json!({"admins": true, "channels": ["jobs-only"]}), "warning", "ops@example.com all jobs-only"),
        // None of them is there: somebody must be notified.
        (json!({"channels": ["gone"]}), "warning", "ops@example.com all"),
        (Value::Null, "warning", "ops@example.com all"),
        (json!("odd"), "warning", "ops@example.com all"),
    ];
    for (recipients, severity, expected) in cases {
        for name in ["alert.fired", "alert.resolved"] {
            assert_eq!(chosen(name, &alert(severity, &recipients)), expected, "{name} {recipients} {severity}");
        }
    }
    // What the node sent to the administrators goes to whom it named beside them.
    let sent = |recipients: Value| {
        let mut data = alert("critical", &recipients);
        data["sent_directly"] = json!(true);
        chosen("alert.fired", &data)
    };
    assert_eq!(sent(json!({"admins": true})), "");
    assert_eq!(sent(json!({"admins": true, "channels": ["jobs-only", "ops@example.com"]})), "jobs-only");
    assert_eq!(sent(json!({"admins": true, "channels": ["gone"]})), "");
    assert_eq!(chosen("job.dead", &json!({})), "all jobs-only");
    assert_eq!(chosen("endpoint.disabled", &orders()), "ops@example.com all critical", "owners get alerts only");
    assert_eq!(chosen("circuit.opened", &orders()), "all", "not by e-mail");
    assert_eq!(chosen("order.paid", &json!({})), "");
}

#[test]
fn a_channel_that_does_not_get_an_event_says_which_of_its_settings_is_why() {
    let mut off = service("off-now", &["*"], None);
    if let ChannelTarget::Service(service) = &mut off.to {
        service.enabled = false;
    }
    let channels = [
        email_channel("ops@example.com", ChannelTarget::Admin),
        service("all", &["*"], None),
        service("critical", &["*"], Some(NoticeSeverity::Critical)),
        service("jobs-only", &["job.dead"], None),
        off,
    ];
    let omissions = |name: &str, data: &Value| {
        let (event_type, all) = (EventType::parse(name).unwrap(), channels.iter().collect::<Vec<_>>());
        let found: Vec<_> = channels.iter().map(|channel| routing::omission(channel, &all, &event_type, data)).collect();
        // It agrees with what is sent.
        let may: Vec<&Channel> = channels.iter().filter(|channel| routing::may_get(channel, &event_type)).collect();
        let chosen: Vec<_> = choose(&may, &event_type, data).into_iter().map(|channel| channel.id).collect();
        for (channel, omission) in channels.iter().zip(&found) {
            assert_eq!(chosen.contains(&channel.id), omission.is_none(), "{name} {}", channel.name());
        }
        found
    };
    let (disabled, differs) = (Some(Omission::Disabled), Some(Omission::TypeDiffers));
    assert_eq!(omissions("circuit.opened", &orders()), [differs, None, Some(Omission::LessSerious), differs, disabled]);
    assert_eq!(omissions("order.paid", &json!({})), [Some(Omission::NoText); 5]);
    let named = alert("warning", &json!({ "channels": ["jobs-only"] }));
    let not_named = Some(Omission::NotARecipient);
    assert_eq!(omissions("alert.fired", &named), [not_named, not_named, not_named, None, disabled]);
    assert_eq!(omissions("job.dead", &json!({})), [differs, None, Some(Omission::LessSerious), None, disabled]);
}

#[test]
fn what_channels_get_by_default_is_something_that_is_told_about() {
    for kind in ServiceKind::ALL {
        for pattern in routing::default_patterns(kind) {
            let types = TYPES_WITH_WORDS.map(|name| EventType::parse(name).unwrap());
            assert!(types.iter().any(|name| crate::policy::matching::wants(std::slice::from_ref(&pattern), name)), "{pattern}");
        }
    }
    let has_end = |name: &str| notice_of(name, &orders()).dedupe_key.is_some() || name.starts_with("alert.");
    let incidents = routing::default_patterns(ServiceKind::PagerDuty);
    for name in TYPES_WITH_WORDS {
        let wanted = crate::policy::matching::wants(&incidents, &EventType::parse(name).unwrap());
        assert!(!wanted || has_end(name), "an incident of {name} would stay open");
    }
}
