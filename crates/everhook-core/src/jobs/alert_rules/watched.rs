//! What is watched, in memory: the last minutes of every lane and source in which anything happened.
//!
//! Filled from the store when it is empty, then kept up to date by reading the newest minutes again, into which tallies may still have come.

use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::{
    ids::{ApplicationId, LaneId, OrganizationId, SourceId},
    line::{
        Line,
        alert_subject::{Subject, timeout_of},
    },
    model::AlertMetric,
    policy::alerts::{
        Measured,
        windows::{LaneWindow, SourceWindow, first_kept, first_kept_of_sources, minute_number},
    },
    ports::{SignalPage, StoreError, WatchedLane},
    time::Timestamp,
};

/// How many rows are read at once.
pub const PAGE: u32 = 2_000;

/// How many minutes before the newest are read again: nodes add what they counted once a second, and later while the store is away.
const MINUTES_AGAIN: u32 = 2;

/// How many minutes of lanes and sources are kept in memory at the most, about 400 MB. Past it, lanes and sources that are not known yet are not watched.
const MINUTES_MAX: usize = 10_000_000;

/// How long the timeout of a lane is believed, and which lanes are so slow that it may matter: no timeout is shorter than a tenth of a second.
const TIMEOUT_GOOD_FOR: Duration = Duration::from_secs(300);
const SLOW_FROM: Duration = Duration::from_millis(10);

/// Over how long a channel is looked at, and how few of its attempts may succeed, in percent, before the log says that it does not work.
const CHANNEL_WINDOW: Duration = Duration::from_secs(3_600);
const CHANNEL_SUCCESS_MIN: f64 = 50.0;

/// A lane with its last hour.
pub struct LaneHour {
    pub lane: WatchedLane,
    pub organization: OrganizationId,
    pub application: ApplicationId,
    window: LaneWindow,
    timeout: Option<(Duration, Timestamp)>,
}

impl LaneHour {
    /// What a rule compares.
    pub fn measure(&self, metric: AlertMetric, window: Duration, now: Timestamp) -> Measured {
        self.window.measure(metric, window, self.timeout.map(|(timeout, _)| timeout), now)
    }
}

/// A source with its last day.
pub struct SourceDay {
    pub organization: OrganizationId,
    pub application: ApplicationId,
    pub window: SourceWindow,
}

/// Everything in which something happened lately.
#[derive(Default)]
pub struct Watched {
    pub lanes: FxHashMap<LaneId, LaneHour>,
    pub sources: FxHashMap<SourceId, SourceDay>,
    /// The last minute that was read; `None` before the first read.
    read_until: Option<u32>,
    minutes: usize,
}

impl Watched {
    /// Reads what is new, and forgets what is old.
    pub async fn refresh(&mut self, line: &Line, now: Timestamp) -> Result<(), StoreError> {
        let again = self.read_until.map_or(0, |minute| minute.saturating_sub(MINUTES_AGAIN));
        self.read_lanes(line, begin(again.max(first_kept(now)))).await?;
        self.read_sources(line, begin(again.max(first_kept_of_sources(now)))).await?;
        self.read_until = Some(minute_number(now));
        self.lanes.retain(|_, lane| lane.window.forget_old(now));
        self.sources.retain(|_, source| source.window.forget_old(now));
        let lanes: usize = self.lanes.values().map(|lane| lane.window.minutes()).sum();
        self.minutes = lanes + self.sources.values().map(|source| source.window.minutes()).sum::<usize>();
        self.refresh_timeouts(line, now).await?;
        self.log_channels(line, now);
        Ok(())
    }

    async fn read_lanes(&mut self, line: &Line, since: Timestamp) -> Result<(), StoreError> {
        let mut place = None;
        loop {
            let SignalPage { rows, next } = line.ports.alert_signals.lane_minutes(since, place, PAGE).await?;
            for row in rows {
                if !self.lanes.contains_key(&row.lane_id) && self.is_full(line) {
                    continue;
                }
                self.minutes += 1;
                let lane = self.lanes.entry(row.lane_id).or_insert_with(|| LaneHour {
                    lane: row.lane,
                    organization: row.organization,
                    application: row.application,
                    window: LaneWindow::default(),
                    timeout: None,
                });
                lane.window.put(minute_number(row.minute), &row.statistics);
            }
            if next.is_none() {
                return Ok(());
            }
            place = next;
        }
    }

    async fn read_sources(&mut self, line: &Line, since: Timestamp) -> Result<(), StoreError> {
        let mut place = None;
        loop {
            let SignalPage { rows, next } = line.ports.alert_signals.source_minutes(since, place, PAGE).await?;
            for row in rows {
                if !self.sources.contains_key(&row.tally.source) && self.is_full(line) {
                    continue;
                }
                self.minutes += 1;
                let source = self.sources.entry(row.tally.source).or_insert_with(|| SourceDay {
                    organization: row.organization,
                    application: row.application,
                    window: SourceWindow::default(),
                });
                source.window.put(minute_number(row.tally.minute), &row.tally.statistics);
            }
            if next.is_none() {
                return Ok(());
            }
            place = next;
        }
    }

    fn is_full(&self, line: &Line) -> bool {
        let is_full = self.minutes >= MINUTES_MAX;
        if is_full && line.repeated_failures.failed("watching more lanes", line.ports.clock.uptime()) {
            tracing::error!(
                "more lanes are active than alert rules can watch; lanes that became active last have no alerts on their statistics"
            );
        }
        is_full
    }

    /// Looks up the timeouts of lanes that may be close to theirs.
    async fn refresh_timeouts(&mut self, line: &Line, now: Timestamp) -> Result<(), StoreError> {
        for (id, lane) in &mut self.lanes {
            let Some(scope) = lane.lane.scope().filter(|_| lane.lane != WatchedLane::Application) else { continue };
            let is_known = lane.timeout.is_some_and(|(_, read_at)| now.since(read_at) < TIMEOUT_GOOD_FOR);
            let window = AlertMetric::P95OfTimeout.window_max();
            if is_known || lane.window.quantile(0.95, window, now).is_none_or(|p95| p95 < SLOW_FROM) {
                continue;
            }
            let subject = Subject { scope, target: *id.as_uuid(), organization: lane.organization, application: Some(lane.application) };
            lane.timeout = timeout_of(line, &subject).await?.map(|timeout| (timeout, now));
        }
        Ok(())
    }

    /// The failures of channels are no alerts: those would have to go through them.
    fn log_channels(&self, line: &Line, now: Timestamp) {
        let fails = |lane: &&LaneHour| {
            let rate = lane.measure(AlertMetric::SuccessRate, CHANNEL_WINDOW, now);
            lane.lane == WatchedLane::Channel && matches!(rate, Measured::Value(rate) if rate < CHANNEL_SUCCESS_MIN)
        };
        let channels = self.lanes.values().filter(fails).count();
        if channels > 0 && line.repeated_failures.failed("delivering notifications", line.ports.clock.uptime()) {
            tracing::warn!(
                channels,
                "most notifications of the last hour could not be delivered through {channels} channels; they are retried"
            );
        }
    }
}

fn begin(minute: u32) -> Timestamp {
    Timestamp::from_secs(i64::from(minute) * 60)
}
