//! Applications: integrations inside an organization.

use super::{
    CHANGE_ROUNDS_MAX, Change, Conflict, Fault, Noun, Refusal, api_keys, audit, check_name, check_uid, manifests, operations, owners,
    refuse_faults, sources, unexpected,
};
use crate::{
    ids::{ApiKeyId, ApplicationId, OrganizationId, Ref, Uid},
    line::Line,
    model::{Application, ApplicationKind, AuditAction, Author, CheckChange, DEFAULT_HEALTH_PATH, EmailAddress},
    policy::{
        audit::{changed, made},
        calls::manifest::{fault_of_application_base_url, fault_of_path},
        target::{self, TargetRules},
    },
    ports::{Created, Deleted, StoreError, Updated},
};

/// What is asked of an application.
#[derive(Clone, Debug, Default)]
pub struct ApplicationChange {
    /// Shown to people, unique in the organization; needed at creation.
    pub name: Change<String>,
    /// Can be used in place of the id in paths.
    pub uid: Change<String>,
    /// Whether only types that the organization defined can be published to it.
    pub strict_event_types: Change<bool>,
    /// Who gets the alerts about it; empty if the administrators do.
    pub owner_email: Change<String>,
    /// What the paths of its capabilities are appended to.
    pub base_url: Change<String>,
    /// Where its health is checked; empty if it is not.
    pub health_path: Change<String>,
}

/// Makes an application.
///
/// # Errors
/// [`Refusal`] says what is wrong or taken.
pub async fn create(line: &Line, rules: &TargetRules, by: &Author, asked: ApplicationChange) -> Result<Application, Refusal> {
    let now = line.ports.clock.now();
    let mut application = Application {
        id: ApplicationId::from_uuid(line.ports.entropy.uuid(now)),
        organization: by.organization,
        uid: None,
        name: String::new(),
        kind: ApplicationKind::Custom,
        strict_event_types: false,
        owner_email: None,
        base_url: None,
        health_path: Some(DEFAULT_HEALTH_PATH.to_owned()),
        created_at: now,
    };
    apply(rules, asked, &mut application)?;
    owners::check_count(line, by.organization, application.owner_email.as_ref()).await?;
    let note = made(&audit::of_application(&application));
    let entry = audit::entry(line, by, AuditAction::ApplicationCreate, application.id.as_uuid(), note);
    match line.ports.applications.create_application(application.clone(), entry).await? {
        Created::Created => {
            if application.owner_email.is_some() {
                owners::announce_change(line, by.organization);
            }
            Ok(application)
        }
        Created::UidTaken => Err(uid_taken(&application)),
        Created::NameTaken => Err(Refusal::name_taken(&application.name)),
        Created::TooMany => {
            Err(Refusal::Conflict(Conflict::LimitReached, "the organization has reached its limit of applications".to_owned()))
        }
        Created::NoSuchSchedule | Created::NoSuchApplication | Created::ConfigTooLarge => Err(unexpected()),
    }
}

/// Changes the fields that are given. A built-in application keeps its name and its uid: requests address it by the latter.
///
/// # Errors
/// [`Refusal`] says what is wrong, missing or taken.
pub async fn change(
    line: &Line,
    rules: &TargetRules,
    by: &Author,
    of: &Ref<ApplicationId>,
    asked: ApplicationChange,
) -> Result<Application, Refusal> {
    let mut read = find(line, by.organization, of).await?;
    for _ in 0..CHANGE_ROUNDS_MAX {
        let application = checked(rules, asked.clone(), &read)?;
        if application.owner_email != read.owner_email {
            owners::check_count(line, by.organization, application.owner_email.as_ref()).await?;
        }
        let note = changed(&audit::of_application(&read), &audit::of_application(&application));
        if note.says_nothing() {
            return Ok(read);
        }
        let entry = audit::entry(line, by, AuditAction::ApplicationUpdate, application.id.as_uuid(), note);
        let check = manifests::check_change(line, &read, &application).await?;
        match line.ports.applications.update_application(read.clone(), application.clone(), check.clone(), entry).await? {
            Updated::Updated => {
                announce_change(line, &read, &application, &check);
                return Ok(application);
            }
            Updated::UidTaken => return Err(uid_taken(&application)),
            Updated::NameTaken => return Err(Refusal::name_taken(&application.name)),
            Updated::Changed => read = find(line, by.organization, &Ref::Id(application.id)).await?,
            Updated::NoSuchSchedule => return Err(unexpected()),
        }
    }
    Err(Refusal::concurrent_change("application"))
}

fn announce_change(line: &Line, read: &Application, changed: &Application, check: &CheckChange) {
    line.catalog.forget(changed.id);
    line.calls.forget(changed.id);
    if read.owner_email != changed.owner_email {
        owners::announce_change(line, changed.organization);
    }
    if *check != CheckChange::Keep {
        line.health_checks_bell.notify_one();
    }
}

/// An application as it would be after a change.
///
/// # Errors
/// [`Refusal`] says what is wrong with it.
pub(super) fn checked(rules: &TargetRules, asked: ApplicationChange, read: &Application) -> Result<Application, Refusal> {
    check_built_in(read, &asked)?;
    let mut application = read.clone();
    apply(rules, asked, &mut application)?;
    Ok(application)
}

