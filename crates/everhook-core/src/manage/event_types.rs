//! Event types: what an organization says about its types of events, for all its applications.
//!
//! A schema and an example are checked here, once, so that what is stored compiles and fits. Publishing does the rest.

use super::{
    CHANGE_ROUNDS_MAX, Change, Conflict, DESCRIPTION_CHARS_MAX, Fault, Noun, Refusal, audit, changed_at, check_text, refuse_faults,
    unexpected,
};
use crate::{
    ids::{EventTypeId, OrganizationId, Ref},
    limits::evaluations::{Busy, EVALUATION_TIMEOUT},
    line::Line,
    model::{AuditAction, Author, EventType, EventTypeDefinition},
    policy::{
        self,
        audit::{made, removed},
        json_text::is_same_option,
        schema::{Schema, SchemaMismatch, Violation},
        work::{SCHEMA_UNITS_MAX, WorkBudget},
    },
    ports::{Created, Updated},
};

/// How many types an organization may define: every application keeps a mark of each in memory.
pub const EVENT_TYPES_MAX: u32 = 2_000;

/// The largest example, in bytes.
const EXAMPLE_BYTES_MAX: usize = 64 * 1024;

/// What is asked of an event type, as written.
#[derive(Clone, Debug, Default)]
pub struct EventTypeChange {
    /// The type; needed at creation, and never changed.
    pub name: Change<String>,
    /// Shown to people.
    pub description: Change<String>,
    /// What `data` must be: a JSON Schema.
    pub schema: Change<String>,
    /// What `data` may look like: any JSON value.
    pub example: Change<String>,
    /// Whether publishing it is refused.
    pub archived: Change<bool>,
}

/// Defines an event type.
///
/// # Errors
/// [`Refusal`] lists what is wrong, or says what is taken or that there are too many.
pub async fn create(line: &Line, by: &Author, asked: EventTypeChange) -> Result<EventTypeDefinition, Refusal> {
    let definition = checked(line, by.organization, asked, None).await?;
    let note = made(&audit::of_event_type(&definition));
    let entry = audit::entry(line, by, AuditAction::EventTypeCreate, definition.id.as_uuid(), note);
    match line.ports.event_types.create_event_type(definition.clone(), EVENT_TYPES_MAX, entry).await? {
        Created::Created => {
            line.catalog.forget_organization(by.organization);
            Ok(definition)
        }
        Created::NameTaken => Err(Refusal::name_taken(definition.name.as_str())),
        Created::TooMany => Err(Refusal::Conflict(
            Conflict::LimitReached,
            format!("the organization has reached the limit of {EVENT_TYPES_MAX} event types"),
        )),
        Created::UidTaken | Created::NoSuchSchedule | Created::NoSuchApplication | Created::ConfigTooLarge => Err(unexpected()),
    }
}

/// What a definition would be, without writing it: a new one, or the one that was found, changed.
pub(super) async fn checked(
    line: &Line,
    organization: OrganizationId,
    asked: EventTypeChange,
    found: Option<EventTypeDefinition>,
) -> Result<EventTypeDefinition, Refusal> {
    if let Some(found) = found {
        let (schema, example) = (found.schema.clone(), found.example.clone());
        let mut changed = apply(line, asked, found, Vec::new()).await?;
        // JSON that was only written otherwise is no change.
        for (text, kept) in [(&mut changed.schema, schema), (&mut changed.example, example)] {
            if is_same_option(text.as_deref(), kept.as_deref()) {
                *text = kept;
            }
        }
        return Ok(changed);
    }
    let now = line.ports.clock.now();
    let mut faults = Vec::new();
    let name = check_new_name(&asked.name, &mut faults);
    // Another type's name is used until it is known that there is one: nothing is stored with it.
    let blank = EventTypeDefinition {
        id: EventTypeId::from_uuid(line.ports.entropy.uuid(now)),
        organization,
        name: name.unwrap_or_else(|| EventType::parse("unset").expect("a well-formed type")),
        description: None,
        schema: None,
        example: None,
        archived: false,
        created_at: now,
        updated_at: now,
    };
    apply(line, EventTypeChange { name: Change::Keep, ..asked }, blank, faults).await
}

/// Changes the fields that are given, for events published from now on.
///
/// # Errors
/// [`Refusal`] lists what is wrong, or says what is missing.
pub async fn change(line: &Line, by: &Author, of: &Ref<EventTypeId>, asked: EventTypeChange) -> Result<EventTypeDefinition, Refusal> {
    let mut found = find(line, by.organization, of).await?;
    for _ in 0..CHANGE_ROUNDS_MAX {
        let (read, read_at, before) = (found.clone(), found.updated_at, audit::of_event_type(&found));
        let mut changed = apply(line, asked.clone(), found, Vec::new()).await?;
        changed.updated_at = changed_at(line, read_at);
        let note = policy::audit::changed(&before, &audit::of_event_type(&changed));
        if note.says_nothing() {
            return Ok(read);
        }
        let entry = audit::entry(line, by, AuditAction::EventTypeUpdate, changed.id.as_uuid(), note);
        match line.ports.event_types.update_event_type(changed.clone(), read_at, entry).await? {
            Updated::Updated => {
                line.catalog.forget_organization(by.organization);
                return Ok(changed);
            }
            Updated::Changed => found = find(line, by.organization, &Ref::Id(changed.id)).await?,
            Updated::UidTaken | Updated::NameTaken | Updated::NoSuchSchedule => return Err(unexpected()),
        }
    }
    Err(Refusal::concurrent_change("event type"))
}

