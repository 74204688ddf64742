//! Bringing a configuration into an application: what was exported elsewhere, or written by hand. Called by the API.
//!
//! Everything is checked before anything is written, and all faults are reported at once. Then each thing is one write of its own, by the use case
//! that a person would call: an import that breaks off is finished by importing again, which finds what is there unchanged.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Fault, Noun, Refusal, applications,
    applications::ApplicationChange,
    endpoints::{self, EndpointChange, NewEndpoint},
    event_types::{self, EventTypeChange},
    refuse_faults,
    schedules::{self, ScheduleChange},
    sources::{self, NewSource},
};
use crate::{
    ids::{ApplicationId, Ref},
    line::Line,
    model::{Application, Author, Endpoint, EndpointState, EventTypeDefinition, OrganizationSchedule, Source, SourceName},
    policy::target::TargetRules,
    ports::{ConfigCursor, ConfigRead, ScheduleRef, StoreError},
};

/// How many endpoints, sources, event types or schedules a document may have of each: what one request can write in a reasonable time.
pub const ITEMS_MAX: usize = 1_000;

/// A configuration, as written.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// What the application is changed to. Its name and uid stay.
    pub application: ApplicationChange,
    /// Schedules of the organization, matched by their names.
    pub schedules: Vec<ScheduleChange>,
    /// Event types of the organization, matched by their names.
    pub event_types: Vec<EventTypeChange>,
    /// Endpoints of the application, matched by their uids, or else by name and URL.
    pub endpoints: Vec<NewEndpoint>,
    /// Sources of the application, matched by their names.
    pub sources: Vec<NewSource>,
}

/// Whether a configuration is written or only checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing is written.
    DryRun,
    /// It is written.
    Write,
}

/// What became of the things of one kind, or would.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// They were not there.
    pub created: u32,
    /// They were there, and different.
    pub updated: u32,
    /// They were there, as written.
    pub unchanged: u32,
}

/// What an import did, or would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The application itself.
    pub application: Counts,
    /// Retry schedules.
    pub schedules: Counts,
    /// Event types.
    pub event_types: Counts,
    /// Endpoints.
    pub endpoints: Counts,
    /// Sources.
    pub sources: Counts,
}

/// What is to be done about one thing.
enum Step<New, Found> {
    Create(New),
    Update(Found, New),
    Keep,
}

struct Plan {
    application: Step<(), Application>,
    schedules: Vec<Step<ScheduleChange, OrganizationSchedule>>,
    event_types: Vec<Step<EventTypeChange, EventTypeDefinition>>,
    endpoints: Vec<Step<NewEndpoint, Endpoint>>,
    sources: Vec<Step<NewSource, Source>>,
}

/// Brings a configuration into an application.
///
/// # Errors
/// [`Refusal::Invalid`] lists everything that is not acceptable; nothing was written then.
pub async fn import(
    line: &Line,
    rules: &TargetRules,
    by: &Author,
    of: &Ref<ApplicationId>,
    configuration: Configuration,
    mode: Mode,
) -> Result<Imported, Refusal> {
    let found = line.ports.applications.application(by.organization, of).await?;
    let application = found.ok_or(Refusal::NotFound(Noun::Application))?;
    let asked = configuration.application.clone();
    let plan = plan(line, rules, application, configuration).await?;
    let imported = Imported {
        application: count(std::slice::from_ref(&plan.application)),
        schedules: count(&plan.schedules),
        event_types: count(&plan.event_types),
        endpoints: count(&plan.endpoints),
        sources: count(&plan.sources),
    };
    if mode == Mode::Write {
        write(line, rules, by, plan, asked).await?;
    }
    Ok(imported)
}

fn count<New, Found>(steps: &[Step<New, Found>]) -> Counts {
    let mut counts = Counts::default();
    for step in steps {
        *match step {
            Step::Create(_) => &mut counts.created,
            Step::Update(..) => &mut counts.updated,
            Step::Keep => &mut counts.unchanged,
        } += 1;
    }
    counts
}

async fn plan(line: &Line, rules: &TargetRules, application: Application, wanted: Configuration) -> Result<Plan, Refusal> {
    let mut faults = Vec::new();
    for (field, len) in [
        ("retry_schedules", wanted.schedules.len()),
        ("event_types", wanted.event_types.len()),
        ("endpoints", wanted.endpoints.len()),
        ("sources", wanted.sources.len()),
    ] {
        if len > ITEMS_MAX {
            faults.push(Fault::new(field, format!("must have at most {ITEMS_MAX} items, and has {len}")));
        }
    }
    refuse_faults(std::mem::take(&mut faults))?;
    let names = wanted.schedules.iter().filter_map(|schedule| schedule.name.requested()).collect();
    let schedules = plan_schedules(line, &application, wanted.schedules, &mut faults).await?;
    let event_types = plan_event_types(line, &application, wanted.event_types, &mut faults).await?;
    let endpoints = plan_endpoints(line, rules, &application, wanted.endpoints, &names, &mut faults).await?;
    let sources = plan_sources(line, &application, wanted.sources, &mut faults).await?;
    let changed = collect_faults(applications::checked(rules, wanted.application, &application), "application", &mut faults)?;
    refuse_faults(faults)?;
    let is_same = changed.is_none_or(|changed| changed == application);
    let application = if is_same { Step::Keep } else { Step::Update(application, ()) };
    Ok(Plan { application, schedules, event_types, endpoints, sources })
}

