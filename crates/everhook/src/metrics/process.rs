//! What the system says of this process. Linux alone says it in files.

/// What is known of this process; `None` where the system does not say.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessMeasurements {
    /// Processor time, in seconds.
    pub cpu_secs: Option<f64>,
    /// Memory, in bytes.
    pub resident_bytes: Option<u64>,
    /// Address space, in bytes.
    pub virtual_bytes: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
}

/// How the kernel counts processor time for programs, whatever its own clock is.
#[cfg(target_os = "linux")]
const TICKS_A_SECOND: f64 = 100.0;

/// The places of user and system time in `stat`, after the command's name.
#[cfg(target_os = "linux")]
const USER_TIME: usize = 11;

impl ProcessMeasurements {
    /// Asks the system. It takes the longer the more files are open: not for an answer.
    #[cfg(target_os = "linux")]
    pub fn read() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let kilobytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().split(' ').next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
        };
        Self {
            cpu_secs: std::fs::read_to_string("/proc/self/stat").ok().and_then(|stat| cpu_secs(&stat)),
            resident_bytes: kilobytes("VmRSS:"),
            virtual_bytes: kilobytes("VmSize:"),
            open_files: std::fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as u64),
        }
    }

    /// Other systems do not say it in files.
    #[cfg(not(target_os = "linux"))]
    pub fn read() -> Self {
        Self::default()
    }
}

/// The command's name stands in parentheses and may contain anything.
#[cfg(target_os = "linux")]
fn cpu_secs(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(USER_TIME);
    let (user, system): (f64, f64) = (times.next()?.parse().ok()?, times.next()?.parse().ok()?);
    Some((user + system) / TICKS_A_SECOND)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_whatever_the_command_is_called() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 1000 0 0 0 150 50 0 0 20 0 3 0 12345 1000000 500 18446744073709551615";
        assert_eq!(cpu_secs(stat), Some(2.0));
        assert_eq!(cpu_secs("42 (a"), None);
    }

    #[test]
    fn the_system_says_what_this_process_has() {
        let measurements = ProcessMeasurements::read();
        assert!(measurements.open_files.is_some_and(|files| files >= 3), "{measurements:?}");
        assert!(measurements.resident_bytes.is_some_and(|bytes| bytes > 1 << 20), "{measurements:?}");
        assert!(measurements.resident_bytes <= measurements.virtual_bytes && measurements.cpu_secs.is_some(), "{measurements:?}");
    }
}
