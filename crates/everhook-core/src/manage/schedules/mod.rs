//! Retry schedules: those that organizations make and name, beside the built-in presets. Called by the API, and by `endpoints` to find the
//! schedule that an endpoint should follow.
//!
//! A change makes a new version for deliveries made from then on; it never touches those under way, which keep the version of their making.

mod settings;

pub(super) use settings::inline;
pub use settings::{Growth, INLINE_NAME, Intervals, ScheduleChange};

use super::{CHANGE_ROUNDS_MAX, Conflict, Fault, Noun, Refusal, audit, changed_at, endpoints, refuse_faults, unexpected};
use crate::{
    ids::{OrganizationId, Ref, ScheduleId, ScheduleVersion},
    line::Line,
    model::{AuditAction, Author, Cursor, Endpoint, OrganizationSchedule, Page, PageRequest, RetrySchedule},
    policy::{
        audit::{Facts, changed, made, removed},
        presets,
    },
    ports::{Created, MoveEndpoints, Moved, ScheduleDeleted, ScheduleRef, StoreError, Updated},
};

/// How many schedules an organization may have: far more than policies that people can tell apart, and few enough to be listed in one read.
pub const SCHEDULES_MAX: u32 = 200;

/// How many endpoints one request may assign.
pub const ASSIGN_MAX: usize = 1_000;

/// The name of the schedule that applies where none is named.
const DEFAULT_NAME: &str = "default";

/// How many endpoints are moved in one write, so that no delivery waits long for its own.
const MOVE_BATCH: u32 = 1_000;

/// A schedule that can be named.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// Built in, and the same for everybody.
    Preset(RetrySchedule),
    /// The organization's own.
    Own(OrganizationSchedule),
}

impl Known {
    /// Its identity. Presets have fixed ones, older than any that is made.
    pub fn id(&self) -> ScheduleId {
        match self {
            Self::Preset(policy) => presets::id(&policy.name.0).expect("a preset has an id"),
            Self::Own(schedule) => schedule.id,
        }
    }

    /// What it says now.
    pub fn policy(&self) -> &RetrySchedule {
        match self {
            Self::Preset(policy) => policy,
            Self::Own(schedule) => &schedule.policy,
        }
    }
}

/// What an endpoint should follow, as its owner wrote it. Its spelling was checked.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ScheduleChoice {
    /// Numbers of its own.
    Policy(RetrySchedule),
    /// A schedule by id or name, and the field that said so.
    Schedule(ScheduleRef, &'static str),
}

/// What an endpoint follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    follows: Option<ScheduleId>,
    version: ScheduleVersion,
}

impl Chosen {
    /// Has the endpoint's new deliveries keep this version.
    pub(super) fn apply(self, endpoint: &mut Endpoint) {
        endpoint.follows = self.follows;
        endpoint.retry_schedule = self.version;
    }
}

/// Makes a schedule.
///
/// # Errors
/// [`Refusal`] lists what is wrong, or says what is taken or that there are too many.
pub async fn create(line: &Line, by: &Author, asked: ScheduleChange) -> Result<OrganizationSchedule, Refusal> {
    let policy = settings::apply(asked, None)?;
    let version = line.ports.retry_schedules.schedule_version(&policy).await?;
    let now = line.ports.clock.now();
    let id = ScheduleId::from_uuid(line.ports.entropy.uuid(now));
    let schedule = OrganizationSchedule { id, organization: by.organization, policy, version, created_at: now, updated_at: now };
    let entry = audit::entry(line, by, AuditAction::ScheduleCreate, id.as_uuid(), made(&audit::of_schedule(&schedule)));
    match line.ports.retry_schedules.create_retry_schedule(schedule.clone(), SCHEDULES_MAX, entry).await? {
        Created::Created => Ok(schedule),
        Created::NameTaken => Err(Refusal::name_taken(&schedule.policy.name.0)),
        Created::TooMany => Err(Refusal::Conflict(
            Conflict::LimitReached,
            format!("the organization has reached the limit of {SCHEDULES_MAX} retry schedules"),
        )),
        Created::UidTaken | Created::NoSuchSchedule | Created::NoSuchApplication | Created::ConfigTooLarge => Err(unexpected()),
    }
}

