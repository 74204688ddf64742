//! What an operation is about, as JSON. Instants are microseconds.

use std::{str::FromStr, time::Duration};

use everhook_core::{
    ids::EndpointId,
    model::{
        DeadLetterSelection, ErasureSelection, EventSelection, EventTypePattern, FailureCategory, Selection, Wanted,
        health::{Backfill, BackfillType},
    },
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SelectionJson {
    DeadLetters {
        application: Option<String>,
        endpoints: Vec<String>,
        event_types: Vec<String>,
        categories: Vec<String>,
        from: Option<i64>,
        to: Option<i64>,
    },
    Erasure {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        organization: Option<String>,
        application: Option<String>,
        label: Option<(String, String)>,
        from: Option<i64>,
        to: i64,
    },
    Events {
        application: String,
        from: i64,
        to: i64,
        event_types: Vec<String>,
        endpoints: Vec<String>,
        wanted: String,
    },
    Waiting {
        endpoint: String,
    },
    Backfill {
        connection: String,
        types: Vec<String>,
        from: i64,
        to: i64,
        chunk_seconds: u64,
    },
}

/// Writes a selection.
pub(crate) fn write(selection: &Selection) -> String {
    let json = match selection {
        Selection::DeadLetters(letters) => SelectionJson::DeadLetters {
            application: letters.application.map(|id| id.to_string()),
            endpoints: texts(&letters.endpoints),
            event_types: texts(&letters.event_types),
            categories: letters.categories.iter().map(|category| category.as_str().to_owned()).collect(),
            from: letters.from.map(Timestamp::as_micros),
            to: letters.to.map(Timestamp::as_micros),
        },
        Selection::Erasure(events) => SelectionJson::Erasure {
            organization: events.deleted_organization.map(|id| id.to_string()),
            application: events.application.map(|id| id.to_string()),
            label: events.label.clone(),
            from: events.from.map(Timestamp::as_micros),
            to: events.to.as_micros(),
        },
        Selection::Events(events) => SelectionJson::Events {
            application: events.application.to_string(),
            from: events.from.as_micros(),
            to: events.to.as_micros(),
            event_types: texts(&events.event_types),
            endpoints: texts(&events.endpoints),
            wanted: events.wanted.as_str().to_owned(),
        },
        Selection::Waiting(endpoint) => SelectionJson::Waiting { endpoint: endpoint.to_string() },
        Selection::Backfill(backfill) => SelectionJson::Backfill {
            connection: backfill.connection.to_string(),
            types: backfill.types.iter().map(|data| data.as_str().to_owned()).collect(),
            from: backfill.from.as_micros(),
            to: backfill.to.as_micros(),
            chunk_seconds: backfill.chunk.as_secs(),
        },
    };
    serde_json::to_string(&json).expect("a struct of numbers and strings is JSON")
}

/// Reads what [`write`] wrote; `None` if it is not that.
pub(crate) fn read(text: &str) -> Option<Selection> {
    Some(match serde_json::from_str(text).ok()? {
        SelectionJson::DeadLetters { application, endpoints, event_types, categories, from, to } => {
            Selection::DeadLetters(DeadLetterSelection {
                application: read_id(application)?,
                endpoints: read_endpoints(&endpoints)?,
                event_types: read_patterns(&event_types)?,
                categories: categories.iter().map(|name| FailureCategory::parse(name)).collect::<Option<_>>()?,
                from: from.map(Timestamp::from_micros),
                to: to.map(Timestamp::from_micros),
            })
        }
        SelectionJson::Erasure { organization, application, label, from, to } => Selection::Erasure(ErasureSelection {
            deleted_organization: read_id(organization)?,
            application: read_id(application)?,
            label,
            from: from.map(Timestamp::from_micros),
            to: Timestamp::from_micros(to),
        }),
        SelectionJson::Events { application, from, to, event_types, endpoints, wanted } => Selection::Events(EventSelection {
            application: application.parse().ok()?,
            from: Timestamp::from_micros(from),
            to: Timestamp::from_micros(to),
            event_types: read_patterns(&event_types)?,
            endpoints: read_endpoints(&endpoints)?,
            wanted: Wanted::parse(&wanted)?,
        }),
        SelectionJson::Waiting { endpoint } => Selection::Waiting(endpoint.parse().ok()?),
        SelectionJson::Backfill { connection, types, from, to, chunk_seconds } => Selection::Backfill(Backfill {
            connection: connection.parse().ok()?,
            types: types.iter().map(|name| BackfillType::parse(name)).collect::<Option<_>>()?,
            from: Timestamp::from_micros(from),
            to: Timestamp::from_micros(to),
            chunk: Duration::from_secs(chunk_seconds),
        }),
    })
}

fn texts<T: ToString>(values: &[T]) -> Vec<String> {
    values.iter().map(T::to_string).collect()
}

/// `None` if it is not an id; none at all is none.
fn read_id<I: FromStr>(text: Option<String>) -> Option<Option<I>> {
    text.map_or(Some(None), |id| id.parse().ok().map(Some))
}

fn read_endpoints(texts: &[String]) -> Option<Vec<EndpointId>> {
    texts.iter().map(|text| text.parse().ok()).collect()
}

fn read_patterns(texts: &[String]) -> Option<Vec<EventTypePattern>> {
    texts.iter().map(|text| EventTypePattern::parse(text)).collect()
}

#[cfg(test)]
mod tests {
    use everhook_core::ids::{ApplicationId, OrganizationId};
    use uuid::Uuid;

    use super::*;

    fn backfill() -> Selection {
        Selection::Backfill(Backfill {
            connection: everhook_core::ids::HealthConnectionId::from_uuid(Uuid::from_u128(3)),
            types: BackfillType::ALL.to_vec(),
            from: Timestamp::EPOCH,
            to: Timestamp::from_secs(86_400),
            chunk: Duration::from_secs(86_400),
        })
    }

    #[test]
    fn what_is_written_is_read_back() {
        let event_types = vec![EventTypePattern::parse("order.*").unwrap(), EventTypePattern::Any];
        let endpoints = vec![EndpointId::from_uuid(Uuid::from_u128(7))];
        let letters = DeadLetterSelection {
            application: Some(ApplicationId::from_uuid(Uuid::from_u128(8))),
            endpoints: endpoints.clone(),
            event_types: event_types.clone(),
            categories: vec![FailureCategory::Timeout],
            from: Some(Timestamp::EPOCH),
            to: None,
        };
        let events = EventSelection {
            application: ApplicationId::from_uuid(Uuid::nil()),
            from: Timestamp::EPOCH,
            to: Timestamp::FAR_FUTURE,
            event_types,
            endpoints: endpoints.clone(),
            wanted: Wanted::Missed,
        };
        let erasure =
            |application, label| ErasureSelection { deleted_organization: None, application, label, from: None, to: Timestamp::FAR_FUTURE };
        let by_label = erasure(None, Some(("customer".to_owned(), "c \"7\"".to_owned())));
        let by_application = erasure(Some(ApplicationId::from_uuid(Uuid::from_u128(9))), None);
        let of_deleted =
            ErasureSelection { deleted_organization: Some(OrganizationId::from_uuid(Uuid::from_u128(4))), ..erasure(None, None) };
        let others = [by_label, by_application, of_deleted]
            .map(Selection::Erasure)
            .into_iter()
            .chain([Selection::Waiting(endpoints[0]), backfill()]);
        for selection in [Selection::DeadLetters(letters), Selection::Events(events)].into_iter().chain(others) {
            assert_eq!(read(&write(&selection)), Some(selection));
        }
        assert_eq!(read("{}"), None);
    }
}
