//! Organizations: the tenants. Each is born with its two built-in applications.

use super::{
    CHANGE_ROUNDS_MAX, Change, Conflict, Fault, Noun, Refusal, api_keys, audit, check_name, check_uid, operations, refuse_faults, sources,
    unexpected,
};
use crate::{
    ids::{ApiKeyId, ApplicationId, OrganizationId, Ref, Uid},
    line::Line,
    model::{
        ADMIN_EMAILS_MAX, Application, ApplicationKind, AuditAction, Author, DEFAULT_HEALTH_PATH, DEFAULT_ORGANIZATION_UID, EmailAddress,
        Organization, OrganizationLimits, PoolName,
    },
    policy::audit::{changed, made},
    ports::{Created, Deleted, NewOrganization, StoreError, Updated},
};

/// What is asked of an organization.
#[derive(Clone, Debug, Default)]
pub struct OrganizationChange {
    /// Shown to people; needed at creation.
    pub name: Change<String>,
    /// Can be used in place of the id in paths.
    pub uid: Change<String>,
    /// How much it may have and do; null lifts all limits.
    pub limits: Change<LimitsChange>,
    /// Whose nodes send for it; null puts it back into `default`.
    pub worker_pool: Change<String>,
    /// Who gets e-mails; null is nobody.
    pub admin_emails: Change<Vec<String>>,
}

/// What is asked of an organization's limits: the fields that are given change, and a null lifts one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitsChange {
    /// Requests begun in a minute.
    pub deliveries_per_minute: Change<i64>,
    /// Events published in a minute.
    pub events_per_minute: Change<i64>,
    /// Requests under way at once.
    pub concurrency: Change<i64>,
    /// Endpoints.
    pub endpoints: Change<i64>,
    /// Applications beside the built-in ones.
    pub applications: Change<i64>,
    /// Retries by hand in a minute.
    pub manual_retries_per_minute: Change<i64>,
}

/// The largest limit of a minute: more than a server does, so that leaving it out says the same.
const PER_MINUTE_MAX: u32 = 10_000_000;
/// The largest limit of anything else.
const COUNT_MAX: u32 = 1_000_000;

/// Makes an organization with its applications `default` and `operational`.
///
/// # Errors
/// [`Refusal`] says what is wrong or taken.
pub async fn create(line: &Line, by: &Author, asked: OrganizationChange) -> Result<Organization, Refusal> {
    let now = line.ports.clock.now();
    let mut organization = Organization {
        id: OrganizationId::from_uuid(line.ports.entropy.uuid(now)),
        uid: None,
        name: String::new(),
        limits: OrganizationLimits::default(),
        worker_pool: PoolName::default(),
        admin_emails: Vec::new(),
        created_at: now,
    };
    apply(line, asked, &mut organization)?;
    store(line, by, organization).await
}

/// Changes the fields that are given.
///
/// # Errors
/// [`Refusal`] says what is wrong, missing or taken.
pub async fn change(line: &Line, by: &Author, of: &Ref<OrganizationId>, asked: OrganizationChange) -> Result<Organization, Refusal> {
    let mut read = find(line, of).await?;
    for _ in 0..CHANGE_ROUNDS_MAX {
        let mut organization = read.clone();
        let keeps_uid = match &asked.uid {
            Change::Keep => true,
            Change::Clear => false,
            Change::Set(uid) => uid == DEFAULT_ORGANIZATION_UID,
        };
        if organization.uid.as_ref().is_some_and(|uid| uid.as_str() == DEFAULT_ORGANIZATION_UID) && !keeps_uid {
            return Err(Refusal::Conflict(Conflict::BuiltIn, "the uid of the organization `default` cannot be changed".to_owned()));
        }
        apply(line, asked.clone(), &mut organization)?;
        let note = changed(&audit::of_organization(&read), &audit::of_organization(&organization));
        if note.says_nothing() {
            return Ok(read);
        }
        let entry = audit::entry(line, &by.within(read.id), AuditAction::OrganizationUpdate, read.id.as_uuid(), note);
        match line.ports.organizations.update_organization(read, organization.clone(), entry).await? {
            Updated::Updated => {
                line.catalog.forget_organization(organization.id);
                line.wake_up.organization_changed(organization.id);
                return Ok(organization);
            }
            Updated::UidTaken => return Err(uid_taken(&organization)),
            Updated::NameTaken => return Err(Refusal::name_taken(&organization.name)),
            Updated::Changed => read = find(line, &Ref::Id(organization.id)).await?,
            Updated::NoSuchSchedule => return Err(unexpected()),
        }
    }
    Err(Refusal::concurrent_change("organization"))
}

