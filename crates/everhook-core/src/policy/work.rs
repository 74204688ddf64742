//! How much computing the schemas and filters of a tenant may take, counted in units.
//!
//! A unit is about what one keyword of a schema or one condition of a filter costs at one part of the data: 10 to 20 ns on the machine of
//! `docs/decisions/0034-bounded-evaluation.md`. Work is counted before or while it is done, never timed: the same event is taken or refused on every machine.

/// What checking one event against its schema may take: about 20 ms at most.
pub const SCHEMA_UNITS_MAX: u64 = 1_000_000;

/// What evaluating all filters for one event may take: about 10 ms at most.
pub const FILTER_UNITS_MAX: u64 = 500_000;

/// What all events of one request may take together: four events at their worst, and hundreds of ordinary large ones.
pub const REQUEST_UNITS_MAX: u64 = 4_000_000;

/// What is done at once, on the thread that serves requests: about 100 µs. What takes more is moved to a thread of its own.
pub const INLINE_UNITS_MAX: u64 = 5_000;

/// The largest data that is parsed on the thread that serves requests, in bytes: also about 100 µs.
pub const INLINE_BYTES_MAX: usize = 32 * 1024;

/// The units that are left.
#[derive(Clone, Copy, Debug)]
pub struct WorkBudget {
    units: u64,
    left: u64,
}

/// There are fewer units left than something takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it exceeds the limit of work")]
pub struct BudgetExceeded;

impl WorkBudget {
    /// So many units.
    pub const fn new(units: u64) -> Self {
        Self { units, left: units }
    }

    /// Takes units for work that is about to be done.
    ///
    /// # Errors
    /// [`BudgetExceeded`] if there are not as many left: all that were left are gone then, too.
    pub fn take(&mut self, units: u64) -> Result<(), BudgetExceeded> {
        match self.left.checked_sub(units) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(BudgetExceeded)
            }
        }
    }

    /// How many units there were to begin with.
    pub const fn units(&self) -> u64 {
        self.units
    }

    /// How many units were taken.
    pub const fn spent(&self) -> u64 {
        self.units - self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_cannot_be_taken() {
        let mut budget = WorkBudget::new(10);
        assert_eq!(budget.take(4), Ok(()));
        assert_eq!((budget.spent(), budget.units()), (4, 10));
        assert_eq!(budget.take(7), Err(BudgetExceeded));
        assert_eq!((budget.spent(), budget.take(1)), (10, Err(BudgetExceeded)));
    }
}
