//! What the mapping answers.

use std::fmt;

use crate::{
    model::health::{MetricDraft, Permissions, RecordId},
    time::Timestamp,
};

/// What an item means, and what of it could not be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapped {
    /// What is to be done.
    pub effect: Effect,
    /// What the item lacks of what is kept. It is no failure: what was there is used.
    pub missing: Vec<Missing>,
}

/// What is to be done about an item.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Write these for every profile of the user: at least one, but for the data of a ping, which may be none.
    Metrics(Vec<MetricDraft>),
    /// Garmin: the user disconnected. Unsigned: confirm it where a token is kept, then clear the tokens.
    Deregistration,
    /// Garmin: the user switched something on or off. Unsigned: confirm it where a token is kept.
    PermissionChange {
        /// What is switched on now, as the item says; `None` if it says nothing that can be read.
        permissions: Option<Permissions>,
        /// When that changed.
        changed_at: Option<Timestamp>,
    },
    /// Garmin: data is to be fetched. The address is the item's own word: only `callback::check` makes a request of it.
    Ping {
        /// What kind of data.
        data: GarminType,
        /// Where it says the data is.
        callback_url: String,
    },
    /// Strava: the activity is to be fetched, or its metric removed.
    Activity {
        /// The activity. It is the record id of its metric, too.
        id: RecordId,
        /// What became of it.
        change: ActivityChange,
    },
    /// Strava: the athlete withdrew the authorization. Unsigned: confirm it where a token is kept, then clear the tokens.
    Deauthorized,
    /// Nothing: the received event is all that is kept.
    KeptRaw(KeptRaw),
}

/// What became of a Strava activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityChange {
    /// It was created or changed: fetch it. If it is not there for us any more (deleted since, or made private), remove its metric.
    Fetch,
    /// It was deleted: remove its metric.
    Delete,
}

/// Garmin's kinds of data that become metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GarminType {
    /// Nights.
    Sleeps,
    /// Stress and body battery.
    StressDetails,
    /// Oxygen uptake.
    UserMetrics,
    /// Days.
    Dailies,
    /// Workouts.
    Activities,
    /// Workouts that the user typed in or changed: the same records.
    ManuallyUpdatedActivities,
}

impl GarminType {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Sleeps, Self::StressDetails, Self::UserMetrics, Self::Dailies, Self::Activities, Self::ManuallyUpdatedActivities];

    /// Its name in Garmin's envelopes and paths.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sleeps => "sleeps",
            Self::StressDetails => "stressDetails",
            Self::UserMetrics => "userMetrics",
            Self::Dailies => "dailies",
            Self::Activities => "activities",
            Self::ManuallyUpdatedActivities => "manuallyUpdatedActivities",
        }
    }

    /// Reads its name, in any spelling that is in use.
    pub fn parse(name: &str) -> Option<Self> {
        super::garmin::type_of(name)
    }
}

/// Why an item becomes no metric and is no failure either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptRaw {
    /// A type that is known and has no metric.
    NoMetricOfType,
    /// A type that is not known.
    UnknownType,
    /// Strava: a change of an athlete that concerns nothing kept here.
    AthleteChange,
}

impl KeptRaw {
    /// The reason, for people.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::NoMetricOfType => "no metric is made of this type of data; the event is kept as received",
            Self::UnknownType => "this type of data is unknown; the event is kept as received",
            Self::AthleteChange => "the change of the athlete concerns no metric; the event is kept as received",
        }
    }
}

/// A value that was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its name, as the provider writes it today.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: Why,
}

/// Why a value was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is not there.
    Absent,
    /// It is not what it should be, or out of all bounds.
    Unreadable,
    /// It says that nothing was measured.
    NotMeasured,
    /// It is larger than is kept.
    TooLarge,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.why {
            Why::Absent => "is missing",
            Why::Unreadable => "cannot be read",
            Why::NotMeasured => "was not measured",
            Why::TooLarge => "is too large to be kept with the metric",
        };
        write!(f, "`{}` {what}", self.field)
    }
}

/// Nothing can be made of an item, now or later: it is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmappable {
    /// It is no JSON object.
    #[error("the item is not a JSON object")]
    NotAnObject,
    /// It was fetched, and is no list of summaries.
    #[error("the provider's answer is not a list of summaries")]
    NotAnArray,
    /// It has more members than anything that a provider sends.
    #[error("the item has more than {max} members")]
    TooManyMembers {
        /// How many are read.
        max: usize,
    },
    /// It was fetched, and is not what was asked for.
    #[error("the provider answered with the data of another user or record")]
    SomebodyElses,
    /// What every item of its type must have is not there.
    #[error("the item has nothing that can be used: {}", list(.missing))]
    NothingUsable {
        /// What it lacks.
        missing: Vec<Missing>,
    },
}

fn list(missing: &[Missing]) -> String {
    missing.iter().map(Missing::to_string).collect::<Vec<_>>().join(", ")
}