/// What a schedule would say, without writing it.
pub(super) fn checked(asked: ScheduleChange, found: Option<&OrganizationSchedule>) -> Result<RetrySchedule, Refusal> {
    settings::apply(asked, found.map(|found| &found.policy))
}

/// Changes the fields that are given, for deliveries made from now on.
///
/// # Errors
/// [`Refusal`] lists what is wrong, or says what is missing, taken or built in.
pub async fn change(line: &Line, by: &Author, of: &ScheduleRef, asked: ScheduleChange) -> Result<OrganizationSchedule, Refusal> {
    let mut schedule = find_own(line, by.organization, of).await?;
    for _ in 0..CHANGE_ROUNDS_MAX {
        let (read, read_at, before) = (schedule.clone(), schedule.updated_at, audit::of_schedule(&schedule));
        schedule.policy = settings::apply(asked.clone(), Some(&schedule.policy))?;
        schedule.version = line.ports.retry_schedules.schedule_version(&schedule.policy).await?;
        schedule.updated_at = changed_at(line, read_at);
        let note = changed(&before, &audit::of_schedule(&schedule));
        if note.says_nothing() {
            return Ok(read);
        }
        let entry = audit::entry(line, by, AuditAction::ScheduleUpdate, schedule.id.as_uuid(), note);
        match line.ports.retry_schedules.update_retry_schedule(schedule.clone(), read_at, entry).await? {
            Updated::Updated => {
                line.catalog.forget_organization(by.organization);
                return Ok(schedule);
            }
            Updated::NameTaken => return Err(Refusal::name_taken(&schedule.policy.name.0)),
            Updated::Changed => schedule = find_own(line, by.organization, &ScheduleRef::Id(schedule.id)).await?,
            Updated::UidTaken | Updated::NoSuchSchedule => return Err(unexpected()),
        }
    }
    Err(Refusal::concurrent_change("retry schedule"))
}

/// Deletes a schedule. One that endpoints follow is deleted only if `reassign` names the schedule that they follow from then on.
///
/// # Errors
/// [`Refusal::Conflict`] says how many endpoints follow it.
pub async fn delete(line: &Line, by: &Author, of: &ScheduleRef, reassign: Option<&str>) -> Result<(), Refusal> {
    let schedule = find_own(line, by.organization, of).await?;
    let heir = match reassign {
        None => None,
        Some(name) => Some(find_heir(line, &schedule, name).await?),
    };
    for _ in 0..CHANGE_ROUNDS_MAX {
        let note = removed(&audit::of_schedule(&schedule));
        let entry = audit::entry(line, by, AuditAction::ScheduleDelete, schedule.id.as_uuid(), note);
        match line.ports.retry_schedules.delete_retry_schedule(by.organization, schedule.id, entry).await? {
            ScheduleDeleted::Deleted => return Ok(()),
            ScheduleDeleted::NotFound => return Err(Refusal::NotFound(Noun::RetrySchedule)),
            ScheduleDeleted::InUse(endpoints) => match heir {
                None => return Err(in_use(&schedule, endpoints)),
                Some(heir) => move_all(line, by, &schedule, heir).await?,
            },
        }
    }
    Err(Refusal::Conflict(Conflict::ConcurrentChange, "the retry schedule was assigned by another request: try again".to_owned()))
}

