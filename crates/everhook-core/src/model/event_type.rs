//! What an organization says about its types of events. Types need no definition; one that has one is described, checked or archived.

use crate::{
    ids::{EventTypeId, OrganizationId},
    model::EventType,
    time::Timestamp,
};

/// A type of events, as the organization defined it for all its applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTypeDefinition {
    /// Its identity.
    pub id: EventTypeId,
    /// The tenant that owns it.
    pub organization: OrganizationId,
    /// The type; unique in the organization, and never changed.
    pub name: EventType,
    /// Shown to people.
    pub description: Option<String>,
    /// What `data` must be: a JSON Schema, byte for byte. Checked: it compiles.
    pub schema: Option<String>,
    /// What `data` may look like: JSON, byte for byte. Checked: it fits the schema.
    pub example: Option<String>,
    /// Whether publishing it is refused from now on.
    pub archived: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// What publishing must know of a type; its schema is read when the first event of it comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTypeMark {
    /// Its definition.
    pub id: EventTypeId,
    /// The type.
    pub name: EventType,
    /// Whether publishing it is refused.
    pub archived: bool,
    /// Whether `data` must fit a schema.
    pub has_schema: bool,
    /// When the definition was last changed.
    pub updated_at: Timestamp,
}
