//! How many requests a source takes in a minute: from one address, and about one user of the provider. Counted by each node.

use std::{
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
};

use rustc_hash::FxHashMap;

use crate::{ids::SourceId, model::RateLimit, policy::bucket::Bucket, pruned::Pruned, time::Timestamp};

/// The part of an IPv6 address that is one client's: whoever has one address has all of its /64.
const IPV6_CLIENT_BITS: u128 = !0 << 64;

/// How many buckets of each sort are kept, some 30 MB. On an unsigned source anybody can invent users, and whoever has many addresses has many buckets: past
/// it, half of the buckets of the source that has the most are dropped, those first of which the least was taken.
const BUCKETS_MAX: usize = 100_000;

/// So many items of a request that proves nothing count as one request more: whoever may send a thousand requests may not send ten million items.
const ITEMS_A_REQUEST: usize = 100;

/// A bucket for each address and each user that has used some of it lately. The others are forgotten, which changes nothing for them.
#[derive(Default)]
pub struct InboundRates {
    addresses: Mutex<Buckets<IpAddr>>,
    users: Mutex<Buckets<Box<str>>>,
}

type Buckets<K> = Pruned<(SourceId, K), Bucket>;

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

fn take<K: Eq + Hash>(
    buckets: &Mutex<Buckets<K>>,
    key: (SourceId, K),
    tokens: u32,
    per_minute: NonZeroU32,
    now: Timestamp,
) -> Result<(), Timestamp> {
    // All of a minute may come at once: providers send what has gathered.
    let limit = RateLimit::per_minute(per_minute, Some(per_minute));
    let mut buckets = buckets.lock().unwrap_or_else(PoisonError::into_inner);
    if buckets.len() >= BUCKETS_MAX && buckets.get_mut(&key).is_none() {
        make_room(&mut buckets, now);
    }
    let bucket = buckets.entry(key, |bucket| !bucket.is_full(now), || Bucket::new(limit, now));
    if bucket.limit() != limit {
        bucket.change(limit, now);
    }
    bucket.try_take_many(tokens, now)
}

/// Forgets what need not be remembered, and then half of what the source has that has the most: its sender pays for inventing users, and others do not.
fn make_room<K: Eq + Hash>(buckets: &mut Buckets<K>, now: Timestamp) {
    buckets.retain(|_, bucket| !bucket.is_full(now));
    if buckets.len() < BUCKETS_MAX / 2 {
        return;
    }
    let mut counts: FxHashMap<SourceId, usize> = FxHashMap::default();
    buckets.iter().for_each(|((source, _), _)| *counts.entry(*source).or_default() += 1);
    let Some((largest, _)) = counts.into_iter().max_by_key(|(source, count)| (*count, *source)) else { return };
    let mut full_at: Vec<Timestamp> =
        buckets.iter().filter(|((source, _), _)| *source == largest).map(|(_, bucket)| bucket.full_from(now)).collect();
    let half = full_at.len() / 2;
    let (_, median, _) = full_at.select_nth_unstable(half);
    let median = *median;
    // Of those that are alike, every second one goes.
    let mut is_kept = false;
    buckets.retain(|(source, _), bucket| {
        let at = bucket.full_from(now);
        if *source != largest || at > median {
            return true;
        }
        is_kept = at == median && !is_kept;
        is_kept
    });
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
    fn whoever_invents_users_resets_the_counts_of_nobody_else() {
        let rates = InboundRates::default();
        let [attacked, other] = [1, 2].map(|n| SourceId::from_uuid(Uuid::from_u128(n)));
        let (now, two) = (Timestamp::from_secs(1_000), NonZeroU32::new(2).unwrap());
        let take = |source, user: &str| rates.take_user(source, user, two, now).is_ok();
        // Given users who have had all that they may, at the source itself and at another.
        for source in [attacked, other] {
            assert_eq!([take(source, "busy"), take(source, "busy"), take(source, "busy")], [true, true, false]);
        }
        for user in 0..3 * BUCKETS_MAX {
            take(attacked, &user.to_string());
        }
        assert!(!take(other, "busy") && !take(attacked, "busy"));
        assert!(rates.users.lock().unwrap().len() <= BUCKETS_MAX);
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
