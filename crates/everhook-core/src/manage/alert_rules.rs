//! Alert rules as people see them: the defaults, what an organization says instead and beside, and what a rule would have reported last week.

mod checking;
mod dry_run;

use serde_json::json;

pub use self::dry_run::{DRY_RUN_DAYS, DRY_RUN_TARGETS_MAX, DryRun, DryRunTarget, dry_run};
use super::{CHANGE_ROUNDS_MAX, Change, Conflict, Noun, Refusal, audit, changed_at};
use crate::{
    ids::{AlertRuleId, OrganizationId, Ref},
    line::Line,
    model::{ALERT_RULES_MAX, AlertRule, AuditAction, Author, OrganizationAlertRule},
    policy::{
        alerts::defaults::{default_rule, in_force, server_in_force},
        audit::{Facts, changed, made, removed},
    },
    ports::AlertRulePut,
};

/// What is asked of an alert rule, as written.
#[derive(Clone, Debug, Default)]
pub struct AlertRuleChange {
    /// Its name; needed at creation, and never changed.
    pub name: Change<String>,
    /// What is measured; as with the name.
    pub metric: Change<String>,
    /// Of what; as with the name.
    pub scope: Change<String>,
    /// What it is compared with.
    pub threshold: Change<f64>,
    /// Over how long it is measured.
    pub window: Change<std::time::Duration>,
    /// For how long the value must be on the wrong side.
    pub pending_for: Change<std::time::Duration>,
    /// How much it matters.
    pub severity: Change<String>,
    /// Whether the owner gets it.
    pub owner: Change<bool>,
    /// Whether the administrators get it.
    pub admins: Change<bool>,
    /// The channels that get it.
    pub channels: Change<Vec<String>>,
    /// Whether it is evaluated.
    pub enabled: Change<bool>,
}

/// A rule as it is in force.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedRule {
    /// What it says.
    pub rule: AlertRule,
    /// What the organization wrote, if it did.
    pub own: Option<OrganizationAlertRule>,
    /// Whether there is a default rule of this name.
    pub is_default: bool,
}

impl ListedRule {
    fn of(rule: AlertRule, own: Option<OrganizationAlertRule>) -> Self {
        Self { is_default: default_rule(&rule.name).is_some(), rule, own }
    }
}

/// Which rules somebody reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleReach {
    /// Those of the organization.
    Organization,
    /// Those about the server as well: an administrator of the server in the organization `default`.
    Server,
}

/// The rules in force: the defaults in their order, those about the server last, then what the organization wrote, by name.
///
/// # Errors
/// [`Refusal::Store`] if the store cannot be reached.
pub async fn list(line: &Line, organization: OrganizationId, reach: RuleReach) -> Result<Vec<ListedRule>, Refusal> {
    let own = line.ports.alert_rules.alert_rules(organization).await?;
    let find = |name: &str| own.iter().find(|own| own.rule.name == name).cloned();
    let written: Vec<AlertRule> = own.iter().map(|own| own.rule.clone()).collect();
    let of_server = if reach == RuleReach::Server { server_in_force(&written) } else { Vec::new() };
    let mut rules = in_force(written);
    let own_from = rules.iter().position(|rule| find(&rule.name).is_some()).unwrap_or(rules.len());
    rules.splice(own_from..own_from, of_server);
    Ok(rules.into_iter().map(|rule| ListedRule::of(rule.clone(), find(&rule.name))).collect())
}

/// A rule by its name.
///
/// # Errors
/// [`Refusal::NotFound`] if there is none.
pub async fn find(line: &Line, organization: OrganizationId, reach: RuleReach, of: &Ref<AlertRuleId>) -> Result<ListedRule, Refusal> {
    let Ref::Uid(name) = of else { return Err(Refusal::NotFound(Noun::AlertRule)) };
    let found = list(line, organization, reach).await?.into_iter().find(|listed| listed.rule.name == name.as_str());
    found.ok_or(Refusal::NotFound(Noun::AlertRule))
}

/// Writes a new rule.
///
/// # Errors
/// [`Refusal`] lists what is wrong, or says that the name is taken or there are too many.
pub async fn create(line: &Line, by: &Author, asked: AlertRuleChange) -> Result<ListedRule, Refusal> {
    let rule = checking::new_rule(asked)?;
    let own = line.ports.alert_rules.alert_rules(by.organization).await?;
    if default_rule(&rule.name).is_some() || own.iter().any(|own| own.rule.name == rule.name) {
        return Err(Refusal::name_taken(&rule.name));
    }
    put_new(line, by, rule).await
}

