//! A retry schedule as clients read and write it: what is read can be written back.

use std::{fmt, time::Duration};

use everhook_core::{
    manage::schedules::{Growth, Intervals, Known, ScheduleChange},
    model::{Backoff, Jitter, Strategy},
    time::millis,
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use utoipa::ToSchema;

use super::super::wire::Field;

/// When failed deliveries are tried again, how often, and when to stop at once.
#[derive(Serialize, ToSchema)]
pub struct ScheduleOut {
    #[schema(format = "uuid")]
    id: String,
    /// Whose it is; null for presets, which are everybody's.
    #[schema(format = "uuid")]
    organization_id: Option<String>,
    name: String,
    /// Presets are built in and read-only.
    preset: bool,
    /// `exponential`, `linear` or `custom`.
    strategy: &'static str,
    intervals: IntervalsOut,
    /// How many attempts at most, the first included.
    max_attempts: u32,
    /// How far a delay may be moved, as a share of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<f64>,
    /// How much later a delay may become.
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter_ms: Option<u64>,
    /// HTTP statuses that end a delivery at once.
    give_up_on: Vec<u16>,
    /// How long one attempt may take, where the endpoint does not say.
    timeout_ms: Option<u64>,
    #[schema(format = DateTime)]
    created_at: Option<String>,
    #[schema(format = DateTime)]
    updated_at: Option<String>,
}

/// What a retry schedule says: what can be written back.
#[derive(Serialize, ToSchema)]
pub struct ScheduleConfigOut {
    name: String,
    strategy: &'static str,
    intervals: IntervalsOut,
    max_attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<f64>,
    give_up_on: Vec<u16>,
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

/// The delays between attempts: in seconds, used as written, the last one repeating; or a rule that makes them.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum IntervalsOut {
    /// Seconds.
    List(Vec<f64>),
    /// A rule.
    Rule(GrowthOut),
}

/// `base × multiplierⁿ`, at most `max`; for the strategy `linear` the base alone, which repeats.
#[derive(Serialize, ToSchema)]
pub struct GrowthOut {
    base_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    multiplier: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_ms: Option<u64>,
}

impl From<Known> for ScheduleOut {
    fn from(known: Known) -> Self {
        let policy = known.policy().clone();
        let (strategy, intervals) = match policy.strategy {
            Strategy::Custom(delays) => ("custom", seconds(&delays)),
            Strategy::Exponential(Backoff::Intervals(delays)) => ("exponential", seconds(&delays)),
            Strategy::Linear(Backoff::Intervals(delays)) => ("linear", seconds(&delays)),
            Strategy::Exponential(Backoff::Growing { base, multiplier, max }) => {
                let rule = GrowthOut { base_ms: millis(base), multiplier: Some(multiplier), max_ms: Some(millis(max)) };
                ("exponential", IntervalsOut::Rule(rule))
            }
            Strategy::Linear(Backoff::Growing { base, .. }) => {
                ("linear", IntervalsOut::Rule(GrowthOut { base_ms: millis(base), multiplier: None, max_ms: None }))
            }
        };
        let (jitter, jitter_ms) = match policy.jitter {
            Jitter::Share(share) => (Some(share), None),
            Jitter::Later(most) => (None, Some(millis(most))),
        };
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

/// What a schedule should be; a change needs only the fields that change, and null brings a field back to its default.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "Production", "strategy": "custom", "intervals": [5, 300, 1800], "max_attempts": 4, "give_up_on": [410]}))]
pub struct ScheduleIn {
    /// Unique in the organization, and no preset's; needed at creation.
    #[serde(default)]
    #[schema(value_type = String, required = false, example = "Production")]
    name: Field<String>,
    /// `exponential`, `linear` or `custom`; if absent, what fits `intervals`.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "custom")]
    strategy: Field<String>,
    /// The delays between attempts; needed at creation. A list of seconds, 1 to 604,800 each, or `{base_ms, multiplier, max_ms}`.
    #[serde(default)]
    #[schema(value_type = IntervalsOut, required = false, example = json!([5, 300, 1800]))]
    intervals: Field<IntervalsIn>,
    /// 1 to 100, the first included; 8 if absent.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 100)]
    max_attempts: Field<i64>,
    /// How far a delay may be moved, as a share of it: 0 to 1; 0.1 if absent.
    #[serde(default)]
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 1)]
    jitter: Field<f64>,
    /// HTTP statuses that end a delivery at once: 300 to 599.
    #[serde(default)]
    #[schema(value_type = Option<Vec<u16>>)]
    give_up_on: Field<Vec<i64>>,
    /// How long one attempt may take, where the endpoint does not say: 100 to 60,000.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 100, maximum = 60_000)]
    timeout_ms: Field<i64>,
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

/// A list or an object; anything else is told apart here, where an untagged reader could only say that nothing fits.
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
