//! Where the servers are that a test asks, by the variables that `scripts/services env` prints. For every test crate whose server may not be there.

use std::io::Write as _;

/// The address in this variable; `None`, said loudly, if it is not set.
pub fn address(variable: &str) -> Option<String> {
    let address = std::env::var(variable).ok();
    if address.is_none() {
        skipped(&format!("{variable} is not set; see scripts/services"));
    }
    address
}

/// Says that this test is skipped, past the test harness, which would swallow what a passing test prints.
pub fn skipped(why: &str) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {why}");
}
