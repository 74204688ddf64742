//! A retry schedule as clients read and write it: what is read can be written back.

use std::{fmt, time::Duration};

use everhook_core::{
    manage::schedules::{Growth, Intervals, Known, ScheduleChange},
    model::{Backoff, Jitter, RetrySchedule, Strategy},
    time::millis,
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use utoipa::ToSchema;

use super::super::{
    creation::{Creates, New},
    wire::Field,
};
use crate::api::words::StrategyWord;

/// A retry schedule: when failed deliveries are retried, how often, and which statuses end them at once.
#[derive(Serialize, ToSchema)]
pub struct ScheduleOut {
    #[schema(format = "uuid")]
    id: String,
    /// The organization that owns it; null for presets.
    #[schema(format = "uuid", required = true)]
    organization_id: Option<String>,
    name: String,
    /// Presets are built in and read-only.
    preset: bool,
    /// `exponential`, `linear` or `custom`.
    #[schema(value_type = StrategyWord)]
    strategy: &'static str,
    intervals: IntervalsOut,
    /// The maximum number of attempts, including the first.
    max_attempts: u32,
    /// The largest random change of a delay, as a fraction of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<f64>,
    /// The largest random addition to a delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter_ms: Option<u64>,
    /// HTTP statuses that end a delivery at once.
    give_up_on: Vec<u16>,
    /// How long one attempt may take, if the endpoint does not set it.
    #[schema(required = true)]
    timeout_ms: Option<u64>,
    #[schema(format = DateTime, required = true)]
    created_at: Option<String>,
    #[schema(format = DateTime, required = true)]
    updated_at: Option<String>,
}

/// The configuration of a retry schedule, as exported and imported.
#[derive(Serialize, ToSchema)]
pub struct ScheduleConfigOut {
    name: String,
    #[schema(value_type = StrategyWord)]
    strategy: &'static str,
    intervals: IntervalsOut,
    max_attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<f64>,
    give_up_on: Vec<u16>,
    #[schema(required = true)]
    timeout_ms: Option<u64>,
}

impl From<ScheduleOut> for ScheduleConfigOut {
    fn from(out: ScheduleOut) -> Self {
        Self {
            name: out.name,
            strategy: out.strategy,
            intervals: out.intervals,
            max_attempts: out.max_attempts,
            jitter: out.jitter,
            give_up_on: out.give_up_on,
            timeout_ms: out.timeout_ms,
        }
    }
}

/// The delays between attempts: a list of seconds, of which the last repeats, or a rule.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum IntervalsOut {
    /// Seconds.
    List(Vec<f64>),
    /// A rule.
    Rule(GrowthOut),
}

/// `base × multiplierⁿ`, at most `max`; for the strategy `linear` only the base, which repeats.
#[derive(Serialize, ToSchema)]
pub struct GrowthOut {
    base_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    multiplier: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_ms: Option<u64>,
}

/// The parts of a schedule that are spelled in more than one field.
struct Spelled {
    strategy: &'static str,
    intervals: IntervalsOut,
    jitter: Option<f64>,
    jitter_ms: Option<u64>,
}

impl From<&RetrySchedule> for Spelled {
    fn from(policy: &RetrySchedule) -> Self {
        let (strategy, intervals) = match &policy.strategy {
            Strategy::Custom(delays) => ("custom", seconds(delays)),
            Strategy::Exponential(Backoff::Intervals(delays)) => ("exponential", seconds(delays)),
            Strategy::Linear(Backoff::Intervals(delays)) => ("linear", seconds(delays)),
            Strategy::Exponential(Backoff::Growing { base, multiplier, max }) => {
                let rule = GrowthOut { base_ms: millis(*base), multiplier: Some(*multiplier), max_ms: Some(millis(*max)) };
                ("exponential", IntervalsOut::Rule(rule))
            }
            Strategy::Linear(Backoff::Growing { base, .. }) => {
                ("linear", IntervalsOut::Rule(GrowthOut { base_ms: millis(*base), multiplier: None, max_ms: None }))
            }
        };
        let (jitter, jitter_ms) = match policy.jitter {
            Jitter::Share(share) => (Some(share), None),
            Jitter::Later(most) => (None, Some(millis(most))),
        };
        Self { strategy, intervals, jitter, jitter_ms }
    }
}

/// The schedule that one endpoint has to itself: what can be written back.
#[derive(Serialize, ToSchema)]
pub struct InlineScheduleOut {
    /// `exponential`, `linear` or `custom`.
    #[schema(value_type = StrategyWord)]
    strategy: &'static str,
    intervals: IntervalsOut,
    max_attempts: u32,
    #[schema(required = true)]
    jitter: Option<f64>,
    give_up_on: Vec<u16>,
    #[schema(required = true)]
    timeout_ms: Option<u64>,
}

impl From<&RetrySchedule> for InlineScheduleOut {
    fn from(policy: &RetrySchedule) -> Self {
        let Spelled { strategy, intervals, jitter, .. } = Spelled::from(policy);
        let (max_attempts, give_up_on) = (policy.max_attempts, policy.give_up_on.clone());
        Self { strategy, intervals, max_attempts, jitter, give_up_on, timeout_ms: policy.timeout.map(millis) }
    }
}

/// The retry schedule of an endpoint: the name of one, or its own.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum EndpointScheduleOut {
    /// A preset, or one of the organization's.
    Name(String),
    /// One that no other endpoint uses.
    Inline(InlineScheduleOut),
}