/// Has all these endpoints follow a schedule. They are all found before the first is changed. Returns how many there were.
///
/// # Errors
/// [`Refusal::Invalid`] lists the endpoints that are not there.
pub async fn assign(line: &Line, by: &Author, of: &ScheduleRef, named: Vec<String>) -> Result<usize, Refusal> {
    let schedule = find(line, by.organization, of).await?;
    if named.is_empty() || named.len() > ASSIGN_MAX {
        let reason = format!("must name 1 to {ASSIGN_MAX} endpoints, and names {}", named.len());
        return Err(Refusal::Invalid(vec![Fault::new("endpoint_ids", reason)]));
    }
    let mut faults = Vec::new();
    let mut found: Vec<Endpoint> = Vec::with_capacity(named.len());
    for (index, name) in named.iter().enumerate() {
        let endpoint = match Ref::parse(name) {
            Some(of) => endpoints::find(line, by.organization, &of).await,
            None => Err(Refusal::NotFound(Noun::Endpoint)),
        };
        match endpoint {
            Ok(endpoint) if found.iter().any(|known| known.id == endpoint.id) => {}
            Ok(endpoint) => found.push(endpoint),
            Err(Refusal::NotFound(_)) => {
                faults.push(Fault::new(format!("endpoint_ids[{index}]"), "is not an endpoint of this organization"));
            }
            Err(refusal) => return Err(refusal),
        }
    }
    refuse_faults(faults)?;
    let chosen = chosen(line, schedule).await?;
    let count = found.len();
    for endpoint in found {
        endpoints::follow(line, by, endpoint, chosen).await?;
    }
    Ok(count)
}

/// Finds a schedule by its id or name; `default` is the preset that is meant where nothing is said.
///
/// # Errors
/// [`Refusal::NotFound`] if there is none of this name.
pub async fn find(line: &Line, organization: OrganizationId, of: &ScheduleRef) -> Result<Known, Refusal> {
    find_known(line, organization, of).await?.ok_or(Refusal::NotFound(Noun::RetrySchedule))
}

/// Lists the organization's schedules, newest first, and then the presets.
///
/// # Errors
/// [`StoreError`] if the store cannot be reached.
pub async fn list(line: &Line, organization: OrganizationId, page: PageRequest) -> Result<Page<Known>, StoreError> {
    let own = line.ports.retry_schedules.retry_schedules(organization).await?.into_iter().map(Known::Own);
    let presets = presets::NAMES.into_iter().filter_map(|name| preset(line, name)).map(Known::Preset);
    let uuid = |known: &Known| *known.id().as_uuid();
    let mut rows: Vec<Known> = own.chain(presets).collect();
    match page.cursor {
        Cursor::Newest => {}
        Cursor::OlderThan(id) => rows.retain(|known| uuid(known) < id),
        Cursor::NewerThan(id) => {
            rows.retain(|known| uuid(known) > id);
            rows.reverse();
        }
    }
    Ok(Page::from_read(rows, page, uuid))
}

/// Finds what an endpoint should follow; the standard schedule if nothing is said. What is not there is added to the faults.
pub(super) async fn choose(
    line: &Line,
    organization: OrganizationId,
    requested: Option<ScheduleChoice>,
    faults: &mut Vec<Fault>,
) -> Result<Option<Chosen>, StoreError> {
    let (of, field) = match requested {
        None => return chosen(line, Known::Preset(presets::standard())).await.map(Some),
        Some(ScheduleChoice::Policy(policy)) => {
            let version = line.ports.retry_schedules.schedule_version(&policy).await?;
            return Ok(Some(Chosen { follows: None, version }));
        }
        Some(ScheduleChoice::Schedule(of, field)) => (of, field),
    };
    match find_known(line, organization, &of).await? {
        Some(known) => chosen(line, known).await.map(Some),
        None => {
            let reason = format!("is not a retry schedule of this organization or a preset ({})", presets::NAMES.join(", "));
            faults.push(Fault::new(field, reason));
            Ok(None)
        }
    }
}

async fn chosen(line: &Line, known: Known) -> Result<Chosen, StoreError> {
    match known {
        Known::Own(schedule) => Ok(Chosen { follows: Some(schedule.id), version: schedule.version }),
        Known::Preset(policy) => Ok(Chosen { follows: None, version: line.ports.retry_schedules.schedule_version(&policy).await? }),
    }
}

/// Whether schedules are called so that endpoints have without a name of anybody's: their own numbers, and those of a `retry_config`.
pub fn is_name_of_unnamed(name: &str) -> bool {
    [INLINE_NAME, presets::RETRY_CONFIG_NAME].contains(&name)
}

