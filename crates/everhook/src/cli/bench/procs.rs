//! What processes cost, read from `/proc`, and on what file system a folder lies. Where there is no `/proc`, the answer is `None`.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// `USER_HZ`, the unit of the times in `/proc/<pid>/stat`: 100 on every Linux platform in use.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU seconds that a process has used so far, all its threads together.
pub fn cpu_seconds(pid: u32) -> Option<f64> {
    cpu_seconds_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn cpu_seconds_in(stat: &str) -> Option<f64> {
    // The name stands in parentheses and may hold blanks and parentheses itself: count from the last one.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

/// Resident memory of a process, in megabytes of 2^20 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Now.
    pub resident_mb: f64,
    /// The most it ever had.
    pub peak_mb: f64,
}

/// Resident memory of a process; the peak is the kernel's own high-water mark, not a sample.
pub fn memory(pid: u32) -> Option<Memory> {
    memory_in(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn memory_in(status: &str) -> Option<Memory> {
    let kilobytes = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_ascii_whitespace().nth(1)?.parse::<f64>().ok()
    };
    Some(Memory { resident_mb: kilobytes("VmRSS:")? / 1024.0, peak_mb: kilobytes("VmHWM:")? / 1024.0 })
}

/// The kind of file system that a folder lies on.
pub fn file_system_of(folder: &Path) -> Option<String> {
    let folder = fs::canonicalize(folder).ok()?;
    file_system_in(&fs::read_to_string("/proc/self/mounts").ok()?, &folder)
}

fn file_system_in(mounts: &str, folder: &Path) -> Option<String> {
    let mounted = mounts.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        Some((PathBuf::from(fields.next()?), fields.next()?))
    });
    // The longest mount point wins; of two at the same place, the later one hides the earlier.
    let covering = mounted.filter(|(point, _)| folder.starts_with(point));
    covering.max_by_key(|(point, _)| point.components().count()).map(|(_, kind)| kind.to_owned())
}

/// Whether a file system keeps its files in memory, so that a commit to it costs nothing and says nothing about a disk.
pub fn is_in_memory(file_system: &str) -> bool {
    matches!(file_system, "tmpfs" | "ramfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_user_plus_system_whatever_the_process_is_called() {
        let stat = "42 (a (strange) name) S 1 42 42 0 -1 4194560 1 0 0 0 250 50 7 7 20 0 4 0 100 1000 10";
        assert_eq!(cpu_seconds_in(stat), Some(3.0));
        assert_eq!(cpu_seconds_in("nonsense"), None);
    }

    #[test]
    fn memory_is_read_in_megabytes() {
        let status = "Name:\teverhook\nVmPeak:\t  999999 kB\nVmHWM:\t   20480 kB\nVmRSS:\t   10240 kB\n";
        assert_eq!(memory_in(status), Some(Memory { resident_mb: 10.0, peak_mb: 20.0 }));
    }

    #[test]
    fn the_deepest_mount_tells_the_file_system() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/vdb /tmp/disk xfs rw 0 0\n";
        for (folder, kind) in [("/home/me", "ext4"), ("/tmp/x", "tmpfs"), ("/tmp/disk/data", "xfs"), ("/tmpfoo", "ext4")] {
            assert_eq!(file_system_in(mounts, Path::new(folder)).as_deref(), Some(kind), "{folder}");
        }
    }
}
