//! Open files: as many as the system allows, and who may have how many of them. Clients, endpoints and the store must not take them from each other.

/// For the store's files, its readers, database connections, the spool, brokers, name servers and the process itself.
const OWN: usize = 96;
/// Connections from clients, however many files there may be: each costs some tens of kilobytes.
const CONNECTIONS_MAX: usize = 10_000;
/// Connections from clients beyond that, for health checks.
const RESERVE_MAX: usize = 64;
/// Unused connections to endpoints that are kept for the next request.
const KEPT_MAX: usize = 1_024;
/// What one request may have open: its connection, or the sockets that ask name servers.
const PER_REQUEST: usize = 2;
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
    /// Unused connections to endpoints that are kept.
    pub kept: usize,
}

impl Shares {
    /// Asks the system for as many open files as it allows, and shares them out. Says in the log what came of it.
    pub fn of_this_process(concurrency: usize) -> Self {
        let (before, limit) = raise_limit();
        let shares = Self::divide(limit, concurrency);
        let Self { connections, reserve, concurrency: granted, kept, .. } = shares;
        tracing::info!(
            open_files_before = before,
            open_files = limit,
            connections,
            reserve,
            concurrency = granted,
            kept,
            "the system allows {limit} open files: {connections} connections from clients, {granted} requests at once",
        );
        if granted < concurrency {
            tracing::warn!(
                "at most {granted} requests are sent at once instead of {concurrency}, because the system allows only {limit} open files: \
                 raise the hard limit (`ulimit -Hn`, `LimitNOFILE=` of a service)"
            );
        }
        if limit < LEAST {
            tracing::warn!("the system allows only {limit} open files: {LEAST} are the least that Everhook can work with");
        }
        shares
    }

    /// Requests get what they need, but no more than half of what is left beside our own files; clients get the rest.
    fn divide(limit: usize, concurrency: usize) -> Self {
        let free = limit.max(LEAST) - OWN;
        let outgoing = (concurrency * PER_REQUEST + KEPT_MAX).min(free / 2);
        let granted = concurrency.min(outgoing / (PER_REQUEST + 1)).max(1);
        let kept = (outgoing - granted * PER_REQUEST).min(KEPT_MAX);
        let incoming = free - outgoing;
        let reserve = (incoming / 4).min(RESERVE_MAX);
        let connections = (incoming - reserve).min(CONNECTIONS_MAX);
        Self { limit, connections, reserve, concurrency: granted, kept }
    }
}

/// Raises the limit to the highest that this process may set. Says what it was, and what it is.
#[cfg(unix)]
fn raise_limit() -> (usize, usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let files = |limit: Option<u64>| limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let before = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
    if let Err(error) = raised {
        tracing::warn!(error = &error as &dyn std::error::Error, "the limit on open files could not be raised");
    }
    (files(before.current), files(getrlimit(Resource::Nofile).current))
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
        // (open files, asked concurrency) → (connections, reserve, requests at once, kept)
        let table = [
            ((usize::MAX, 512), (10_000, 64, 512, 1_024)),
            ((20_000, 512), (10_000, 64, 512, 1_024)),
            ((4_096, 512), (1_936, 64, 512, 976)),
            ((1_024, 512), (400, 64, 154, 156)),
            ((256, 512), (60, 20, 26, 28)),
            ((256, 10), (60, 20, 10, 60)),
            ((20, 512), (24, 8, 10, 12)),
            ((20_000, 20_000), (9_888, 64, 3_317, 1_024)),
        ];
        for ((limit, asked), (connections, reserve, concurrency, kept)) in table {
            assert_eq!(Shares::divide(limit, asked), Shares { limit, connections, reserve, concurrency, kept }, "{limit} {asked}");
            assert!(connections + reserve + concurrency * PER_REQUEST + kept + OWN <= limit.max(LEAST), "{limit} {asked}");
        }
    }
}
