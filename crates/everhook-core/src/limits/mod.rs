//! What organizations may use: rates, budgets shared by nodes, limits of manual actions, and the work that schemas and filters may take.

pub mod budgets;
pub mod evaluations;
pub mod inbound_rates;
pub mod on_demand_limit;
pub mod rates;
pub mod retry_limit;
