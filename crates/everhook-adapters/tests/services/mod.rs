//! Where the servers are that a test asks, by the variables that `scripts/services env` prints. For every test crate whose server may not be there.

#[path = "../../../everhook-testbed/src/skipped.rs"]
mod skipping;

pub use skipping::skipped;

/// The address in this variable; `None`, said loudly, if it is not set.
pub fn address(variable: &str) -> Option<String> {
    let address = std::env::var(variable).ok();
    if address.is_none() {
        skipped(&format!("{variable} is not set; see scripts/services"));
    }
    address
}
