//! The answer to a scrape, written from memory.

use std::{sync::Arc, time::Instant};

use everhook_core::{
    ids::{LaneId, OrganizationId},
    metrics::{EventResult, LaneCounts, Metrics, OUTCOMES, OutcomeCounts, ScheduleCounts, SourceEvents},
    model::{AnswerCount, BreakerState, Priority},
    time::Timestamp,
};

use super::{
    Exposition, Kept,
    families::{self as all},
    text::Text,
};

/// What stands for all label sets that found no room.
const OTHER: &str = "other";

/// The states of a circuit breaker.
const STATES: [BreakerState; 3] = [BreakerState::Closed, BreakerState::Open, BreakerState::HalfOpen];

/// The percentiles of how long attempts took, with their labels.
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)];

impl Exposition {
    /// The whole answer, in the order of [`all::ALL`].
    pub fn render(&self) -> String {
        let (mut text, now, metrics) = (Text::new(), self.line.ports.clock.now(), &*self.line.metrics);
        let lanes: Vec<(String, Arc<LaneCounts>)> =
            metrics.lanes.all().into_iter().map(|(lane_id, counts): (LaneId, _)| (lane_id.to_string(), counts)).collect();
        let kept = self.kept();
        attempts(&mut text, metrics);
        self.durations(&mut text, &kept);
        let mut samples = text.begin(&all::ATTEMPT_NUMBER);
        for (outcome, spread) in OUTCOMES.iter().zip(&metrics.attempt_numbers) {
            samples.spread(&[("outcome", outcome.as_str())], &spread.read());
        }
        let measurements = kept.measurements.as_ref().map(|(_, measurements)| measurements);
        by_priority(&mut text, &all::QUEUE_DEPTH, measurements.map(|measurements| measurements.queues.waiting));
        self.breakers(&mut text, &lanes, now);
        let mut samples = text.begin(&all::DLQ_SIZE);
        for (organization, count) in measurements.map(|measurements| &measurements.dead_letters[..]).unwrap_or_default() {
            samples.count(&[("tenant_id", &organization.to_string())], *count);
        }
        of_lanes(&mut text, &all::RATE_LIMIT_HITS, "webhook_id", metrics, &lanes, |counts| counts.rate_limit_hits.get());
        let status = *self.engine.borrow();
        let utilization = status.in_flight as f64 / self.shares.concurrency.max(1) as f64;
        text.begin(&all::POOL_UTILIZATION).value(&[("pool_id", &self.pool)], utilization);
        of_lanes(&mut text, &all::BLOCKED, "webhook_id", metrics, &lanes, |counts| counts.circuit_blocked.get());
        of_lanes(&mut text, &all::ENDPOINT_FAILURES, "endpoint_id", metrics, &lanes, |counts| counts.failures.get());
        let mut samples = text.begin(&all::DISABLED_ENDPOINTS);
        measurements.into_iter().for_each(|measurements| samples.count(&[], measurements.disabled_endpoints));
        schedules(&mut text, metrics);
        notifications(&mut text, metrics);
        text.begin(&all::BUILD).count(&[("version", env!("CARGO_PKG_VERSION")), ("node", &self.line.node)], 1);
        let mut samples = text.begin(&all::EVENTS);
        for result in EventResult::ALL {
            samples.count(&[("result", result.as_str())], metrics.events[result as usize].get());
        }
        text.begin(&all::IN_FLIGHT).count(&[], status.in_flight as u64);
        text.begin(&all::SLOTS).count(&[], self.shares.concurrency as u64);
        text.begin(&all::UNWRITTEN).count(&[], status.unwritten as u64);
        text.begin(&all::RESTARTS).count(&[], status.restarts);
        store(&mut text, metrics, &kept, now);
        self.node(&mut text);
        self.breaker_counts(&mut text, &lanes, now);
        sources(&mut text, metrics);
        calls(&mut text, metrics);
        self.spans(&mut text);
        self.process(&mut text, &kept);
        text.finish()
    }

    fn durations(&self, text: &mut Text, kept: &Kept) {
        let mut samples = text.begin(&all::DURATION);
        for (outcome, spread) in OUTCOMES.iter().zip(&self.line.metrics.durations) {
            samples.spread(&[("status", outcome.as_str())], &spread.read());
        }
        let Some(earliest) = kept.moments.front() else { return };
        let lately = self.lengths().since(earliest);
        for (name, share) in PERCENTILES {
            if let Some(value) = lately.quantile(share) {
                samples.value(&[("percentile", name)], value);
            }
        }
    }

