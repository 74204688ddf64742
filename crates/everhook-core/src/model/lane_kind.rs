//! The kinds of destination that a lane can have.

/// What a lane delivers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneKind {
    /// A URL.
    Endpoint,
    /// Built-in code that handles a received event.
    Processor,
    /// A function that an application implements.
    Capability,
    /// A way to notify people.
    Channel,
}

impl LaneKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Endpoint, Self::Processor, Self::Capability, Self::Channel];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::Processor => "processor",
            Self::Capability => "capability",
            Self::Channel => "channel",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}