async fn plan_schedules(
    line: &Line,
    application: &Application,
    wanted: Vec<ScheduleChange>,
    faults: &mut Vec<Fault>,
) -> Result<Vec<Step<ScheduleChange, OrganizationSchedule>>, Refusal> {
    let (mut steps, mut seen) = (Vec::new(), BTreeSet::new());
    for (index, asked) in wanted.into_iter().enumerate() {
        let at = format!("retry_schedules[{index}]");
        refuse_again(asked.name.requested(), "name", &at, &mut seen, faults);
        let found = match asked.name.requested() {
            Some(name) => line.ports.retry_schedules.retry_schedule(application.organization, &ScheduleRef::Name(name)).await?,
            None => None,
        };
        let Some(policy) = collect_faults(schedules::checked(asked.clone(), found.as_ref()), &at, faults)? else { continue };
        steps.push(match found {
            None => Step::Create(asked),
            Some(found) if found.policy == policy => Step::Keep,
            Some(found) => Step::Update(found, asked),
        });
    }
    Ok(steps)
}

async fn plan_event_types(
    line: &Line,
    application: &Application,
    wanted: Vec<EventTypeChange>,
    faults: &mut Vec<Fault>,
) -> Result<Vec<Step<EventTypeChange, EventTypeDefinition>>, Refusal> {
    let (mut steps, mut seen) = (Vec::new(), BTreeSet::new());
    for (index, asked) in wanted.into_iter().enumerate() {
        let at = format!("event_types[{index}]");
        refuse_again(asked.name.requested(), "name", &at, &mut seen, faults);
        let found = match asked.name.requested().as_deref().and_then(Ref::parse) {
            Some(of @ Ref::Uid(_)) => line.ports.event_types.event_type(application.organization, &of).await?,
            _ => None,
        };
        let checked = event_types::checked(line, application.organization, asked.clone(), found.clone()).await;
        let Some(definition) = collect_faults(checked, &at, faults)? else { continue };
        steps.push(match found {
            None => Step::Create(asked),
            Some(found) if found == definition => Step::Keep,
            Some(found) => Step::Update(found, asked),
        });
    }
    Ok(steps)
}

async fn plan_endpoints(
    line: &Line,
    rules: &TargetRules,
    application: &Application,
    wanted: Vec<NewEndpoint>,
    schedules: &BTreeSet<String>,
    faults: &mut Vec<Fault>,
) -> Result<Vec<Step<NewEndpoint, Endpoint>>, Refusal> {
    let without_uid = endpoints_without_uid(line, application, &wanted).await?;
    let (mut steps, mut seen) = (Vec::new(), BTreeSet::new());
    for (index, mut asked) in wanted.into_iter().enumerate() {
        let at = format!("endpoints[{index}]");
        asked.application = Some(application.id.to_string());
        refuse_again(asked.settings.uid.requested(), "uid", &at, &mut seen, faults);
        let found = match asked.settings.uid.requested() {
            Some(uid) => find_by_uid(line, application, &uid, &at, faults).await?,
            None => name_and_url(&asked.settings).and_then(|named| without_uid.get(&named).cloned()),
        };
        let checked = endpoints::checked(line, rules, application.organization, &asked, found.as_ref(), schedules).await;
        let Some(is_same) = collect_faults(checked, &at, faults)? else { continue };
        steps.push(match found {
            None => Step::Create(asked),
            Some(_) if is_same => Step::Keep,
            Some(found) => Step::Update(found, asked),
        });
    }
    Ok(steps)
}

async fn plan_sources(
    line: &Line,
    application: &Application,
    wanted: Vec<NewSource>,
    faults: &mut Vec<Fault>,
) -> Result<Vec<Step<NewSource, Source>>, Refusal> {
    let (mut steps, mut seen) = (Vec::new(), BTreeSet::new());
    for (index, mut asked) in wanted.into_iter().enumerate() {
        let at = format!("sources[{index}]");
        asked.application = Some(application.id.to_string());
        refuse_again(asked.settings.name.requested(), "name", &at, &mut seen, faults);
        let found = match asked.settings.name.requested().as_deref().and_then(SourceName::parse).and_then(|name| Ref::parse(name.as_str()))
        {
            Some(of) => line.ports.sources.source(application.organization, &of).await?,
            None => None,
        };
        if found.as_ref().is_some_and(|found| found.application != application.id) {
            faults.push(Fault::new(format!("{at}.name"), "is in use by a source of another application"));
            continue;
        }
        let checked = sources::checked(line, application.organization, asked.clone(), found.clone()).await;
        let Some(source) = collect_faults(checked, &at, faults)? else { continue };
        steps.push(match found {
            None => Step::Create(asked),
            Some(found) if sources::is_same(line, &found, &source)? => Step::Keep,
            Some(found) => Step::Update(found, asked),
        });
    }
    Ok(steps)
}