/// A name, or a whole schedule.
pub enum EndpointScheduleIn {
    Name(String),
    Inline(Box<ScheduleIn>),
}

impl<'de> Deserialize<'de> for EndpointScheduleIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EndpointScheduleVisitor)
    }
}

struct EndpointScheduleVisitor;

impl<'de> Visitor<'de> for EndpointScheduleVisitor {
    type Value = EndpointScheduleIn;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a retry schedule, or an object with `intervals`")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<EndpointScheduleIn, E> {
        Ok(EndpointScheduleIn::Name(name.to_owned()))
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<EndpointScheduleIn, M::Error> {
        ScheduleIn::deserialize(MapAccessDeserializer::new(map)).map(|schedule| EndpointScheduleIn::Inline(Box::new(schedule)))
    }
}

impl From<Known> for ScheduleOut {
    fn from(known: Known) -> Self {
        let policy = known.policy().clone();
        let Spelled { strategy, intervals, jitter, jitter_ms } = Spelled::from(&policy);
        let own = match &known {
            Known::Own(schedule) => Some(schedule),
            Known::Preset(_) => None,
        };
        Self {
            id: known.id().to_string(),
            organization_id: own.map(|schedule| schedule.organization.to_string()),
            name: policy.name.0,
            preset: own.is_none(),
            strategy,
            intervals,
            max_attempts: policy.max_attempts,
            jitter,
            jitter_ms,
            give_up_on: policy.give_up_on,
            timeout_ms: policy.timeout.map(millis),
            created_at: own.map(|schedule| schedule.created_at.to_string()),
            updated_at: own.map(|schedule| schedule.updated_at.to_string()),
        }
    }
}

/// A retry schedule. An update needs only the changed fields; null resets a field to its default.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "Production", "strategy": "custom", "intervals": [5, 300, 1800], "max_attempts": 4, "give_up_on": [410]}))]
pub struct ScheduleIn {
    /// Unique in the organization, and not the name of a preset. Required at creation.
    #[serde(default)]
    #[schema(value_type = String, required = false, example = "Production")]
    name: Field<String>,
    /// `exponential`, `linear` or `custom`; derived from `intervals` if absent.
    #[serde(default)]
    #[schema(value_type = Option<StrategyWord>, example = "custom")]
    strategy: Field<String>,
    /// The delays between attempts: a list of seconds, 1 to 604,800 each, or `{base_ms, multiplier, max_ms}`. Required at creation.
    #[serde(default)]
    #[schema(value_type = IntervalsOut, required = false, example = json!([5, 300, 1800]))]
    intervals: Field<IntervalsIn>,
    /// 1 to 100, including the first; 8 if absent.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 100)]
    max_attempts: Field<i64>,
    /// The largest random change of a delay, as a fraction of it: 0 to 1; 0.1 if absent.
    #[serde(default)]
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 1)]
    jitter: Field<f64>,
    /// HTTP statuses that end a delivery at once: 300 to 599.
    #[serde(default)]
    #[schema(value_type = Option<Vec<u16>>)]
    give_up_on: Field<Vec<i64>>,
    /// How long one attempt may take, if the endpoint does not set it: 100 to 60,000.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 100, maximum = 60_000)]
    timeout_ms: Field<i64>,
}

/// The same, where it creates one.
pub type NewScheduleIn = New<ScheduleIn>;

impl Creates for ScheduleIn {
    const REQUIRED: &'static [&'static str] = &["name", "intervals"];
}

impl From<ScheduleIn> for ScheduleChange {
    fn from(asked: ScheduleIn) -> Self {
        Self {
            name: asked.name.0,
            strategy: asked.strategy.0,
            intervals: asked.intervals.map(|intervals| intervals.0),
            max_attempts: asked.max_attempts.map(|n| u64::try_from(n).unwrap_or(0)),
            jitter: asked.jitter.0,
            give_up_on: asked.give_up_on.0,
            timeout: asked.timeout_ms.map(duration),
        }
    }
}

/// A list or an object; anything else is refused here with a reason, where an untagged reader could only report that no variant matches.
struct IntervalsIn(Intervals);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GrowthIn {
    base_ms: Option<i64>,
    multiplier: Option<f64>,
    max_ms: Option<i64>,
}

impl<'de> Deserialize<'de> for IntervalsIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IntervalsVisitor)
    }
}

struct IntervalsVisitor;

impl<'de> Visitor<'de> for IntervalsVisitor {
    type Value = IntervalsIn;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of seconds or an object with `base_ms`, `multiplier` and `max_ms`")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<IntervalsIn, S::Error> {
        let mut seconds = Vec::new();
        while let Some(delay) = list.next_element()? {
            seconds.push(delay);
        }
        Ok(IntervalsIn(Intervals::List(seconds)))
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<IntervalsIn, M::Error> {
        let GrowthIn { base_ms, multiplier, max_ms } = GrowthIn::deserialize(MapAccessDeserializer::new(map))?;
        Ok(IntervalsIn(Intervals::Rule(Growth { base: base_ms.map(duration), multiplier, max: max_ms.map(duration) })))
    }
}

fn seconds(delays: &[Duration]) -> IntervalsOut {
    IntervalsOut::List(delays.iter().map(Duration::as_secs_f64).collect())
}

/// A negative number becomes none at all, which every rule about a length of time refuses.
fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}