/// Deletes an organization with all that it has. Its keys are refused and nothing can be published from now on; its applications and endpoints are deleted
/// by `jobs::deletions`. Says which keys were revoked.
///
/// # Errors
/// [`Refusal`] if there is none, or it is `default`.
pub async fn delete(line: &Line, by: &Author, of: &Ref<OrganizationId>) -> Result<Vec<ApiKeyId>, Refusal> {
    let organization = find(line, of).await?;
    if organization.uid.as_ref().is_some_and(|uid| uid.as_str() == DEFAULT_ORGANIZATION_UID) {
        return Err(Refusal::Conflict(Conflict::BuiltIn, "the organization `default` cannot be deleted".to_owned()));
    }
    let (id, at) = (organization.id, line.ports.clock.now());
    // Its own log is read by nobody any more.
    let default = ensure_default(line, None).await?.id;
    let (by, was) = (by.within(default), audit::of_organization(&organization));
    let deletion = operations::deletion(line, &by, operations::Deleted::Organization(id), AuditAction::OrganizationDelete, was);
    let processors = sources::with_processor(line, id, None).await?;
    let Deleted::Deleted(keys) = line.ports.organizations.delete_organization(id, at, deletion).await? else {
        return Err(Refusal::NotFound(Noun::Organization));
    };
    line.catalog.forget_organization(id);
    line.sources.forget_organization(id);
    line.calls.forget_organization(id);
    line.wake_up.organization_changed(id);
    sources::announce_deleted_processors(line, &processors);
    api_keys::forget_revoked(line, &keys).await;
    line.deletions_bell.notify_one();
    line.operations_bell.notify_one();
    Ok(keys)
}

async fn find(line: &Line, of: &Ref<OrganizationId>) -> Result<Organization, Refusal> {
    line.ports.organizations.organization(of).await?.ok_or(Refusal::NotFound(Noun::Organization))
}

/// Finds the organization `default`, or makes it at the first start. Its administrators are those that are given, if any are.
///
/// # Errors
/// [`StoreError`] if the store cannot be reached.
pub async fn ensure_default(line: &Line, admin_emails: Option<&[EmailAddress]>) -> Result<Organization, StoreError> {
    let uid = Uid::parse(DEFAULT_ORGANIZATION_UID).expect("`default` is a well-formed uid");
    if let Some(found) = line.ports.organizations.organization(&Ref::Uid(uid.clone())).await? {
        return match admin_emails {
            Some(emails) if found.admin_emails != emails => set_admin_emails(line, found.id, emails).await,
            _ => Ok(found),
        };
    }
    let now = line.ports.clock.now();
    let id = OrganizationId::from_uuid(line.ports.entropy.uuid(now));
    let new = Organization {
        id,
        uid: Some(uid),
        name: "Default".to_owned(),
        limits: OrganizationLimits::default(),
        worker_pool: PoolName::default(),
        admin_emails: admin_emails.unwrap_or_default().to_vec(),
        created_at: now,
    };
    match store(line, &Author::server(id), new).await {
        Ok(made) => Ok(made),
        Err(Refusal::Store(error)) => Err(error),
        Err(_) => Err(StoreError::Conflict),
    }
}

async fn set_admin_emails(line: &Line, id: OrganizationId, emails: &[EmailAddress]) -> Result<Organization, StoreError> {
    let emails = Change::Set(emails.iter().map(ToString::to_string).collect());
    let asked = OrganizationChange { admin_emails: emails, ..OrganizationChange::default() };
    match change(line, &Author::server(id), &Ref::Id(id), asked).await {
        Ok(changed) => Ok(changed),
        Err(Refusal::Store(error)) => Err(error),
        Err(_) => Err(StoreError::Conflict),
    }
}

fn apply(line: &Line, asked: OrganizationChange, organization: &mut Organization) -> Result<(), Refusal> {
    let mut faults = Vec::new();
    match asked.name {
        Change::Keep if organization.name.is_empty() => faults.push(Fault::new("name", "is required")),
        Change::Clear => faults.push(Fault::new("name", "must not be null")),
        _ => {}
    }
    asked.name.check("name", &mut faults, check_name).apply(&mut organization.name, String::new());
    asked.uid.check("uid", &mut faults, check_uid).apply_to_option(&mut organization.uid);
    match asked.limits {
        Change::Keep => {}
        Change::Clear => organization.limits = OrganizationLimits::default(),
        Change::Set(limits) => apply_limits(limits, &mut organization.limits, &mut faults),
    }
    let check_pool = |name: String| check_pool(line, &name);
    asked.worker_pool.check("worker_pool", &mut faults, check_pool).apply(&mut organization.worker_pool, PoolName::default());
    read_emails(asked.admin_emails, &mut faults).apply(&mut organization.admin_emails, Vec::new());
    refuse_faults(faults)
}