/// Deletes an application. Nothing can be published to it from now on; its endpoints are deleted by `jobs::deletions`, within seconds unless there are
/// very many. What was sent stays visible. Says which keys reached it alone: they are revoked.
///
/// # Errors
/// [`Refusal`] if there is none, or it is built in.
pub async fn delete(line: &Line, by: &Author, of: &Ref<ApplicationId>) -> Result<Vec<ApiKeyId>, Refusal> {
    let application = find(line, by.organization, of).await?;
    if application.kind != ApplicationKind::Custom {
        let words = format!("the application `{}` is built in: it is deleted with its organization", application.name);
        return Err(Refusal::Conflict(Conflict::BuiltIn, words));
    }
    let id = application.id;
    let was = audit::of_application(&application);
    let deletion = operations::deletion(line, by, operations::Deleted::Application(id), AuditAction::ApplicationDelete, was);
    let processors = sources::with_processor(line, by.organization, Some(id)).await?;
    let Deleted::Deleted(keys) = line.ports.applications.delete_application(by.organization, id, deletion).await? else {
        return Err(Refusal::NotFound(Noun::Application));
    };
    line.catalog.forget(id);
    line.sources.forget_application(id);
    line.calls.forget(id);
    // Its owner may have had a channel for it, by its own or by its manifest.
    owners::announce_change(line, by.organization);
    sources::announce_deleted_processors(line, &processors);
    line.publishers.forget_application(id).await;
    api_keys::forget_revoked(line, &keys).await;
    line.deletions_bell.notify_one();
    line.operations_bell.notify_one();
    Ok(keys)
}

async fn find(line: &Line, organization: OrganizationId, of: &Ref<ApplicationId>) -> Result<Application, Refusal> {
    line.ports.applications.application(organization, of).await?.ok_or(Refusal::NotFound(Noun::Application))
}

fn check_built_in(application: &Application, asked: &ApplicationChange) -> Result<(), Refusal> {
    let renamed = matches!(&asked.name, Change::Set(name) if *name != application.name);
    if renamed && application.kind != ApplicationKind::Custom {
        return Err(Refusal::Conflict(
            Conflict::BuiltIn,
            format!("the application `{}` is built in and cannot be renamed", application.name),
        ));
    }
    let is_own_uid = |uid: &str| application.uid.as_ref().is_some_and(|own| own.as_str() == uid);
    let keeps_uid = match &asked.uid {
        Change::Keep => true,
        Change::Clear => application.uid.is_none(),
        Change::Set(uid) => is_own_uid(uid),
    };
    if !keeps_uid && application.kind != ApplicationKind::Custom {
        return Err(Refusal::Conflict(
            Conflict::BuiltIn,
            format!("the application `{}` is built in and its uid cannot be changed", application.name),
        ));
    }
    if asked.strict_event_types == Change::Set(true) && application.kind == ApplicationKind::Operational {
        return Err(Refusal::Conflict(
            Conflict::BuiltIn,
            "the application `operational` cannot require defined event types: it has Everhook's own events".to_owned(),
        ));
    }
    Ok(())
}

/// Finds an application by what a user calls it: its id or its uid. A text that can be neither names none.
///
/// # Errors
/// [`StoreError`] if the store cannot be reached.
pub async fn find_named(line: &Line, organization: OrganizationId, name: &str) -> Result<Option<Application>, StoreError> {
    match Ref::parse(name) {
        Some(of) => line.ports.applications.application(organization, &of).await,
        None => Ok(None),
    }
}

fn apply(rules: &TargetRules, asked: ApplicationChange, application: &mut Application) -> Result<(), Refusal> {
    let mut faults = Vec::new();
    match asked.name {
        Change::Keep if application.name.is_empty() => faults.push(Fault::new("name", "is required")),
        Change::Clear => faults.push(Fault::new("name", "must not be null")),
        _ => {}
    }
    asked.name.check("name", &mut faults, check_name).apply(&mut application.name, String::new());
    asked.uid.check("uid", &mut faults, check_uid).apply_to_option(&mut application.uid);
    asked.strict_event_types.apply(&mut application.strict_event_types, false);
    asked.owner_email.check("owner_email", &mut faults, check_owner_email).apply_to_option(&mut application.owner_email);
    let check_base_url = |base_url| check_base_url(rules, base_url);
    asked.base_url.check("base_url", &mut faults, check_base_url).apply_to_option(&mut application.base_url);
    asked.health_path.check("health_path", &mut faults, check_health_path).apply_to_option(&mut application.health_path);
    refuse_faults(faults)
}

fn check_owner_email(text: String) -> Result<EmailAddress, String> {
    EmailAddress::parse(&text).map_err(|fault| fault.to_string())
}

/// Each address is vetted again on every connect.
fn check_base_url(rules: &TargetRules, base_url: String) -> Result<String, String> {
    let check_url = |url: &str| target::check(url, rules).map(|_| ()).map_err(|fault| fault.to_string());
    fault_of_application_base_url(&base_url, &check_url).map_or(Ok(base_url), Err)
}

fn check_health_path(path: String) -> Result<String, String> {
    fault_of_path(&path).map_or(Ok(path), |reason| Err(reason.to_owned()))
}

fn uid_taken(application: &Application) -> Refusal {
    Refusal::uid_taken(application.uid.as_ref().map_or("", Uid::as_str))
}
