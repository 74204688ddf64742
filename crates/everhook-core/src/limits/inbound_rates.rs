//! How many requests a source takes in a minute: from one address, and about one user of the provider. Counted by each node.

use std::{
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
};

use crate::{ids::SourceId, model::RateLimit, policy::bucket::Bucket, pruned::Pruned, time::Timestamp};

/// The part of an IPv6 address that is one client's: whoever has one address has all of its /64.
const IPV6_CLIENT_BITS: u128 = !0 << 64;

/// How many buckets of each sort are kept, some 30 MB. On an unsigned source anybody can invent users: past it all are dropped, and counted anew.
const BUCKETS_MAX: usize = 100_000;

/// A bucket for each address and each user that has used some of it lately. The others are forgotten, which changes nothing for them.
#[derive(Default)]
pub struct InboundRates {
    addresses: Mutex<Pruned<(SourceId, IpAddr), Bucket>>,
    users: Mutex<Pruned<(SourceId, Box<str>), Bucket>>,
}

impl InboundRates {
    /// Takes one request of an address.
    ///
    /// # Errors
    /// When there is one again.
    pub fn take_address(&self, source: SourceId, address: IpAddr, per_minute: NonZeroU32, now: Timestamp) -> Result<(), Timestamp> {
        take(&self.addresses, (source, client_of(address)), per_minute, now)
    }

    /// Takes one item about a user.
    ///
    /// # Errors
    /// When there is one again.
    pub fn take_user(&self, source: SourceId, user: &str, per_minute: NonZeroU32, now: Timestamp) -> Result<(), Timestamp> {
        take(&self.users, (source, user.into()), per_minute, now)
    }
}

fn take<K: Eq + Hash>(buckets: &Mutex<Pruned<K, Bucket>>, key: K, per_minute: NonZeroU32, now: Timestamp) -> Result<(), Timestamp> {
    // All of a minute may come at once: providers send what has gathered.
    let limit = RateLimit::per_minute(per_minute, Some(per_minute));
    let mut buckets = buckets.lock().unwrap_or_else(PoisonError::into_inner);
    if buckets.len() >= BUCKETS_MAX {
        *buckets = Pruned::default();
    }
    let bucket = buckets.entry(key, |bucket| !bucket.is_full(now), || Bucket::new(limit, now));
    if bucket.limit() != limit {
        bucket.change(limit, now);
    }
    bucket.try_take(now)
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
    use uuid::Uuid;

    use super::*;

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
    fn invented_users_do_not_fill_the_memory() {
        let rates = InboundRates::default();
        let (source, now) = (SourceId::from_uuid(Uuid::from_u128(1)), Timestamp::from_secs(1_000));
        for user in 0..2 * BUCKETS_MAX {
            rates.take_user(source, &user.to_string(), NonZeroU32::MIN, now).unwrap();
        }
        assert!(rates.users.lock().unwrap().len() <= BUCKETS_MAX);
    }

    #[test]
    fn each_user_has_its_own_count() {
        let rates = InboundRates::default();
        let (source, now) = (SourceId::from_uuid(Uuid::from_u128(1)), Timestamp::from_secs(1_000));
        let take = |user: &str| rates.take_user(source, user, NonZeroU32::MIN, now).is_ok();
        assert_eq!([take("a"), take("a"), take("b")], [true, false, true]);
    }
}
