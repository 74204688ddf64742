//! Every default alert rule on its own condition: it fires, not before, once, and says when it is over. By the evaluation that runs, on the store.
//!
//! Rules of the scope `server` are not evaluated by that job, and are not here. `default_alert_scenes` has how each condition comes about.

use everhook_core::{
    model::AlertScope,
    policy::alerts::defaults::{DEFAULT_RULES, DefaultRule},
};
use everhook_testbed::{mins, secs};

use super::{
    alert_rules::{told, types},
    default_alert_scenes::{Cause, Scene},
};

/// How each rule is broken. The last attempt, letter or event of a condition is one that the threshold does not allow.
fn cause_of(rule: &DefaultRule) -> Cause {
    match rule.name {
        "endpoint_success_rate_warning" | "capability_success_rate_warning" => Cause::failures(95, 5),
        "endpoint_success_rate_critical" | "capability_success_rate_critical" => Cause::failures(90, 10),
        "endpoint_success_rate_drop" | "capability_success_rate_drop" => Cause::failures(90, 10),
        "endpoint_error_rate" | "capability_error_rate" => Cause::failures(95, 5),
        "endpoint_p95_near_timeout" | "capability_p95_near_timeout" => Cause::slowness(secs(10), secs(14)),
        "endpoint_p99_slow" | "capability_p99_slow" => Cause::slowness(secs(4), secs(6)),
        "endpoint_dns_failures" | "capability_dns_failures" => Cause::dns_failures(20, 80),
        "endpoint_circuit_opened" | "capability_circuit_opened" | "endpoint_circuit_open_long" | "capability_circuit_open_long" => {
            Cause::OpenCircuit
        }
        "dead_letters" => Cause::DeadLetters { allowed: 0 },
        "dead_letters_over_100" => Cause::DeadLetters { allowed: 100 },
        "dead_letters_over_1000" => Cause::DeadLetters { allowed: 1_000 },
        "source_processing_slow" => Cause::SlowProcessing { allowed: mins(4), longer: mins(7) },
        "source_processing_failures" => Cause::FailedProcessing { completed: 90, failed: 10 },
        "source_dead_events" => Cause::DeadEvents { allowed: 10 },
        "source_depth" => Cause::Depth { allowed: 100 },
        "source_bad_signatures" => Cause::BadSignatures { allowed: 20 },
        "app_health_check_failed" => Cause::FailedHealthChecks { allowed: 2 },
        other => panic!("{other}: say how it is broken"),
    }
}

async fn assert_story(rule: &DefaultRule) {
    let name = rule.name;
    let mut scene = Scene::new(rule, cause_of(rule)).await;
    // Short, so that what is allowed is still in the shortest window when the alert is looked at for the last time.
    let while_evaluated = if rule.pending_for.is_zero() { mins(1) } else { mins(2) };
    scene.come_close().await;
    scene.world.pass(while_evaluated).await;
    assert_eq!(types(&scene.world, name).await, [""; 0], "{name} fires although nothing is wrong");
    scene.break_it().await;
    if !rule.pending_for.is_zero() {
        scene.world.pass(rule.pending_for - mins(1)).await;
        assert_eq!(types(&scene.world, name).await, [""; 0], "{name} fires before its time");
    }
    scene.world.pass(while_evaluated).await;
    let fired = told(&scene.world, name).await;
    let [(event_type, data)] = &fired[..] else { panic!("{name} is reported {} times", fired.len()) };
    let expected = rule.rule();
    assert_eq!(event_type, "alert.fired", "{name}");
    assert_eq!((&data["severity"], &data["scope"]), (&expected.severity.as_str().into(), &expected.scope.as_str().into()), "{name}");
    assert_eq!(data["target_id"], scene.target.to_string(), "{name}");
    assert_eq!(data["recipients"]["admins"], expected.recipients.admins, "{name}");
    assert_eq!(data["recipients"]["owner"], expected.recipients.owner, "{name}");
    scene.world.pass(mins(2)).await;
    assert_eq!(types(&scene.world, name).await, ["alert.fired"], "{name} is repeated");
    scene.recover().await;
    scene.world.pass(mins(2)).await;
    assert_eq!(types(&scene.world, name).await, ["alert.fired", "alert.resolved"], "{name} does not end");
    scene.world.pass(mins(2)).await;
    assert_eq!(types(&scene.world, name).await.len(), 2, "{name} does not stay ended");
    scene.world.leaves_work_over();
}

async fn assert_stories(scope: AlertScope) {
    for rule in DEFAULT_RULES.iter().filter(|rule| rule.scope == scope) {
        assert_story(rule).await;
    }
}

#[tokio::test]
async fn every_default_alert_about_endpoints_fires_on_its_condition_and_ends() {
    assert_stories(AlertScope::Endpoint).await;
}

#[tokio::test]
async fn every_default_alert_about_capabilities_fires_on_its_condition_and_ends() {
    assert_stories(AlertScope::Capability).await;
}

#[tokio::test]
async fn every_default_alert_about_organizations_fires_on_its_condition_and_ends() {
    assert_stories(AlertScope::Organization).await;
}

#[tokio::test]
async fn every_default_alert_about_sources_fires_on_its_condition_and_ends() {
    assert_stories(AlertScope::Source).await;
}

#[tokio::test]
async fn every_default_alert_about_apps_fires_on_its_condition_and_ends() {
    assert_stories(AlertScope::Application).await;
}

#[test]
fn every_default_rule_of_an_organization_has_a_condition_here() {
    for rule in DEFAULT_RULES.iter().filter(|rule| rule.scope != AlertScope::Server) {
        cause_of(rule);
    }
}
