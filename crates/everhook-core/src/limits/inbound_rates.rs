//! How many requests a source takes in a minute: from one address, and about one user of the provider. Counted by each node.

use std::{
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
};

use super::bucket_table::BucketTable;
use crate::{ids::SourceId, model::RateLimit, time::Timestamp};

/// The part of an IPv6 address that is one client's: whoever has one address has all of its /64.
const IPV6_CLIENT_BITS: u128 = !0 << 64;

/// So many items of a request that proves nothing count as one request more: whoever may send a thousand requests may not send ten million items.
const ITEMS_A_REQUEST: usize = 100;

/// A bucket for each address and each user that has used some of it lately. On an unsigned source anybody can invent users, and whoever has many addresses
/// has many buckets: there is a bound, and past it those for whom there is no room count together.
#[derive(Default)]
pub struct InboundRates {
    addresses: Mutex<BucketTable<IpAddr>>,
    users: Mutex<BucketTable<Arc<str>>>,
}

impl InboundRates {
    /// Takes one request of an address.
    ///
    /// # Errors
    /// When there is one again.
    pub fn take_address(&self, source: SourceId, address: IpAddr, per_minute: NonZeroU32, now: Timestamp) -> Result<(), Timestamp> {
        take(&self.addresses, (source, client_of(address)), 1, per_minute, now)
    }

    /// Takes what the items of a request that proves nothing count beside the request itself.
    ///
    /// # Errors
    /// When there is as much again.
    pub fn take_unproven_items(
        &self,
        source: SourceId,
        address: IpAddr,
        items: usize,
        per_minute: NonZeroU32,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        match u32::try_from(items / ITEMS_A_REQUEST).unwrap_or(u32::MAX) {
            0 => Ok(()),
            more => take(&self.addresses, (source, client_of(address)), more, per_minute, now),
        }
    }

    /// Takes one item about a user.
    ///
    /// # Errors
    /// When there is one again.
    pub fn take_user(&self, source: SourceId, user: &str, per_minute: NonZeroU32, now: Timestamp) -> Result<(), Timestamp> {
        take(&self.users, (source, user.into()), 1, per_minute, now)
    }
}

fn take<K: Clone + Eq + Hash>(
    buckets: &Mutex<BucketTable<K>>,
    key: (SourceId, K),
    tokens: u32,
    per_minute: NonZeroU32,
    now: Timestamp,
) -> Result<(), Timestamp> {
    // All of a minute may come at once: providers send what has gathered.
    let limit = RateLimit::per_minute(per_minute, Some(per_minute));
    let mut buckets = buckets.lock().unwrap_or_else(PoisonError::into_inner);
    buckets.bucket(key, limit, now).try_take_many(tokens, now)
}

