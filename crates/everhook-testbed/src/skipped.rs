//! What a test could not check on this machine, said where somebody reads it: a test that passes is not heard, because its output is captured.

use std::{fs::OpenOptions, io::Write as _, path::Path};

/// The variable that names the file to which what was skipped is appended. `scripts/test` sets it and shows the file at its end.
const FILE: &str = "EVERHOOK_TEST_SKIPPED";

/// Says that the test, or a part of it, is skipped, and why: past the test harness, and in the file of those who asked for one.
///
/// # Panics
/// If the file cannot be written to: whoever asked for it would believe that nothing was skipped.
pub fn skipped(why: &str) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("{name}: {why}\n");
    let _ = write!(std::io::stderr(), "SKIPPED {line}");
    if let Some(file) = std::env::var_os(FILE) {
        append(Path::new(&file), &line);
    }
}

/// One write a line, so that lines of tests in other processes stay whole.
fn append(file: &Path, line: &str) {
    let opened = OpenOptions::new().create(true).append(true).open(file);
    let mut opened = opened.unwrap_or_else(|error| panic!("{FILE}: {}: {error}", file.display()));
    opened.write_all(line.as_bytes()).unwrap_or_else(|error| panic!("{FILE}: {}: {error}", file.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_appended() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("skipped");
        append(&file, "one: no root\n");
        append(&file, "two: no prlimit\n");
        assert_eq!(std::fs::read_to_string(&file).expect("the file"), "one: no root\ntwo: no prlimit\n");
    }
}
