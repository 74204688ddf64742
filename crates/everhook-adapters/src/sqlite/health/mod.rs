//! Health data: the ports `HealthConnections` and `HealthMetrics`.

mod connections;
mod metrics;