/// The addresses that count as one.
fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & IPV6_CLIENT_BITS)),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::{super::bucket_table::BUCKETS_MAX, *};

    #[test]
    fn each_source_counts_each_address_and_the_whole_of_a_64() {
        let rates = InboundRates::default();
        let [one, other] = [1, 2].map(|n| SourceId::from_uuid(Uuid::from_u128(n)));
        let now = Timestamp::from_secs(1_000);
        let take = |source, address: &str| rates.take_address(source, address.parse().unwrap(), NonZeroU32::MIN, now).is_ok();
        for (source, address, is_taken) in [
            (one, "192.0.2.1", true),
            (one, "192.0.2.1", false),
            (one, "::ffff:192.0.2.1", false),
            (one, "192.0.2.2", true),
            (other, "192.0.2.1", true),
            (one, "2001:db8::1", true),
            (one, "2001:db8::ffff:1", false),
            (one, "2001:db8:0:1::1", true),
        ] {
            assert_eq!(take(source, address), is_taken, "{address}");
        }
    }

    #[test]
    fn invented_users_neither_fill_the_memory_nor_reset_anybodys_count() {
        let rates = InboundRates::default();
        let [attacked, other] = [1, 2].map(|n| SourceId::from_uuid(Uuid::from_u128(n)));
        let (now, two) = (Timestamp::from_secs(1_000), NonZeroU32::new(2).unwrap());
        let take = |source, user: &str, now| rates.take_user(source, user, two, now).is_ok();
        let busy = |n: usize| format!("busy {n}");
        // Given users who have had all that they may, at the source itself and at another.
        for (source, n) in [attacked, other].into_iter().flat_map(|source| (0..500).map(move |n| (source, n))) {
            assert_eq!([take(source, &busy(n), now), take(source, &busy(n), now), take(source, &busy(n), now)], [true, true, false]);
        }
        // When others are invented that take as much.
        for user in 0..3 * BUCKETS_MAX {
            take(attacked, &user.to_string(), now);
            take(attacked, &user.to_string(), now);
        }
        // Then none of the first may have more.
        for (source, n) in [attacked, other].into_iter().flat_map(|source| (0..500).map(move |n| (source, n))) {
            assert!(!take(source, &busy(n), now), "{} at {source}", busy(n));
        }
        assert!(rates.users.lock().unwrap().len() <= BUCKETS_MAX);
        // Those who come to the attacked source now count together, and at the other each has its own count.
        assert_eq!([take(attacked, "new", now), take(attacked, "newer", now)], [false, false]);
        for user in ["new", "newer"] {
            assert_eq!([take(other, user, now), take(other, user, now), take(other, user, now)], [true, true, false]);
        }
        // A little more than a minute later everybody has what they may again.
        let later = now + Duration::from_secs(61);
        for user in ["new", "newer"] {
            assert_eq!([take(attacked, user, later), take(attacked, user, later), take(attacked, user, later)], [true, true, false]);
        }
    }

    #[test]
    fn those_who_are_idle_make_room_for_others_a_few_at_a_time() {
        let rates = InboundRates::default();
        let (source, begin) = (SourceId::from_uuid(Uuid::from_u128(1)), Timestamp::from_secs(1_000));
        let limit = NonZeroU32::new(60).unwrap();
        // A user a millisecond, for minutes: each is idle again a second later.
        let mut most = 0;
        for n in 0..300_000_u64 {
            let now = begin + Duration::from_millis(n);
            assert!(rates.take_user(source, &n.to_string(), limit, now).is_ok());
            if n % 1_000 == 0 {
                most = most.max(rates.users.lock().unwrap().len());
            }
        }
        assert!(most < 3_000, "{most} buckets for 1,000 users who are not idle");
    }

    #[test]
    fn many_sources_that_are_attacked_leave_room_for_another() {
        let rates = InboundRates::default();
        let source = |n: u128| SourceId::from_uuid(Uuid::from_u128(n));
        let now = Timestamp::from_secs(1_000);
        let take = |n, user: &str| rates.take_user(source(n), user, NonZeroU32::MIN, now).is_ok();
        for user in 0..60_000 {
            (0..4).for_each(|n| _ = take(n, &user.to_string()));
        }
        let held = rates.users.lock().unwrap().len();
        assert!((79_000..=81_000).contains(&held), "{held} of {BUCKETS_MAX}");
        for user in 0..10_000 {
            assert_eq!([take(9, &user.to_string()), take(9, &user.to_string())], [true, false]);
        }
    }

    #[test]
    fn items_that_nobody_vouches_for_count_by_the_hundred() {
        let rates = InboundRates::default();
        let (source, now) = (SourceId::from_uuid(Uuid::from_u128(1)), Timestamp::from_secs(1_000));
        let address = "192.0.2.1".parse().unwrap();
        let take = |items| rates.take_unproven_items(source, address, items, NonZeroU32::new(150).unwrap(), now).is_ok();
        assert_eq!([take(99), take(10_000), take(10_000), take(5_000), take(100), take(99)], [true, true, false, true, false, true]);
    }

    #[test]
    fn each_user_has_its_own_count() {
        let rates = InboundRates::default();
        let (source, now) = (SourceId::from_uuid(Uuid::from_u128(1)), Timestamp::from_secs(1_000));
        let take = |user: &str| rates.take_user(source, user, NonZeroU32::MIN, now).is_ok();
        assert_eq!([take("a"), take("a"), take("b")], [true, false, true]);
    }
}