/// Changes the fields that are given. A default rule that is changed first becomes the organization's own version of it.
///
/// # Errors
/// [`Refusal`] lists what is wrong, or says what is missing.
pub async fn change(
    line: &Line,
    by: &Author,
    reach: RuleReach,
    of: &Ref<AlertRuleId>,
    asked: AlertRuleChange,
) -> Result<ListedRule, Refusal> {
    for _ in 0..CHANGE_ROUNDS_MAX {
        let found = find(line, by.organization, reach, of).await?;
        let rule = checking::changed_rule(asked.clone(), &found.rule)?;
        if rule == found.rule {
            return Ok(found);
        }
        let Some(mut own) = found.own else {
            match put_new(line, by, rule).await {
                Err(Refusal::Conflict(Conflict::ConcurrentChange, _)) => continue,
                put => return put,
            }
        };
        let read_at = own.updated_at;
        let note = changed(&facts(&own.rule), &facts(&rule));
        (own.rule, own.updated_at) = (rule, changed_at(line, read_at));
        let entry = audit::entry(line, by, AuditAction::AlertRuleUpdate, own.id.as_uuid(), note);
        match line.ports.alert_rules.put_alert_rule(own.clone(), Some(read_at), ALERT_RULES_MAX, entry).await? {
            AlertRulePut::Changed => {}
            _ => return Ok(ListedRule::of(own.rule.clone(), Some(own))),
        }
    }
    Err(Refusal::concurrent_change("alert rule"))
}

/// Deletes a rule, or brings a default one back to what it was. What fires by it is reported as resolved.
///
/// # Errors
/// [`Refusal::NotFound`] if there is none; [`Conflict::BuiltIn`] if it is a default rule that nobody changed.
pub async fn delete(line: &Line, by: &Author, reach: RuleReach, of: &Ref<AlertRuleId>) -> Result<(), Refusal> {
    let found = find(line, by.organization, reach, of).await?;
    let Some(own) = found.own else {
        let words = "a default alert rule cannot be deleted: set `enabled` to false".to_owned();
        return Err(Refusal::Conflict(Conflict::BuiltIn, words));
    };
    let entry = audit::entry(line, by, AuditAction::AlertRuleDelete, own.id.as_uuid(), removed(&facts(&own.rule)));
    match line.ports.alert_rules.delete_alert_rule(by.organization, &own.rule.name, entry).await? {
        true => Ok(()),
        false => Err(Refusal::NotFound(Noun::AlertRule)),
    }
}

async fn put_new(line: &Line, by: &Author, rule: AlertRule) -> Result<ListedRule, Refusal> {
    let now = line.ports.clock.now();
    let own = OrganizationAlertRule {
        id: AlertRuleId::from_uuid(line.ports.entropy.uuid(now)),
        organization: by.organization,
        rule,
        created_at: now,
        updated_at: now,
    };
    let entry = audit::entry(line, by, AuditAction::AlertRuleCreate, own.id.as_uuid(), made(&facts(&own.rule)));
    match line.ports.alert_rules.put_alert_rule(own.clone(), None, ALERT_RULES_MAX, entry).await? {
        AlertRulePut::Put => Ok(ListedRule::of(own.rule.clone(), Some(own))),
        AlertRulePut::Changed => Err(Refusal::concurrent_change("alert rule")),
        AlertRulePut::TooMany => {
            let words = format!("the organization has reached the limit of {ALERT_RULES_MAX} alert rules, changed default rules included");
            Err(Refusal::Conflict(Conflict::LimitReached, words))
        }
    }
}

fn facts(rule: &AlertRule) -> Facts {
    Facts::default()
        .plain("name", &*rule.name)
        .plain("metric", rule.metric.as_str())
        .plain("scope", rule.scope.as_str())
        .plain("threshold", rule.threshold)
        .plain("window_seconds", rule.window.as_secs())
        .plain("for_seconds", rule.pending_for.as_secs())
        .plain("severity", rule.severity.as_str())
        .plain(
            "recipients",
            json!({ "owner": rule.recipients.owner, "admins": rule.recipients.admins, "channels": rule.recipients.channels }),
        )
        .plain("enabled", rule.enabled)
}

/// The rule that a dry run is asked for: a new one, not written anywhere.
///
/// # Errors
/// [`Refusal::Invalid`] lists what is wrong.
pub fn tried(asked: AlertRuleChange) -> Result<AlertRule, Refusal> {
    checking::new_rule(asked)
}
