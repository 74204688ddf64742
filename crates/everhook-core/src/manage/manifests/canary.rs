//! Withdrawing a canary: the manifest says so from now on, and the organization is notified, both in one write.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{BOUNDS, CHANGE_ROUNDS_MAX, check_plan, facts, is_kept, lanes_of, manifest_of};
use crate::{
    calls::WithdrawnCanary,
    ids::Ref,
    line::Line,
    manage::{Refusal, audit},
    model::{AuditAction, Author, EventType, KeptManifest},
    policy::audit::changed,
    ports::{Alert, ManifestChange},
};

/// Notes in the manifest that a canary is withdrawn, unless it is another manifest by now, and records `canary.withdrawn` with it. Says whether it did.
///
/// # Errors
/// [`Refusal::Store`] if the store cannot be reached: this node calls the canary no more all the same.
pub async fn withdraw_canary(line: &Line, withdrawn: &WithdrawnCanary) -> Result<bool, Refusal> {
    let now = line.ports.clock.now();
    let why = reason(withdrawn);
    for _ in 0..CHANGE_ROUNDS_MAX {
        let of = Ref::Id(withdrawn.application);
        let Some(application) = line.ports.applications.application(withdrawn.organization, &of).await? else { return Ok(false) };
        let Some(old) = line.ports.manifests.manifest(withdrawn.application).await? else { return Ok(false) };
        let noted =
            (old.version == withdrawn.version).then(|| note(&old.document, &withdrawn.capability, &now.to_string(), &why)).flatten();
        let Some(document) = noted else { return Ok(false) };
        let new = KeptManifest { version: old.version + 1, document, updated_at: now, ..old.clone() };
        let by = Author::server(withdrawn.organization);
        let note = changed(&facts(&old), &facts(&new));
        let entry = audit::entry(line, &by, AuditAction::ApplicationPutManifest, withdrawn.application.as_uuid(), note);
        // What the app answers and how it is checked stay as they are.
        let manifest = manifest_of(line, &new)?;
        let (lanes, check) = (lanes_of(line, &manifest, new.application), check_plan(line, &application, &manifest));
        let alerts = vec![alert_of(line, withdrawn, &why)];
        let change = ManifestChange { read: application, manifest: new };
        if is_kept(line.ports.manifests.put_manifest(change, lanes, check, alerts, BOUNDS, entry).await?)? {
            line.calls.forget(withdrawn.application);
            line.calls.records.alerts_recorded.notify_one();
            return Ok(true);
        }
    }
    Err(Refusal::concurrent_change("manifest"))
}

fn reason(withdrawn: &WithdrawnCanary) -> String {
    let ((canary, canary_failed), (stable, stable_failed)) = (withdrawn.why.canary, withdrawn.why.stable);
    format!("{canary_failed} of its last {canary} calls failed, and {stable_failed} of {stable} calls of the stable app")
}

/// Adds to a document that the canary of a capability is withdrawn; `None` if it has none, or it is withdrawn already.
fn note(document: &str, capability: &str, at: &str, why: &str) -> Option<String> {
    let mut document: Value = serde_json::from_str(document).ok()?;
    let named = if document.get("capabilities").is_some_and(Value::is_object) { "capabilities" } else { "webhooks" };
    let canary = document.get_mut(named)?.get_mut(capability)?.get_mut("canary")?.as_object_mut()?;
    if canary.contains_key("withdrawn_at") {
        return None;
    }
    canary.insert("withdrawn_at".to_owned(), json!(at));
    canary.insert("withdrawn_because".to_owned(), json!(why));
    Some(document.to_string())
}

fn alert_of(line: &Line, withdrawn: &WithdrawnCanary, why: &str) -> Alert {
    let data = json!({
        "organization_id": withdrawn.organization.to_string(),
        "application_id": withdrawn.application.to_string(),
        "capability": withdrawn.capability,
        "manifest_version": withdrawn.version,
        "reason": why,
    });
    Alert {
        id: line.ports.entropy.uuid(line.ports.clock.now()),
        organization: withdrawn.organization,
        event_type: EventType::parse("canary.withdrawn").expect("our own event types are well-formed"),
        data: Bytes::from(data.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canary_is_noted_as_withdrawn_once_and_nothing_else_changes() {
        for named in ["capabilities", "webhooks"] {
            let document =
                json!({ "base_url": "x", named: { "one": { "path": "/", "canary": { "percent": 5 } }, "two": { "path": "/" } } });
            let noted = note(&document.to_string(), "one", "now", "bad").unwrap();
            let mut expected = document.clone();
            expected[named]["one"]["canary"] = json!({ "percent": 5, "withdrawn_at": "now", "withdrawn_because": "bad" });
            assert_eq!(serde_json::from_str::<Value>(&noted).unwrap(), expected);
            assert_eq!(note(&noted, "one", "now", "bad"), None);
            assert_eq!(note(&document.to_string(), "two", "now", "bad"), None);
        }
    }
}
