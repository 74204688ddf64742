//! Deliveries that wait for something outside: an account that is not connected yet, the callback of a job.

use std::fmt;

use crate::time::Timestamp;

/// The longest name of what is waited for, in bytes.
pub const WAITS_FOR_BYTES_MAX: usize = 256;

/// What a parked delivery waits for, by a name that its provider knows, too: 1 to 256 bytes, none of them of a control character. It means something
/// within one organization.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WaitsFor(Box<str>);

impl WaitsFor {
    /// Checks the bounds.
    pub fn parse(text: &str) -> Option<Self> {
        let is_good = (1..=WAITS_FOR_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
        is_good.then(|| Self(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a delivery is parked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parking {
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// When that ends, if it has not come by then; `None`: it waits as long as it takes.
    pub expiry: Option<Expiry>,
}

/// The end of a parking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// When.
    pub at: Timestamp,
    /// What becomes of the delivery then.
    pub then: AfterExpiry,
}

/// What becomes of a delivery whose parking ended without what it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterExpiry {
    /// It has failed as if by a timeout: its schedule says whether it is tried again.
    Fails,
    /// It is given up.
    GivesUp,
    /// It is attempted: the time itself was what it waited for.
    TriesAgain,
}

impl AfterExpiry {
    const ALL: [Self; 3] = [Self::Fails, Self::GivesUp, Self::TriesAgain];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fails => "fails",
            Self::GivesUp => "gives_up",
            Self::TriesAgain => "tries_again",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|then| then.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_has_1_to_256_bytes_without_control_characters() {
        for good in ["a", "connection:strava:4711", &"k".repeat(256)] {
            assert_eq!(WaitsFor::parse(good).expect(good).as_str(), good);
        }
        for bad in ["", "a\nb", "nul\0", &"k".repeat(257)] {
            assert_eq!(WaitsFor::parse(bad), None, "{bad:?}");
        }
    }
}
