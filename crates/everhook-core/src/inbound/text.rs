//! Small readers of the texts of a recipe: words, names of headers, lengths of time, sizes.

use std::time::Duration;

/// Splits at spaces, except within single quotes, which are removed. `None` where a quote is not closed.
pub(super) fn words(text: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quoted, mut began) = (Vec::new(), String::new(), false, false);
    for c in text.chars() {
        match c {
            '\'' => (quoted, began) = (!quoted, true),
            ' ' if !quoted => {
                if began {
                    words.push(std::mem::take(&mut word));
                }
                began = false;
            }
            c => {
                word.push(c);
                began = true;
            }
        }
    }
    if began {
        words.push(word);
    }
    (!quoted).then_some(words)
}

/// The name of a header in lower case. `None` where it is none.
pub(super) fn header_name(text: &str) -> Option<String> {
    /// Longer than every name in use.
    const NAME_BYTES_MAX: usize = 100;
    let spelled = (1..=NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    spelled.then(|| text.to_ascii_lowercase())
}

/// The name of a parameter of a query or a field of a form.
pub(super) fn parameter_name(text: &str) -> Option<String> {
    const NAME_BYTES_MAX: usize = 100;
    let spelled = (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    spelled.then(|| text.to_owned())
}

/// How old a timestamp may be at most, whatever a recipe says: the longest that a provider names is two days.
const TOLERANCE_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);

/// A length of time from one second to seven days: `90s`, `5m`, `48h`.
pub(super) fn tolerance(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return None,
    };
    checked_tolerance(Duration::from_secs(number(digits)?.checked_mul(seconds)?))
}

/// The same bounds for a length that was given as one.
pub(super) fn checked_tolerance(length: Duration) -> Option<Duration> {
    (Duration::from_secs(1)..=TOLERANCE_MAX).contains(&length).then_some(length)
}

/// A size in bytes: `3M`, `512K`, `1000`.
pub(super) fn size(text: &str) -> Option<usize> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'K' => (&text[..text.len() - 1], 1 << 10),
        _ => (text, 1),
    };
    usize::try_from(number(digits)?.checked_mul(factor)?).ok()
}

/// ASCII digits only, at most 18 of them: a sign, a blank or another script's digits are no number here.
pub(super) fn number(digits: &str) -> Option<u64> {
    const DIGITS_MAX: usize = 18;
    let spelled = (1..=DIGITS_MAX).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    spelled.then(|| digits.parse().ok()).flatten()
}

/// Hexadecimal digits of either case.
pub(super) fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// Lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 0xf)]));
    }
    out
}