/// Forgets what was said about a type. Events of it can be published as before, unless the application is strict.
///
/// # Errors
/// [`Refusal::NotFound`] if there is none.
pub async fn delete(line: &Line, by: &Author, of: &Ref<EventTypeId>) -> Result<(), Refusal> {
    let found = find(line, by.organization, of).await?;
    let note = removed(&audit::of_event_type(&found));
    let entry = audit::entry(line, by, AuditAction::EventTypeDelete, found.id.as_uuid(), note);
    if !line.ports.event_types.delete_event_type(by.organization, found.id, entry).await? {
        return Err(Refusal::NotFound(Noun::EventType));
    }
    line.catalog.forget_organization(by.organization);
    Ok(())
}

/// Finds an event type by its id or its name.
///
/// # Errors
/// [`Refusal::NotFound`] if there is none.
pub async fn find(line: &Line, organization: OrganizationId, of: &Ref<EventTypeId>) -> Result<EventTypeDefinition, Refusal> {
    let found = line.ports.event_types.event_type(organization, of).await?;
    found.ok_or(Refusal::NotFound(Noun::EventType))
}

fn check_new_name(asked: &Change<String>, faults: &mut Vec<Fault>) -> Option<EventType> {
    let reason = match asked {
        Change::Keep => "is required",
        Change::Clear => "must not be null",
        Change::Set(name) if name.parse::<EventTypeId>().is_ok() => "must not be a UUID, which could be the id of another event type",
        Change::Set(name) => match EventType::parse(name) {
            Some(name) => return Some(name),
            None => "must be 1 to 128 of the characters A-Z a-z 0-9 _ . : -",
        },
    };
    faults.push(Fault::new("name", reason));
    None
}

async fn apply(
    line: &Line,
    asked: EventTypeChange,
    mut definition: EventTypeDefinition,
    mut faults: Vec<Fault>,
) -> Result<EventTypeDefinition, Refusal> {
    match &asked.name {
        Change::Keep => {}
        Change::Set(name) if name == definition.name.as_str() => {}
        _ => faults.push(Fault::new("name", "cannot be changed: publishers and endpoints use it")),
    }
    let description = asked.description.check("description", &mut faults, |text| check_text(text, DESCRIPTION_CHARS_MAX));
    description.apply_to_option(&mut definition.description);
    let is_fit_new = !matches!((&asked.schema, &asked.example), (Change::Keep, Change::Keep));
    asked.schema.apply_to_option(&mut definition.schema);
    asked.example.check("example", &mut faults, check_example).apply_to_option(&mut definition.example);
    asked.archived.apply(&mut definition.archived, false);
    if is_fit_new && let Some(schema) = definition.schema.clone() {
        let example = definition.example.clone();
        // Compiling may take milliseconds: not on a thread that serves others.
        let checking = line.evaluations.run(definition.organization, EVALUATION_TIMEOUT, move || check_fit(&schema, example.as_deref()));
        faults.extend(checking.await.map_err(|Busy| Refusal::Busy)?);
    }
    refuse_faults(faults)?;
    Ok(definition)
}

fn check_example(example: String) -> Result<String, String> {
    if example.len() > EXAMPLE_BYTES_MAX {
        return Err(format!("must be at most {EXAMPLE_BYTES_MAX} bytes, and has {}", example.len()));
    }
    Ok(example)
}

/// The schema must compile, and the example must fit it, whichever of the two is new.
pub(super) fn check_fit(schema: &str, example: Option<&str>) -> Option<Fault> {
    let schema = match Schema::compile(schema) {
        Ok(schema) => schema,
        Err(reason) => return Some(Fault::new("schema", reason)),
    };
    let misfit = match serde_json::from_str(example?) {
        Ok(example) => schema.check(&example, &mut WorkBudget::new(SCHEMA_UNITS_MAX)).err()?,
        Err(_) => SchemaMismatch::Violation(Violation::unreadable()),
    };
    Some(match misfit {
        SchemaMismatch::Violation(violation) => Fault::new(format!("example{}", violation.path), violation.reason),
        SchemaMismatch::TooCostly => Fault::new(
            "schema",
            format!(
                "exceeds the limit of {SCHEMA_UNITS_MAX} units of work when validating the example: use fewer alternatives and patterns, or a smaller example"
            ),
        ),
    })
}
