//! Which traces are recorded, by the names that OpenTelemetry has for it.

use everhook_core::model::TraceContext;

/// Whose spans are recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// Whether whoever began a trace decides.
    follows_parent: bool,
    /// The share of traces that are recorded where nobody has decided.
    share: f64,
}

impl Sampler {
    /// The names of samplers, as an operator may write them.
    pub const NAMES: &str =
        "always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off or parentbased_traceidratio";

    /// Reads a name, with the share that those of a ratio take.
    pub fn parse(name: &str, share: f64) -> Option<Self> {
        let (follows_parent, rest) = match name.strip_prefix("parentbased_") {
            Some(rest) => (true, rest),
            None => (false, name),
        };
        let share = match rest {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => share,
            _ => return None,
        };
        Some(Self { follows_parent, share })
    }

    /// Whether spans of a trace are recorded. It depends on the trace alone, so that every node says the same.
    pub fn samples(&self, context: &TraceContext) -> bool {
        if let Some(is_recorded) = context.is_recorded.filter(|_| self.follows_parent) {
            return is_recorded;
        }
        self.share >= 1.0 || (place(context.trace) as f64) < self.share * (u64::MAX as f64)
    }
}

/// Where a trace is among all, evenly spread: parts of its id may be a time or a counter, so that all bits are mixed (the last step of SplitMix64).
fn place(trace: u128) -> u64 {
    let folded = (trace >> 64) as u64 ^ trace as u64;
    let mixed = (folded ^ (folded >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn context(trace: u128, is_recorded: Option<bool>) -> TraceContext {
        TraceContext { trace, parent: None, is_recorded }
    }

    #[test]
    fn a_sampler_says_what_its_name_says() {
        // (name, share) → (nobody decided, the parent says yes, the parent says no)
        for ((name, share), expected) in [
            (("always_on", 0.0), (true, true, true)),
            (("always_off", 1.0), (false, false, false)),
            (("traceidratio", 1.0), (true, true, true)),
            (("traceidratio", 0.0), (false, false, false)),
            (("parentbased_always_on", 0.0), (true, true, false)),
            (("parentbased_always_off", 1.0), (false, true, false)),
            (("parentbased_traceidratio", 0.0), (false, true, false)),
        ] {
            let sampler = Sampler::parse(name, share).unwrap();
            let said = [None, Some(true), Some(false)].map(|is_recorded| sampler.samples(&context(7, is_recorded)));
            assert_eq!((said[0], said[1], said[2]), expected, "{name} {share}");
        }
        assert_eq!(Sampler::parse("jaeger_remote", 1.0), None);
        assert_eq!(Sampler::parse("parentbased_", 1.0), None);
    }

    #[test]
    fn a_ratio_is_about_kept_and_the_same_for_one_trace() {
        let sampler = Sampler::parse("traceidratio", 0.25).unwrap();
        let traces: Vec<u128> = (0..4_000).map(|_| Uuid::now_v7().as_u128()).collect();
        let sampled: Vec<bool> = traces.iter().map(|trace| sampler.samples(&context(*trace, None))).collect();
        let count = sampled.iter().filter(|is| **is).count();
        assert!((850..1_150).contains(&count), "{count}");
        assert!(traces.iter().zip(&sampled).all(|(trace, is)| sampler.samples(&context(*trace, None)) == *is));
    }
}