fn read_emails(asked: Change<Vec<String>>, faults: &mut Vec<Fault>) -> Change<Vec<EmailAddress>> {
    let texts = match asked {
        Change::Keep => return Change::Keep,
        Change::Clear => return Change::Clear,
        Change::Set(texts) => texts,
    };
    if texts.len() > ADMIN_EMAILS_MAX {
        faults.push(Fault::new("admin_emails", format!("must have at most {ADMIN_EMAILS_MAX} addresses")));
        return Change::Keep;
    }
    let mut emails: Vec<EmailAddress> = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let read = EmailAddress::parse(text).map_err(|fault| fault.to_string());
        match read.and_then(|email| if emails.contains(&email) { Err("appears twice".to_owned()) } else { Ok(email) }) {
            Ok(email) => emails.push(email),
            Err(reason) => faults.push(Fault::new(format!("admin_emails[{index}]"), reason)),
        }
    }
    Change::Set(emails)
}

/// A store that one process has to itself has one pool: deliveries of another would wait for ever.
fn check_pool(line: &Line, name: &str) -> Result<PoolName, String> {
    let name = PoolName::parse(name).ok_or_else(|| format!("must be {}", PoolName::RULE))?;
    if line.held_lease.is_shared() || name.is_default() {
        Ok(name)
    } else {
        Err("must be `default`: other worker pools require PostgreSQL (`database`)".to_owned())
    }
}

/// A rate or a concurrency of 0 would stop everything without saying so; no endpoints or applications at all is a limit like any other.
fn apply_limits(asked: LimitsChange, limits: &mut OrganizationLimits, faults: &mut Vec<Fault>) {
    let per_minute = 1..=PER_MINUTE_MAX;
    let fields = [
        ("deliveries_per_minute", asked.deliveries_per_minute, &mut limits.deliveries_per_minute, per_minute.clone()),
        ("events_per_minute", asked.events_per_minute, &mut limits.events_per_minute, per_minute.clone()),
        ("concurrency", asked.concurrency, &mut limits.concurrency, 1..=COUNT_MAX),
        ("endpoints", asked.endpoints, &mut limits.endpoints, 0..=COUNT_MAX),
        ("applications", asked.applications, &mut limits.applications, 0..=COUNT_MAX),
        ("manual_retries_per_minute", asked.manual_retries_per_minute, &mut limits.manual_retries_per_minute, per_minute),
    ];
    for (field, asked, limit, range) in fields {
        let check = |number: i64| match u32::try_from(number) {
            Ok(number) if range.contains(&number) => Ok(number),
            _ => Err(format!("must be {} to {}", range.start(), range.end())),
        };
        asked.check(&format!("limits.{field}"), faults, check).apply_to_option(limit);
    }
}

/// The entry is the first one in the new organization's own log.
async fn store(line: &Line, by: &Author, organization: Organization) -> Result<Organization, Refusal> {
    let new = NewOrganization {
        default: built_in(line, &organization, ApplicationKind::Default, "default"),
        operational: built_in(line, &organization, ApplicationKind::Operational, "operational"),
        organization: organization.clone(),
    };
    let note = made(&audit::of_organization(&organization));
    let entry = audit::entry(line, &by.within(organization.id), AuditAction::OrganizationCreate, organization.id.as_uuid(), note);
    match line.ports.organizations.create_organization(new, entry).await? {
        Created::Created => Ok(organization),
        Created::UidTaken => Err(uid_taken(&organization)),
        Created::NameTaken => Err(Refusal::name_taken(&organization.name)),
        Created::TooMany | Created::NoSuchSchedule | Created::NoSuchApplication | Created::ConfigTooLarge => Err(unexpected()),
    }
}

fn built_in(line: &Line, of: &Organization, kind: ApplicationKind, name: &str) -> Application {
    Application {
        id: ApplicationId::from_uuid(line.ports.entropy.uuid(of.created_at)),
        organization: of.id,
        // So that it is addressed by its name, as others are by a uid that their owner chose.
        uid: Uid::parse(name),
        name: name.to_owned(),
        kind,
        strict_event_types: false,
        owner_email: None,
        base_url: None,
        health_path: Some(DEFAULT_HEALTH_PATH.to_owned()),
        created_at: of.created_at,
    }
}

fn uid_taken(organization: &Organization) -> Refusal {
    Refusal::uid_taken(organization.uid.as_ref().map_or("", Uid::as_str))
}
