//! Open files: as many as the system allows, and who may have how many of them. Clients, endpoints and the store must not take them from each other.

use everhook_core::gates::CALLS_IN_FLIGHT_MAX;

/// For the store's files, its readers, database connections, the spool, the operator's own broker, name servers and the process itself.
const OWN: usize = 96;
/// Connections from clients, however many files there may be: each costs some tens of kilobytes.
const CONNECTIONS_MAX: usize = 10_000;
/// Connections from clients beyond that, for health checks.
const RESERVE_MAX: usize = 64;
/// Unused connections to endpoints that are kept for the next request.
const KEPT_MAX: usize = 1_024;
/// What macOS allows at most (`OPEN_MAX`), where its hard limit says that there is none.
#[cfg(unix)]
const RAISED_AT_LEAST: u64 = 10_240;
/// How many requests at once have one file more than their connection: the sockets that ask name servers, for as many look-ups as there may be.
const LOOK_UPS: usize = 256;
/// Requests of health checks: as many as there may be, and half as many as requests of calls.
const HEALTH_CHECKS_MAX: usize = 256;
/// Requests to apps: those of calls, and of health checks.
const APPS_MAX: usize = CALLS_IN_FLIGHT_MAX as usize + HEALTH_CHECKS_MAX;
/// What is assumed where the system does not say.
#[cfg(not(unix))]
const ASSUMED: usize = 1_024;
/// Fewer files than this are shared out as if there were as many: then it is luck.
const LEAST: usize = 160;

/// Who may have how many open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// How many there are in all.
    pub limit: usize,
    /// Connections from clients.
    pub connections: usize,
    /// The same, for health checks alone.
    pub reserve: usize,
    /// Requests to endpoints under way.
    pub concurrency: usize,
    /// Requests of calls to apps under way. Health checks have half as many beside.
    pub calls: u32,
    /// Unused connections to endpoints that are kept.
    pub kept: usize,
}

impl Shares {
    /// Asks the system for as many open files as it allows, and shares them out: so many requests at once are asked for, beside so many connections to
    /// brokers. Says in the log what came of it.
    pub fn of_this_process(concurrency: usize, broker_connections: usize) -> Self {
        let (before, limit) = raise_limit();
        let shares = Self::divide(limit, concurrency, broker_connections);
        let Self { connections, reserve, concurrency: granted, calls, kept, .. } = shares;
        tracing::info!(
            open_files_before = before,
            open_files = limit,
            connections,
            reserve,
            concurrency = granted,
            calls,
            kept,
            "the limit on open files is {limit}: {connections} client connections, {granted} concurrent requests to endpoints, {calls} to apps",
        );
        if granted < concurrency {
            tracing::warn!(
                "`concurrency` is lowered from {concurrency} to {granted}, because the limit on open files is {limit}; raise the hard limit (`ulimit -Hn`, `LimitNOFILE=` of a service)"
            );
        }
        if limit < LEAST {
            tracing::warn!("the limit on open files is {limit}, but Everhook needs at least {LEAST}; raise it");
        }
        shares
    }

    /// Requests get what they need, but no more than half of what is left beside our own files and connections to brokers; clients get the rest. If there
    /// are few, a quarter is kept for brokers: it is unlikely that all of their connections are open; and a third of the requests are those to apps.
    fn divide(limit: usize, concurrency: usize, broker_connections: usize) -> Self {
        let free = limit.max(LEAST) - OWN;
        let free = free - broker_connections.min(free / 4);
        let asked = concurrency + APPS_MAX;
        let wanted = files_of(asked) + KEPT_MAX;
        let outgoing = wanted.min(free / 2);
        let granted = if outgoing == wanted { asked } else { requests_within(outgoing).min(asked) };
        let of_apps = (granted / 3).min(APPS_MAX);
        let concurrency = concurrency.min(granted - of_apps).max(1);
        let calls = (granted.saturating_sub(concurrency).min(APPS_MAX) * 2 / 3).max(1);
        let kept = outgoing.saturating_sub(files_of(granted)).min(KEPT_MAX);
        let incoming = free - outgoing;
        let reserve = (incoming / 4).min(RESERVE_MAX);
        let connections = (incoming - reserve).min(CONNECTIONS_MAX);
        Self { limit, connections, reserve, concurrency, calls: u32::try_from(calls).unwrap_or(CALLS_IN_FLIGHT_MAX), kept }
    }
}