async fn find_known(line: &Line, organization: OrganizationId, of: &ScheduleRef) -> Result<Option<Known>, StoreError> {
    let found = match of {
        ScheduleRef::Name(name) if name == DEFAULT_NAME => Some(presets::standard()),
        ScheduleRef::Name(name) => preset(line, name),
        ScheduleRef::Id(id) => presets::NAMES.into_iter().find(|name| presets::id(name) == Some(*id)).and_then(|name| preset(line, name)),
    };
    match found {
        Some(preset) => Ok(Some(Known::Preset(preset))),
        None => Ok(line.ports.retry_schedules.retry_schedule(organization, of).await?.map(Known::Own)),
    }
}

/// A preset as this server has it: the operator may have set the numbers of the one for jobs.
fn preset(line: &Line, name: &str) -> Option<RetrySchedule> {
    if name == presets::JOB { Some(presets::job_by(line.calls.defaults.job_retry)) } else { presets::preset(name) }
}

async fn find_own(line: &Line, organization: OrganizationId, of: &ScheduleRef) -> Result<OrganizationSchedule, Refusal> {
    match find(line, organization, of).await? {
        Known::Own(schedule) => Ok(schedule),
        Known::Preset(policy) => {
            Err(Refusal::Conflict(Conflict::BuiltIn, format!("the preset `{}` is built in and cannot be changed", policy.name.0)))
        }
    }
}

async fn find_heir(line: &Line, schedule: &OrganizationSchedule, name: &str) -> Result<Chosen, Refusal> {
    let invalid = |reason: &str| Refusal::Invalid(vec![Fault::new("reassign", reason)]);
    let found = find_known(line, schedule.organization, &ScheduleRef::parse(name)).await?;
    let heir = found.ok_or_else(|| invalid("is not a retry schedule of this organization"))?;
    if heir.id() == schedule.id {
        return Err(invalid("must not be the schedule that is deleted"));
    }
    Ok(chosen(line, heir).await?)
}

async fn move_all(line: &Line, by: &Author, from: &OrganizationSchedule, heir: Chosen) -> Result<(), Refusal> {
    let (organization, limit) = (from.organization, MOVE_BATCH);
    loop {
        let now = line.ports.clock.now();
        let request = MoveEndpoints { organization, from: from.id, to: heir.follows, version: heir.version, now, limit };
        let follow = |id: Option<ScheduleId>| Facts::default().plain("retry_schedule_id", id.map(|id| id.to_string()));
        let note = changed(&follow(Some(from.id)), &follow(heir.follows));
        let entry = audit::entry(line, by, AuditAction::ScheduleReassign, from.id.as_uuid(), note);
        let moved = line.ports.retry_schedules.move_endpoints(request, entry).await?;
        line.catalog.forget_organization(organization);
        match moved {
            Moved::Moved(endpoints) if endpoints < limit => return Ok(()),
            Moved::Moved(_) => {}
            Moved::NoSuchSchedule => return Err(gone("reassign")),
        }
    }
}

fn in_use(schedule: &OrganizationSchedule, endpoints: u32) -> Refusal {
    let (noun, verb) = if endpoints == 1 { ("endpoint", "uses") } else { ("endpoints", "use") };
    Refusal::Conflict(
        Conflict::RetryScheduleInUse,
        format!(
            "{endpoints} {noun} {verb} the retry schedule `{}`: use `?reassign=default`, or the id or name of another schedule, to reassign them",
            schedule.policy.name.0
        ),
    )
}

/// The schedule that was found is gone by the time of the write.
pub(super) fn gone(field: &str) -> Refusal {
    Refusal::Invalid(vec![Fault::new(field, "is a retry schedule that was just deleted")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_come_after_everything_that_is_made() {
        let ids: Vec<_> = presets::NAMES.into_iter().filter_map(presets::preset).map(|preset| Known::Preset(preset).id()).collect();
        assert!(ids.is_sorted_by(|newer, older| newer > older), "{ids:?}");
        let made = ScheduleId::from_uuid(uuid::Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, 1, 0)));
        assert!(ids.iter().all(|id| *id < made));
    }
}
