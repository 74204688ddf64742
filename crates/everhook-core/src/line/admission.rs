//! Whether an event may be published, and who gets it: its application, its type and schema, its organization's rate. A part of `publish`.

use std::{num::NonZeroU32, sync::Arc};

use serde_json::Value;

use crate::{
    catalog::ApplicationView,
    ids::{ApplicationId, OrganizationId},
    limits::evaluations::{EventData, RequestWork},
    line::{
        Line,
        draft::Views,
        publish::PublishError,
        selection::{Matches, select, select_accepted},
        tokens,
    },
    model::{ApplicationKind, EventTypeMark, RateLimit},
    policy::{
        schema::{Schema, SchemaMismatch, Violation},
        work::{SCHEMA_UNITS_MAX, WorkBudget},
    },
    ports::{IncomingEvent, StoreError},
    spool::publishers::{KnownApplicationState, LookUpError},
};

/// Which time an event is matched. Its organization pays for the first alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Matching {
    /// For the first time.
    First,
    /// Because the configuration changed under it.
    Again,
}

/// Whose events they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A publisher's.
    Publisher,
    /// A provider's, through a source.
    Provider,
    /// Ours: they alone go to the application `operational`.
    Everhook,
}

/// How events are matched in one round.
#[derive(Clone, Copy)]
pub(crate) struct RoundOf {
    /// Whose they are.
    pub(crate) origin: Origin,
    /// Which time it is.
    pub(crate) matching: Matching,
}

/// Finds the application, if it takes this event, and the endpoints that get it; `None` if nothing is known but that there is such an application, because the store is away.
pub(crate) async fn admit(
    line: &Line,
    incoming: &IncomingEvent,
    round: RoundOf,
    views: &mut Views,
    work: &mut RequestWork,
) -> Result<Option<(Arc<ApplicationView>, Matches)>, PublishError> {
    let Some(view) = find(line, incoming, views).await? else { return Ok(None) };
    if view.application.organization != incoming.organization {
        return Err(PublishError::NoSuchApplication);
    }
    if view.application.kind == ApplicationKind::Operational && round.origin != Origin::Everhook {
        return Err(PublishError::Operational);
    }
    let mut data = EventData::of(&incoming.event);
    // Everhook's own events, a provider's, and samples to one endpoint, are not the organization's to define.
    if view.application.kind != ApplicationKind::Operational && round.origin != Origin::Provider && incoming.only.is_none() {
        check_type(line, &view, incoming, &mut data, work).await?;
    }
    // What a provider sends was counted as a whole: a batch must not be taken in part.
    if round.matching == Matching::First && round.origin != Origin::Provider {
        take_token(line, &view, incoming).await?;
    }
    let matches = match round.origin {
        // On the heap, because it is not the hot path: publishers carry the room for it.
        Origin::Provider => Box::pin(select_accepted(&line.evaluations, incoming, &view, work)).await?,
        Origin::Publisher | Origin::Everhook => select(&line.evaluations, incoming, &view, &mut data, work).await?,
    };
    Ok(Some((view, matches)))
}

/// Finds the application, as the events before this one found it.
async fn find(line: &Line, incoming: &IncomingEvent, views: &mut Views) -> Result<Option<Arc<ApplicationView>>, PublishError> {
    let (organization, application) = (incoming.organization, incoming.event.application);
    if let Some(view) = views.get(application) {
        return Ok(Some(view));
    }
    match line.publishers.view(&line.catalog, organization, application).await {
        Ok(KnownApplicationState::Fully(view)) => {
            views.keep(&view);
            Ok(Some(view))
        }
        Ok(KnownApplicationState::NotAtAll) => Err(PublishError::NoSuchApplication),
        Ok(KnownApplicationState::ByName) => Ok(None),
        Err(LookUpError::NotKnown(error)) => Err(PublishError::NotKnown(error)),
        Err(LookUpError::Store(error)) => Err(error.into()),
    }
}

