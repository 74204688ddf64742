//! Which lanes belong together: where several nodes share a store, each sends for the shards that it holds.

use crate::ids::LaneId;

/// A fixed part of all lanes. A lane's shard never changes, so that nodes agree on it without asking each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(u8);

impl Shard {
    /// How many there are: enough that a dozen nodes hold about the same, few enough that what a node holds is one word.
    pub const COUNT: u32 = 64;

    /// The shard of an endpoint's lane: the last bits of its id, which are random in every version of UUID that ids are made of.
    pub fn of(lane_id: LaneId) -> Self {
        let last = lane_id.as_uuid().as_bytes()[15];
        Self(last % Self::COUNT as u8)
    }

    /// The shard of this number; `None` if there is none.
    pub fn from_number(number: u32) -> Option<Self> {
        u8::try_from(number).ok().filter(|_| number < Self::COUNT).map(Self)
    }

    /// Its number, below [`Shard::COUNT`].
    pub const fn number(self) -> u32 {
        self.0 as u32
    }
}

/// Some of the shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShardSet(u64);

impl ShardSet {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self(u64::MAX);

    /// The set with one bit for each shard, the lowest for shard 0.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// One bit for each shard, the lowest for shard 0.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether the lane of this endpoint belongs to one of them.
    pub fn has_lane(self, lane_id: LaneId) -> bool {
        self.contains(Shard::of(lane_id))
    }

    /// Whether this one is among them.
    pub const fn contains(self, shard: Shard) -> bool {
        self.0 & (1 << shard.0) != 0
    }

    /// These and those.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These but not those.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Those of these that are among the others too.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// The first so many of them, by their numbers.
    #[must_use]
    pub fn first(self, count: u32) -> Self {
        self.iter().take(count as usize).collect()
    }

    /// How many there are.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Each of them, by their numbers.
    pub fn iter(self) -> impl Iterator<Item = Shard> {
        (0..Shard::COUNT as u8).map(Shard).filter(move |shard| self.contains(*shard))
    }
}

impl FromIterator<Shard> for ShardSet {
    fn from_iter<I: IntoIterator<Item = Shard>>(shards: I) -> Self {
        shards.into_iter().fold(Self::NONE, |set, shard| Self(set.0 | 1 << shard.0))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn lane_id(text: &str) -> LaneId {
        LaneId::from_uuid(Uuid::parse_str(text).unwrap())
    }

    #[test]
    fn a_lanes_shard_is_the_last_six_bits_of_its_endpoints_id_for_ever() {
        let table = [
            ("01920000-0000-7000-8000-000000000000", 0),
            ("01920000-0000-7000-8000-00000000003f", 63),
            ("01920000-0000-7000-8000-000000000040", 0),
            ("01920000-0000-7000-8000-0000000000a5", 37),
            ("01920000-0000-7000-8000-ffffffffffc1", 1),
        ];
        for (id, expected) in table {
            assert_eq!(Shard::of(lane_id(id)).number(), expected, "{id}");
        }
    }

    #[test]
    fn the_time_in_an_id_says_nothing_about_its_shard() {
        let [early, late] = ["01920000-0000-7000-8000-00000000002a", "01999999-9999-7999-bfff-ffffffffff2a"].map(lane_id);
        assert_eq!(Shard::of(early), Shard::of(late));
    }

    #[test]
    fn sets_of_shards_are_sets() {
        let set: ShardSet = [0, 5, 63].into_iter().filter_map(Shard::from_number).collect();
        assert_eq!((set.len(), set.bits()), (3, 1 | 1 << 5 | 1 << 63));
        assert_eq!(set.iter().map(Shard::number).collect::<Vec<_>>(), [0, 5, 63]);
        assert_eq!(set.first(2).iter().map(Shard::number).collect::<Vec<_>>(), [0, 5]);
        assert_eq!(set.without(set.first(1)).with(set.first(1)), set);
        assert_eq!(ShardSet::ALL.without(set).and(set), ShardSet::NONE);
        assert_eq!(ShardSet::ALL.len(), Shard::COUNT);
        assert_eq!(Shard::from_number(Shard::COUNT), None);
    }
}
