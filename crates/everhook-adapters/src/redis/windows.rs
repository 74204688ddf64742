//! What closed breakers have counted, for the next owner of their lanes: the port `BreakerWindows`. A hash for each shard, a field for each endpoint.

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use everhook_core::{
    ids::LaneId,
    model::{KeptSlice, KeptWindow, Shard, ShardSet},
    ports::{BreakerWindows, LaneWindow, WINDOW_GOOD_FOR},
    time::Timestamp,
};
use uuid::Uuid;

use super::{Redis, micros, notes::Note};
use crate::system::system_time;

#[async_trait]
impl BreakerWindows for Redis {
    fn are_kept(&self) -> bool {
        true
    }

    fn are_away(&self) -> bool {
        self.is_away()
    }

    fn keep(&self, windows: Vec<LaneWindow>) {
        for LaneWindow { lane_id, window } in windows {
            let (key, field) = (self.windows_key(Shard::of(lane_id)), lane_id.to_string());
            self.notes.note(Note::Field { key, field, value: spell(&window), for_at_most: WINDOW_GOOD_FOR });
        }
    }

    async fn windows(&self, shards: ShardSet) -> Vec<LaneWindow> {
        let keys: Vec<String> = shards.iter().map(|shard| self.windows_key(shard)).collect();
        let mut pipeline = redis::pipe();
        keys.iter().for_each(|key| _ = pipeline.hgetall(key));
        let asked = self.link.ask(async |mut connection| pipeline.query_async::<Vec<HashMap<String, String>>>(&mut connection).await).await;
        let kept = keys.iter().zip(asked.unwrap_or_default());
        kept.flat_map(|(key, fields)| fields.into_iter().filter_map(|(field, value)| self.read_field(key, field, &value))).collect()
    }
}

impl Redis {
    fn windows_key(&self, shard: Shard) -> String {
        format!("{}windows:{}", self.link.prefix, shard.number())
    }

    /// What is not understood or too old is forgotten: the hash lives as long as any endpoint of its shard has something in it.
    fn read_field(&self, key: &str, field: String, value: &str) -> Option<LaneWindow> {
        let lane_id = Uuid::try_parse(&field).ok().map(LaneId::from_uuid);
        let window = read(value).filter(|window| system_time().since(window.at) < WINDOW_GOOD_FOR);
        match (lane_id, window) {
            (Some(lane_id), Some(window)) => Some(LaneWindow { lane_id, window }),
            _ => {
                self.notes.note(Note::Forget { key: key.to_owned(), field });
                None
            }
        }
    }
}

/// When, how long a slice is, and the slices: numbers, with commas inside of a slice.
fn spell(window: &KeptWindow) -> String {
    let mut text = format!("{} {}", window.at.as_micros(), micros(window.slice));
    for KeptSlice { number, since, successes, failures } in &window.slices {
        text.push_str(&format!(" {number},{},{successes},{failures}", since.as_micros()));
    }
    text
}

/// Reads what [`spell`] wrote, and nothing else.
fn read(text: &str) -> Option<KeptWindow> {
    let mut words = text.split(' ');
    let at = Timestamp::from_micros(words.next()?.parse().ok()?);
    let slice = Duration::from_micros(words.next()?.parse().ok()?);
    Some(KeptWindow { at, slice, slices: words.map(read_slice).collect::<Option<_>>()? })
}

fn read_slice(word: &str) -> Option<KeptSlice> {
    let mut numbers = word.split(',');
    let slice = KeptSlice {
        number: numbers.next()?.parse().ok()?,
        since: Timestamp::from_micros(numbers.next()?.parse().ok()?),
        successes: numbers.next()?.parse().ok()?,
        failures: numbers.next()?.parse().ok()?,
    };
    numbers.next().is_none().then_some(slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_read_as_it_was_spelled_and_noise_is_nothing() {
        let slice = |number, failures| KeptSlice { number, since: Timestamp::from_secs(number), successes: 7, failures };
        let window = KeptWindow {
            at: Timestamp::from_secs(1_700_000_000),
            slice: Duration::from_secs(1),
            slices: vec![slice(1_699_999_990, 0), slice(1_699_999_999, 3)],
        };
        assert_eq!(read(&spell(&window)), Some(window));
        for noise in ["", "1", "x 1", "1 -1", "1 1 2", "1 1 2,3,4,5,6", "1 1 2,3,-4,5"] {
            assert_eq!(read(noise), None, "{noise}");
        }
    }
}