/// What so many requests may have open.
fn files_of(requests: usize) -> usize {
    requests + requests.min(LOOK_UPS)
}

/// How many requests so many files are enough for, if for each an unused connection is kept as well.
fn requests_within(files: usize) -> usize {
    (files / 3).max(files.saturating_sub(LOOK_UPS) / 2)
}

/// Raises the limit to the highest that this process may set. Says what it was, and what it is.
#[cfg(unix)]
fn raise_limit() -> (usize, usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let files = |limit: Option<u64>| limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let before = getrlimit(Resource::Nofile);
    let raise_to = |current| setrlimit(Resource::Nofile, Rlimit { current, maximum: before.maximum });
    let raised = raise_to(before.maximum).or_else(|error| match fallback(before.current, before.maximum) {
        Some(lower) => raise_to(Some(lower)),
        None => Err(error),
    });
    if let Err(error) = raised {
        tracing::warn!(error = &error as &dyn std::error::Error, "cannot raise the limit on open files");
    }
    (files(before.current), files(getrlimit(Resource::Nofile).current))
}

/// What to ask for if the hard limit is more than the system grants; `None` if that is no more than there is.
#[cfg(unix)]
fn fallback(current: Option<u64>, maximum: Option<u64>) -> Option<u64> {
    let lower = maximum.map_or(RAISED_AT_LEAST, |maximum| maximum.min(RAISED_AT_LEAST));
    current.filter(|current| *current < lower).map(|_| lower)
}

#[cfg(not(unix))]
fn raise_limit() -> (usize, usize) {
    (ASSUMED, ASSUMED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_are_shared_out_and_never_more_than_there_are() {
        // (open files, asked concurrency, connections to brokers) → (connections, reserve, requests at once, of calls, kept)
        let table = [
            ((usize::MAX, 512, 0), (10_000, 64, 512, 512, 1_024)),
            ((20_000, 512, 0), (10_000, 64, 512, 512, 1_024)),
            ((4_096, 512, 0), (1_936, 64, 512, 240, 872)),
            ((4_096, 512, 128), (1_872, 64, 512, 218, 840)),
            ((1_024, 512, 0), (400, 64, 103, 34, 156)),
            ((256, 512, 0), (60, 20, 18, 5, 28)),
            ((256, 512, 128), (45, 15, 14, 4, 20)),
            ((256, 10, 0), (60, 20, 10, 10, 28)),
            ((20, 512, 0), (24, 8, 7, 2, 12)),
            ((20_000, 20_000, 0), (9_888, 64, 4_080, 512, 1_024)),
        ];
        for ((limit, asked, brokers), (connections, reserve, concurrency, calls, kept)) in table {
            let expected = Shares { limit, connections, reserve, concurrency, calls, kept };
            assert_eq!(Shares::divide(limit, asked, brokers), expected, "{limit} {asked} {brokers}");
            let requests = concurrency + calls as usize + (calls as usize).div_ceil(2).min(HEALTH_CHECKS_MAX);
            assert!(connections + reserve + files_of(requests) + kept + OWN <= limit.max(LEAST), "{limit} {asked} {brokers}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_hard_limit_that_is_not_granted_is_asked_for_again_with_less() {
        for (current, maximum, expected) in [
            (Some(256), None, Some(10_240)),
            (Some(256), Some(1 << 40), Some(10_240)),
            (Some(256), Some(4_096), Some(4_096)),
            (Some(20_000), None, None),
            (None, None, None),
        ] {
            assert_eq!(fallback(current, maximum), expected, "{current:?} {maximum:?}");
        }
    }
}
