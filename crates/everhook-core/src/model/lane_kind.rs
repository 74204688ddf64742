//! What a lane leads to.

/// The kind of a lane's destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaneKind {
    /// A URL or a queue that a user registered.
    Endpoint,
    /// What works on events that were received.
    Processor,
    /// What an app is called for.
    Capability,
    /// People, by e-mail.
    Channel,
}

impl LaneKind {
    /// All of them.
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