async fn check_type(
    line: &Line,
    view: &ApplicationView,
    incoming: &IncomingEvent,
    data: &mut EventData,
    work: &mut RequestWork,
) -> Result<(), PublishError> {
    let event = &incoming.event;
    let Some(mark) = view.event_type(&event.event_type) else {
        let unknown = || PublishError::UnknownType(event.event_type.clone());
        return if view.application.strict_event_types { Err(unknown()) } else { Ok(()) };
    };
    if mark.archived {
        return Err(PublishError::ArchivedType(event.event_type.clone()));
    }
    if !mark.has_schema {
        return Ok(());
    }
    // On the heap, because most types have no schema: publishers carry the room for it with every event.
    let Some(schema) = Box::pin(find_schema(line, view, mark, work)).await? else { return Ok(()) };
    let check = move |data: Option<&Value>, budget: &mut WorkBudget| match data.map(|data| schema.check(data, budget)) {
        Some(Ok(())) => Ok(None),
        Some(Err(SchemaMismatch::Violation(violation))) => Ok(Some(violation)),
        Some(Err(SchemaMismatch::TooCostly)) => Err(None),
        None => Ok(Some(Violation::unreadable())),
    };
    let violation = Box::pin(work.evaluate(&line.evaluations, incoming.organization, data, SCHEMA_UNITS_MAX, check)).await?;
    violation.map_or(Ok(()), |violation| Err(PublishError::SchemaMismatch(violation)))
}

/// The schema of a type, compiled once for each definition. `None` if it has none any more, or cannot be read while the store is away.
async fn find_schema(
    line: &Line,
    view: &ApplicationView,
    mark: &EventTypeMark,
    work: &mut RequestWork,
) -> Result<Option<Arc<Schema>>, PublishError> {
    if let Some(known) = line.catalog.schemas.get(mark) {
        return Ok(Some(known));
    }
    let Some((defined_at, text)) = line.publishers.schema_text(&line.catalog, &view.application, mark).await? else { return Ok(None) };
    let (catalog, mark, organization) = (line.catalog.clone(), mark.clone(), view.application.organization);
    let compile = move || {
        // While this waited for its turn, another event of the type may have had it compiled.
        if let Some(known) = catalog.schemas.get(&mark) {
            return Ok(known);
        }
        let schema = Arc::new(Schema::compile(&text).map_err(StoreError::corrupt)?);
        catalog.schemas.keep(organization, mark.id, defined_at, schema.clone());
        Ok::<_, StoreError>(schema)
    };
    let timeout = work.timeout(&*line.ports.clock)?;
    Ok(Some(line.evaluations.run(organization, timeout, compile).await??))
}

/// Takes the event's token, if the organization has a limit. Everhook's own events about it are exempt; test events, which go to one endpoint
/// alone, are not.
async fn take_token(line: &Line, view: &ApplicationView, incoming: &IncomingEvent) -> Result<(), PublishError> {
    let is_exempt = view.application.kind == ApplicationKind::Operational && incoming.only.is_none();
    if is_exempt { Ok(()) } else { take_event(line, view).await }
}

/// Takes what one request of a provider costs its organization: as much as an event.
pub(crate) async fn take_request(line: &Line, organization: OrganizationId, application: ApplicationId) -> Result<(), PublishError> {
    match line.publishers.view(&line.catalog, organization, application).await {
        Ok(KnownApplicationState::Fully(view)) => take_event(line, &view).await,
        // Whatever else there is to say, publishing says it.
        Ok(KnownApplicationState::ByName | KnownApplicationState::NotAtAll) | Err(_) => Ok(()),
    }
}

async fn take_event(line: &Line, view: &ApplicationView) -> Result<(), PublishError> {
    let Some(limit) = view.limits.events_per_minute.and_then(NonZeroU32::new) else { return Ok(()) };
    let taken = tokens::take_event(line, view.application.organization, RateLimit::per_minute(limit, None)).await;
    taken.map_err(|retry_after| PublishError::TooMany { retry_after })
}