    fn breakers(&self, text: &mut Text, lanes: &[(String, Arc<LaneCounts>)], now: Timestamp) {
        let mut samples = text.begin(&all::BREAKER_STATE);
        for (id, counts) in lanes {
            samples.count(&[("webhook_id", id), ("state", counts.breaker(now).as_str())], 1);
        }
        let mut samples = text.begin(&all::TRANSITIONS);
        for (from, to, reason, count) in self.line.metrics.transitions.all() {
            samples.count(&[("from_state", from.as_str()), ("to_state", to.as_str()), ("reason", reason)], count);
        }
        let (mut samples, windows) = (text.begin(&all::REDIS_FALLBACK), &self.line.ports.breaker_windows);
        if windows.are_kept() {
            let is_away = windows.are_away();
            lanes.iter().for_each(|(id, _)| samples.flag(&[("webhook_id", id)], is_away));
        }
    }

    fn breaker_counts(&self, text: &mut Text, lanes: &[(String, Arc<LaneCounts>)], now: Timestamp) {
        let mut samples = text.begin(&all::BREAKERS);
        for state in STATES {
            let count = lanes.iter().filter(|(_, counts)| counts.breaker(now) == state).count();
            samples.count(&[("state", state.as_str())], count as u64);
        }
    }

    fn node(&self, text: &mut Text) {
        let (line, lease) = (&self.line, &self.line.held_lease);
        let spool = line.ports.spool.as_ref().map(|spool| spool.status());
        for (family, value) in [
            (&all::SPOOL_EVENTS, spool.map(|spool| spool.events)),
            (&all::SPOOL_BYTES, spool.map(|spool| spool.bytes)),
            (&all::SPOOL_BYTES_MAX, spool.map(|spool| spool.bytes_max)),
        ] {
            text.begin(family).count(&[], value.unwrap_or_default());
        }
        text.begin(&all::STALLED).count(&[], line.backlog.stalled_count() as u64);
        let held = lease.state().held;
        text.begin(&all::SHARDS).count(&[], held.shards.len().into());
        let mut samples = text.begin(&all::DUTIES);
        held.duties.iter().for_each(|duty| samples.count(&[("duty", duty.as_str())], 1));
        text.begin(&all::LEASE).flag(&[], lease.is_trusted());
        text.begin(&all::CLOCK_SKEW).value(&[], lease.clock_skew().as_secs_f64());
        text.begin(&all::REDIS_AWAY).flag(&[], line.ports.breaker_windows.are_away());
        text.begin(&all::AMQP_AWAY).flag(&[], line.ports.remote_hints.is_away());
    }

    fn spans(&self, text: &mut Text) {
        let mut samples = text.begin(&all::SPANS);
        if let Some(spans) = &self.line.ports.spans {
            let counts = spans.counts();
            samples.count(&[("result", "exported")], counts.exported);
            samples.count(&[("result", "dropped")], counts.dropped);
        }
    }

    fn process(&self, text: &mut Text, kept: &Kept) {
        text.begin(&all::CONNECTIONS).count(&[], self.admission.connection_count() as u64);
        text.begin(&all::CONNECTIONS_MAX).count(&[], self.shares.connections as u64);
        let process = &kept.process;
        let whole = |value: Option<u64>| value.map(|value| value as f64);
        // Some systems know no limit: what is said of it is then the largest number.
        let limit = Some(self.shares.limit as f64);
        for (family, value) in [
            (&all::CPU, process.cpu_secs),
            (&all::OPEN_FILES, whole(process.open_files)),
            (&all::OPEN_FILES_MAX, limit),
            (&all::RESIDENT, whole(process.resident_bytes)),
            (&all::VIRTUAL, whole(process.virtual_bytes)),
            (&all::STARTED, Some(self.started_at)),
        ] {
            let mut samples = text.begin(family);
            value.into_iter().for_each(|value| samples.value(&[], value));
        }
    }
}

fn attempts(text: &mut Text, metrics: &Metrics) {
    let mut samples = text.begin(&all::DELIVERIES);
    let mut write = |tenant: &str, event_type: &str, counts: &OutcomeCounts| {
        for (status, category, count) in counts.all() {
            let category = category.map_or("", |category| category.as_str());
            let labels = [("status", status.as_str()), ("event_type", event_type), ("failure_category", category), ("tenant_id", tenant)];
            samples.count(&labels, count);
        }
    };
    for (organization, event_type, counts) in metrics.attempts.all() {
        write(&organization.to_string(), event_type.as_str(), &counts);
    }
    write(OTHER, OTHER, metrics.attempts.other());
}

fn by_priority(text: &mut Text, family: &'static super::text::Family, counts: Option<[u64; 3]>) {
    let mut samples = text.begin(family);
    for (priority, count) in Priority::ALL.iter().zip(counts.into_iter().flatten()) {
        samples.count(&[("priority", priority.as_str())], count);
    }
}

/// One number of each lane in which it is not zero.
fn of_lanes(
    text: &mut Text,
    family: &'static super::text::Family,
    label: &str,
    metrics: &Metrics,
    lanes: &[(String, Arc<LaneCounts>)],
    count: impl Fn(&LaneCounts) -> u64,
) {
    let mut samples = text.begin(family);
    let known = lanes.iter().map(|(id, counts)| (id.as_str(), &**counts));
    for (id, counts) in known.chain([(OTHER, &**metrics.lanes.other())]) {
        let count = count(counts);
        if count > 0 {
            samples.count(&[(label, id)], count);
        }
    }
}

