//! How a source does: what came in, what became of it, and what waits. Read by the API; it changes nothing.

use std::time::Duration;

use crate::{
    ids::LaneId,
    line::Line,
    manage::endpoints::BACKLOG_COUNT_MAX,
    model::{Source, SourceStatistics, SourceTally},
    ports::{StoreError, WaitingBacklog},
    time::Timestamp,
};

const MINUTE: Duration = Duration::from_secs(60);

/// The lengths that steps of a series may have.
const STEPS: [Duration; 4] = [MINUTE, Duration::from_secs(15 * 60), Duration::from_secs(3_600), Duration::from_secs(6 * 3_600)];

/// How many steps a series has, about: what a plot shows.
const SERIES_MAX: u32 = 200;

/// How a source did in a time.
#[derive(Clone, Debug)]
pub struct SourceReport {
    /// Everything together.
    pub all: SourceStatistics,
    /// How long a step of the series is.
    pub step: Duration,
    /// The same step by step, the oldest first. Steps in which nothing happened are absent.
    pub series: Vec<SourceTally>,
    /// What waits for the processor, with whether more waits than was counted; `None` if the source has none.
    pub backlog: Option<(WaitingBacklog, bool)>,
    /// How many events the processor handles now; `None` if the source has none, or another node owns its lane.
    pub in_flight: Option<u32>,
}

/// Says how a source did from one instant until before another.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub async fn statistics(line: &Line, source: &Source, from: Timestamp, to: Timestamp) -> Result<SourceReport, StoreError> {
    let step = step_of(to.since(from));
    let series = line.ports.statistics.source_statistics(source.id, from, to, step).await?;
    let mut all = SourceStatistics::default();
    series.iter().for_each(|step| all.merge(&step.statistics));
    let (backlog, in_flight) = match source.processor {
        Some(_) => (Some(backlog(line, source.id.into()).await?), in_flight(line, source.id.into()).await),
        None => (None, None),
    };
    Ok(SourceReport { all, step, series, backlog, in_flight })
}

/// As the owner of the lane knows it. It keeps nothing in memory of those in which nothing happens.
async fn in_flight(line: &Line, lane: LaneId) -> Option<u32> {
    match line.lanes.report(lane).await {
        Some(report) => Some(report.in_flight),
        None => line.held_lease.holds_lane(lane).then_some(0),
    }
}

async fn backlog(line: &Line, lane: LaneId) -> Result<(WaitingBacklog, bool), StoreError> {
    let mut backlog = line.ports.delivery_control.waiting_backlog(lane, BACKLOG_COUNT_MAX + 1).await?;
    let is_capped = backlog.count > BACKLOG_COUNT_MAX;
    backlog.count = backlog.count.min(BACKLOG_COUNT_MAX);
    backlog.parked = backlog.parked.min(backlog.count);
    Ok((backlog, is_capped))
}

/// The shortest step of which a time has few enough.
fn step_of(length: Duration) -> Duration {
    let [.., longest] = STEPS;
    STEPS.into_iter().find(|step| length <= *step * SERIES_MAX).unwrap_or(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_as_fine_as_a_plot_can_show() {
        let hours = |hours: u64| Duration::from_secs(hours * 3_600);
        for (length, step_minutes) in [(hours(1), 1), (hours(24), 15), (hours(7 * 24), 60), (hours(31 * 24), 360)] {
            assert_eq!(step_of(length), MINUTE * step_minutes, "{length:?}");
        }
    }
}
