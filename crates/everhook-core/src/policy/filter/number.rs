//! Numbers compared by what they mean, without rounding either of them first.

use std::cmp::Ordering;

use serde_json::Number;

/// Past it no integer that JSON gives us exactly (64 bits) lies.
const PAST_INTEGERS: f64 = 18_446_744_073_709_551_616.0;

/// The order of two numbers. Integers of 64 bits and doubles are compared exactly, also with each other.
pub(super) fn compare(left: &Number, right: &Number) -> Option<Ordering> {
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        (Some(left), None) => compare_mixed(left, right.as_f64()?),
        (None, Some(right)) => compare_mixed(right, left.as_f64()?).map(Ordering::reverse),
        (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn compare_mixed(integer: i128, double: f64) -> Option<Ordering> {
    if double >= PAST_INTEGERS {
        return Some(Ordering::Less);
    }
    if double <= -PAST_INTEGERS {
        return Some(Ordering::Greater);
    }
    // Exact: a double below 2^64 has a whole part that an i128 holds.
    let whole = double.trunc();
    let order = integer.cmp(&(whole as i128));
    if order == Ordering::Equal { 0.0.partial_cmp(&(double - whole)) } else { Some(order) }
}
