//! Organizations: the tenants. Each is born with its two built-in applications.

use super::{Change, Fault, Noun, Refusal, check_name, check_uid, refuse_faults};
use crate::{
    flow::Line,
    ids::{ApplicationId, OrganizationId, Ref, Uid},
    model::{Application, ApplicationKind, Organization},
    ports::{Created, NewOrganization, StoreError, Updated},
};

/// The uid of the organization that exists on every server, in which admins act unless they name another.
pub const DEFAULT_UID: &str = "default";

/// What is asked of an organization.
#[derive(Clone, Debug, Default)]
pub struct OrganizationChange {
    /// Shown to people; needed at creation.
    pub name: Change<String>,
    /// Stands for the id in paths.
    pub uid: Change<String>,
}

/// Makes an organization with its applications `default` and `operational`.
///
/// # Errors
/// [`Refusal`] says what is wrong or taken.
pub async fn create(line: &Line, asked: OrganizationChange) -> Result<Organization, Refusal> {
    let now = line.ports.clock.now();
    let mut organization =
        Organization { id: OrganizationId::from_uuid(line.ports.entropy.uuid(now)), uid: None, name: String::new(), created_at: now };
    apply(asked, &mut organization)?;
    store(line, organization).await
}

/// Changes an organization's name or uid.
///
/// # Errors
/// [`Refusal`] says what is wrong, missing or taken.
pub async fn change(line: &Line, of: &Ref<OrganizationId>, asked: OrganizationChange) -> Result<Organization, Refusal> {
    let found = line.ports.directory.organization(of).await?;
    let mut organization = found.ok_or(Refusal::NotFound(Noun::Organization))?;
    if organization.uid.as_ref().is_some_and(|uid| uid.as_str() == DEFAULT_UID) && asked.uid != Change::Keep {
        return Err(Refusal::Conflict("the organization `default` keeps its uid: the server finds it by that".to_owned()));
    }
    apply(asked, &mut organization)?;
    match line.ports.directory.update_organization(organization.clone()).await? {
        Updated::Updated => Ok(organization),
        Updated::UidTaken => Err(uid_taken(&organization)),
        Updated::NameTaken => Err(Refusal::taken("name", &organization.name)),
        Updated::Changed => Err(Refusal::NotFound(Noun::Organization)),
    }
}

/// Finds the organization `default`, or makes it at the first start.
///
/// # Errors
/// [`StoreError`] if the store cannot be reached.
pub async fn ensure_default(line: &Line) -> Result<Organization, StoreError> {
    let uid = Uid::parse(DEFAULT_UID).expect("`default` is a well-formed uid");
    if let Some(found) = line.ports.directory.organization(&Ref::Uid(uid.clone())).await? {
        return Ok(found);
    }
    let now = line.ports.clock.now();
    let id = OrganizationId::from_uuid(line.ports.entropy.uuid(now));
    let new = Organization { id, uid: Some(uid), name: "Default".to_owned(), created_at: now };
    match store(line, new).await {
        Ok(made) => Ok(made),
        Err(Refusal::Store(error)) => Err(error),
        Err(_) => Err(StoreError::Conflict),
    }
}

fn apply(asked: OrganizationChange, organization: &mut Organization) -> Result<(), Refusal> {
    let mut faults = Vec::new();
    match asked.name {
        Change::Keep if organization.name.is_empty() => faults.push(Fault::new("name", "is required")),
        Change::Clear => faults.push(Fault::new("name", "must not be null")),
        _ => {}
    }
    asked.name.check("name", &mut faults, check_name).apply(&mut organization.name, String::new());
    asked.uid.check("uid", &mut faults, check_uid).apply_to_option(&mut organization.uid);
    refuse_faults(faults)
}

async fn store(line: &Line, organization: Organization) -> Result<Organization, Refusal> {
    let new = NewOrganization {
        default: built_in(line, &organization, ApplicationKind::Default, "default"),
        operational: built_in(line, &organization, ApplicationKind::Operational, "operational"),
        organization: organization.clone(),
    };
    match line.ports.directory.create_organization(new).await? {
        Created::Created => Ok(organization),
        Created::UidTaken => Err(uid_taken(&organization)),
        Created::NameTaken => Err(Refusal::taken("name", &organization.name)),
    }
}

fn built_in(line: &Line, of: &Organization, kind: ApplicationKind, name: &str) -> Application {
    Application {
        id: ApplicationId::from_uuid(line.ports.entropy.uuid(of.created_at)),
        organization: of.id,
        uid: None,
        name: name.to_owned(),
        kind,
        created_at: of.created_at,
    }
}

fn uid_taken(organization: &Organization) -> Refusal {
    Refusal::taken("uid", organization.uid.as_ref().map_or("", Uid::as_str))
}
