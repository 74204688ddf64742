//! Lengths of time and sizes, as people write them: `90s`, `24h`, `256KiB`.

use std::time::Duration;

use everhook_core::time::millis;

/// The units of time, in milliseconds, the shortest first.
const TIMES: [(&str, u64); 6] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];

/// The units of size that are shown, in bytes, the smallest first.
const BINARY_SIZES: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// Those that are read, too.
const OTHER_SIZES: [(&str, u64); 4] = [("", 1), ("KB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)];

/// Reads a duration. A unit is needed, because a bare number is read differently by everyone.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "must be a number with a unit: ms, s, m, h, d or w (`90s`, `24h`)".to_owned();
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let (_, millis) = TIMES.into_iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(|| "is too long".to_owned())
}

/// Reads a size in bytes; a bare number is bytes.
pub(super) fn parse_size(text: &str) -> Result<usize, String> {
    let wrong = || "must be a number with a unit: B, KB, KiB, MB, MiB, GB or GiB (`256KiB`)".to_owned();
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let (_, bytes) = BINARY_SIZES.into_iter().chain(OTHER_SIZES).find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    number.checked_mul(bytes).and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| "is too large".to_owned())
}

/// Writes a duration in the longest unit that it is a whole number of.
pub(crate) fn show_duration(duration: Duration) -> String {
    show(millis(duration), &TIMES)
}

/// Writes a size in the largest unit that it is a whole number of.
pub(super) fn show_size(bytes: u64) -> String {
    show(bytes, &BINARY_SIZES)
}

fn show(number: u64, units: &[(&str, u64)]) -> String {
    let fits = units.iter().rev().find(|(_, unit)| number.is_multiple_of(*unit));
    fits.map_or_else(|| number.to_string(), |(name, unit)| format!("{}{name}", number / unit))
}

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    Some((text[..digits].parse().ok()?, text[digits..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        let table =
            [("90s", Some(90_000)), ("24h", Some(86_400_000)), ("5 d", Some(432_000_000)), ("250ms", Some(250)), ("1w", Some(604_800_000))];
        for (text, millis) in table {
            assert_eq!(parse_duration(text).ok().map(|duration| duration.as_millis()), millis, "{text}");
        }
        for bad in ["", "90", "s", "-1s", "1.5h", "1 year", "99999999999999999999s", "18446744073709551615w"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_shown_is_read_as_the_same() {
        for text in ["90s", "25h", "5d", "250ms", "1w", "1001ms"] {
            assert_eq!(show_duration(parse_duration(text).unwrap()), text);
        }
        for text in ["1000B", "1KiB", "1025KiB", "3MiB", "1024GiB"] {
            assert_eq!(show_size(parse_size(text).unwrap() as u64), text);
        }
    }

    #[test]
    fn sizes_are_bytes_unless_they_say_otherwise() {
        for (text, bytes) in [("1000", 1_000), ("256KiB", 262_144), ("16 MiB", 16_777_216), ("1MB", 1_000_000), ("0", 0)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "KiB", "1kib", "-1", "1.5MiB", "99999999999GiB"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
