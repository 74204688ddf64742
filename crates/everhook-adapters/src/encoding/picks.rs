//! The places that a draw picked, as both stores keep them: a JSON array of numbers.

/// Writes them.
pub(crate) fn write(picks: &[u32]) -> String {
    serde_json::to_string(picks).expect("numbers are JSON")
}

/// Reads them.
pub(crate) fn read(json: &str) -> Option<Vec<u32>> {
    serde_json::from_str(json).ok()
}
