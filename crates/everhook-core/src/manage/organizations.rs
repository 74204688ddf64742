//! Organizations: the tenants. Each is born with its two built-in applications.

use std::num::NonZeroU32;

use super::{Change, Fault, Noun, Refusal, check_name, check_uid, refuse_faults};
use crate::{
    flow::Line,
    ids::{ApplicationId, OrganizationId, Ref, Uid},
    model::{Application, ApplicationKind, Organization, OrganizationLimits},
    ports::{Created, NewOrganization, StoreError, Updated},
};

/// The uid of the organization that exists on every server, in which admins act unless they name another.
pub const DEFAULT_UID: &str = "default";

/// The highest limit that can be set: more is no limit.
const LIMIT_MAX: u32 = 1_000_000_000;

/// What is asked of an organization.
#[derive(Clone, Debug, Default)]
pub struct OrganizationChange {
    /// Shown to people; needed at creation.
    pub name: Change<String>,
    /// Stands for the id in paths.
    pub uid: Change<String>,
    /// What it may use.
    pub limits: LimitsChange,
}

/// What is asked of an organization's limits. One that is cleared does not hold.
#[derive(Clone, Debug, Default)]
pub struct LimitsChange {
    /// Requests that may start a minute.
    pub deliveries_per_minute: Change<u64>,
    /// Events that may be published a minute.
    pub events_per_minute: Change<u64>,
    /// Requests that may be under way at once.
    pub concurrency: Change<u64>,
    /// Endpoints that it may have.
    pub endpoints: Change<u64>,
    /// Applications that it may have.
    pub applications: Change<u64>,
    /// Deliveries that may be retried by hand a minute.
    pub manual_retries_per_minute: Change<u64>,
}

/// Makes an organization with its applications `default` and `operational`.
///
/// # Errors
/// [`Refusal`] says what is wrong or taken.
pub async fn create(line: &Line, asked: OrganizationChange) -> Result<Organization, Refusal> {
    let now = line.ports.clock.now();
    let id = OrganizationId::from_uuid(line.ports.entropy.uuid(now));
    let limits = OrganizationLimits::default();
    let mut organization = Organization { id, uid: None, name: String::new(), limits, created_at: now };
    apply(asked, &mut organization)?;
    store(line, organization).await
}

/// Changes an organization's name, uid or limits. A limit holds for what starts from then on.
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
        Updated::Updated => {
            line.catalog.forget_organization(organization.id);
            line.wake_up.organization_changed(organization.id);
            Ok(organization)
        }
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
    let new = Organization { id, uid: Some(uid), name: "Default".to_owned(), limits: OrganizationLimits::default(), created_at: now };
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
    apply_limits(asked.limits, &mut organization.limits, &mut faults);
    refuse_faults(faults)
}

fn apply_limits(asked: LimitsChange, limits: &mut OrganizationLimits, faults: &mut Vec<Fault>) {
    let fields = [
        ("deliveries_per_minute", asked.deliveries_per_minute, &mut limits.deliveries_per_minute),
        ("events_per_minute", asked.events_per_minute, &mut limits.events_per_minute),
        ("concurrency", asked.concurrency, &mut limits.concurrency),
        ("endpoints", asked.endpoints, &mut limits.endpoints),
        ("applications", asked.applications, &mut limits.applications),
        ("manual_retries_per_minute", asked.manual_retries_per_minute, &mut limits.manual_retries_per_minute),
    ];
    for (field, asked, limit) in fields {
        asked.check(&format!("limits.{field}"), faults, read_limit).apply_to_option(limit);
    }
}

fn read_limit(number: u64) -> Result<NonZeroU32, String> {
    let number = u32::try_from(number).ok().filter(|number| *number <= LIMIT_MAX).and_then(NonZeroU32::new);
    number.ok_or_else(|| format!("must be 1 to {LIMIT_MAX}, or null for none"))
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