async fn find_by_uid(
    line: &Line,
    application: &Application,
    uid: &str,
    at: &str,
    faults: &mut Vec<Fault>,
) -> Result<Option<Endpoint>, Refusal> {
    let Some(of @ Ref::Uid(_)) = Ref::parse(uid) else { return Ok(None) };
    let found = line.ports.endpoints.endpoint(application.organization, &of).await?;
    if found.as_ref().is_some_and(|found| found.application != application.id) {
        faults.push(Fault::new(format!("{at}.uid"), "is in use by an endpoint of another application"));
        return Ok(None);
    }
    Ok(found)
}

/// The endpoints of the application that no uid can name and somebody may mean, by name and URL. All endpoints of the application are read for it, page
/// by page: a document that gives every endpoint a uid needs none of that.
async fn endpoints_without_uid(
    line: &Line,
    application: &Application,
    wanted: &[NewEndpoint],
) -> Result<BTreeMap<NameAndUrl, Endpoint>, Refusal> {
    let meant = wanted.iter().filter(|asked| asked.settings.uid.requested().is_none());
    let meant: BTreeSet<NameAndUrl> = meant.filter_map(|asked| name_and_url(&asked.settings)).collect();
    let (mut found, mut cursor) = (BTreeMap::new(), ConfigCursor::START);
    while !meant.is_empty() {
        let page = match line.ports.configuration.configuration(application.id, cursor).await? {
            ConfigRead::Page(page) => *page,
            ConfigRead::NotFound => return Err(Refusal::NotFound(Noun::Application)),
            ConfigRead::Outdated => return Err(Refusal::Store(StoreError::Conflict)),
        };
        for endpoint in page.endpoints {
            let named = (endpoint.name.clone(), endpoint.target.written.clone());
            let is_open = !matches!(endpoint.state, EndpointState::Deleted { .. });
            if endpoint.uid.is_none() && is_open && meant.contains(&named) {
                found.entry(named).or_insert(endpoint);
            }
        }
        match page.next {
            Some(next) => cursor = next,
            None => break,
        }
    }
    Ok(found)
}

/// What distinguishes endpoints without a uid.
type NameAndUrl = (Option<String>, String);

fn name_and_url(asked: &EndpointChange) -> Option<NameAndUrl> {
    Some((asked.name.requested(), asked.url.requested()?))
}

fn refuse_again(name: Option<String>, field: &str, at: &str, seen: &mut BTreeSet<String>, faults: &mut Vec<Fault>) {
    if let Some(name) = name
        && !seen.insert(name)
    {
        faults.push(Fault::new(format!("{at}.{field}"), "occurs twice in this document"));
    }
}

/// What was checked; what is wrong with it is added to the faults, under its place in the document.
fn collect_faults<T>(checked: Result<T, Refusal>, at: &str, faults: &mut Vec<Fault>) -> Result<Option<T>, Refusal> {
    match checked {
        Ok(checked) => Ok(Some(checked)),
        Err(Refusal::Invalid(wrong)) => {
            faults.extend(wrong.into_iter().map(|fault| Fault::new(format!("{at}.{}", fault.field), fault.reason)));
            Ok(None)
        }
        Err(refusal) => Err(refusal),
    }
}

/// Schedules first: endpoints follow them.
async fn write(line: &Line, rules: &TargetRules, by: &Author, plan: Plan, asked: ApplicationChange) -> Result<(), Refusal> {
    for step in plan.schedules {
        match step {
            Step::Create(asked) => drop(schedules::create(line, by, asked).await?),
            Step::Update(found, asked) => drop(schedules::change(line, by, &ScheduleRef::Id(found.id), asked).await?),
            Step::Keep => {}
        }
    }
    for step in plan.event_types {
        match step {
            Step::Create(asked) => drop(event_types::create(line, by, asked).await?),
            Step::Update(found, asked) => drop(event_types::change(line, by, &Ref::Id(found.id), asked).await?),
            Step::Keep => {}
        }
    }
    for step in plan.endpoints {
        match step {
            Step::Create(asked) => drop(endpoints::create(line, rules, by, asked).await?),
            Step::Update(found, asked) => drop(endpoints::change(line, rules, by, found, asked.settings).await?),
            Step::Keep => {}
        }
    }
    for step in plan.sources {
        match step {
            Step::Create(asked) => drop(sources::create(line, by, asked).await?),
            Step::Update(found, asked) => drop(sources::change(line, by, &Ref::Id(found.id), asked.settings).await?),
            Step::Keep => {}
        }
    }
    if let Step::Update(application, ()) = plan.application {
        applications::change(line, rules, by, &Ref::Id(application.id), asked).await?;
    }
    Ok(())
}