/// Versions of one schedule are shown as one.
fn schedules(text: &mut Text, metrics: &Metrics) {
    let mut sums: std::collections::BTreeMap<(String, &str, &str, usize), u64> = std::collections::BTreeMap::new();
    let (known, other) = (metrics.schedules.all(), metrics.schedules.other());
    let mut add = |tenant: &str, name, counts| {
        let counts: &ScheduleCounts = counts;
        for (status, number, count) in counts.all() {
            *sums.entry((tenant.to_owned(), name, status.as_str(), number)).or_default() += count;
        }
    };
    for ((organization, _), counts) in &known {
        let organization: &OrganizationId = organization;
        add(&organization.to_string(), &counts.name, counts);
    }
    add(OTHER, OTHER, other);
    let mut samples = text.begin(&all::RETRY_ATTEMPTS);
    for ((tenant, name, outcome, number), count) in &sums {
        let number = number.to_string();
        samples.count(&[("tenant_id", tenant), ("retry_schedule", name), ("outcome", outcome), ("attempt", &number)], *count);
    }
}

fn notifications(text: &mut Text, metrics: &Metrics) {
    let mut samples = text.begin(&all::NOTIFICATIONS);
    for (event_type, count) in metrics.notifications.all() {
        samples.count(&[("type", event_type.as_str())], count.get());
    }
    let other = metrics.notifications.other().get();
    if other > 0 {
        samples.count(&[("type", OTHER)], other);
    }
}

fn store(text: &mut Text, metrics: &Metrics, kept: &Kept, now: Timestamp) {
    let measurements = kept.measurements.as_ref();
    by_priority(text, &all::DUE, measurements.map(|(_, measurements)| measurements.queues.due));
    let mut samples = text.begin(&all::OLDEST_DUE);
    if let Some((_, measurements)) = measurements {
        let waits_for = measurements.queues.oldest_due_at.map_or(0.0, |due_at| now.since(due_at).as_secs_f64());
        samples.value(&[], waits_for);
    }
    let mut samples = text.begin(&all::COMMIT);
    samples.spread(&[("write", "publish")], &metrics.publish_commits.read());
    samples.spread(&[("write", "settle")], &metrics.settle_commits.read());
    text.begin(&all::STORE_AVAILABLE).flag(&[], kept.store_available);
    let mut samples = text.begin(&all::MEASUREMENTS_AGE);
    if let Some((at, _)) = measurements {
        samples.value(&[], Instant::now().duration_since(*at).as_secs_f64());
    }
}

fn sources(text: &mut Text, metrics: &Metrics) {
    let (known, other) = (metrics.sources.all(), metrics.sources.other());
    let known = known.iter().map(|(id, counts)| (id.to_string(), counts));
    let sources: Vec<_> = known.chain([(OTHER.to_owned(), other)]).map(|(id, counts)| (id, counts.kind(), counts)).collect();
    let mut samples = text.begin(&all::SOURCE_REQUESTS);
    for (id, _, counts) in &sources {
        let rejected = counts.rejected();
        let taken = [("accepted", counts.accepted.get()), ("handshake", counts.handshakes.get())];
        for (result, count) in taken.into_iter().filter(|(_, count)| *count > 0) {
            samples.count(&[("source_id", id), ("result", result), ("reason", "")], count);
        }
        for (reason, count) in &rejected {
            samples.count(&[("source_id", id), ("result", "rejected"), ("reason", reason)], *count);
        }
    }
    let mut samples = text.begin(&all::SOURCE_EVENTS);
    for (id, kind, counts) in &sources {
        for what in SourceEvents::ALL.into_iter().filter(|what| counts.events(*what) > 0) {
            samples.count(&[("source_id", id), ("kind", kind), ("result", what.as_str())], counts.events(what));
        }
    }
    let mut samples = text.begin(&all::SOURCE_LATENCY);
    for (id, kind, counts) in &sources {
        let latency = counts.latency.read();
        if latency.total() > 0 {
            samples.spread(&[("source_id", id), ("kind", kind)], &latency);
        }
    }
}

fn calls(text: &mut Text, metrics: &Metrics) {
    let answered = |what: AnswerCount| metrics.answers[what as usize].get();
    let mut samples = text.begin(&all::CALLS);
    for source in AnswerCount::SOURCES {
        samples.count(&[("source", source.as_str())], answered(source));
    }
    text.begin(&all::FALLBACKS).count(&[], answered(AnswerCount::Fallback));
    text.begin(&all::FAILED_OPEN).count(&[], answered(AnswerCount::FailedOpen));
    text.begin(&all::LATE_ANSWERS).count(&[], answered(AnswerCount::Late));
    let mut samples = text.begin(&all::SHADOWS);
    samples.count(&[("result", "same")], answered(AnswerCount::ShadowSame));
    samples.count(&[("result", "different")], answered(AnswerCount::ShadowDifferent));
}
