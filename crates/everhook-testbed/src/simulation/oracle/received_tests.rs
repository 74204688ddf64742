//! The rules about what providers push: each has a short log that breaks it.

use everhook_core::model::{DeathCause, LaneKind, Stage};
use uuid::Uuid;

use super::{
    tests::{Story, event, expect},
    *,
};
use crate::world::BEGINNING;

const FIRST: Summary = Summary { user: 1, day: 0, steps: 10 };
const CORRECTED: Summary = Summary { steps: 11, ..FIRST };

fn key(summary: Summary) -> String {
    format!("{}:{}", Uuid::nil(), summary.key())
}

impl Story {
    fn pushed(&mut self, second: u64, summary: Summary, is_answered: bool) -> &mut Self {
        self.then(second, Happening::Pushing(summary)).then(second, Happening::PushAnswered(summary, is_answered))
    }

    /// The delivery of an event to the processor.
    fn processed(&mut self, stage: Stage) -> &mut Self {
        self.stores_delivery(1, stage, 1);
        let mut delivery = self.stored.deliveries.pop().expect("it was just made");
        delivery.kind = LaneKind::Processor;
        self.stored.processed.push(delivery);
        self
    }
}

#[test]
fn an_accepted_push_is_one_event() {
    const RULE: Option<&str> = Some("every accepted push is one event");
    expect(ALWAYS, None, |story| {
        story.pushed(1, FIRST, false).pushed(2, FIRST, true).stores_event(event(), &key(FIRST));
    });
    expect(ALWAYS, None, |story| {
        story.pushed(1, FIRST, false);
    });
    expect(ALWAYS, RULE, |story| {
        story.pushed(1, FIRST, true);
    });
    expect(ALWAYS, RULE, |story| {
        story.pushed(1, FIRST, true).pushed(2, CORRECTED, true).stores_event(event(), &key(FIRST));
    });
}

#[test]
fn a_push_is_parked_or_processed_and_nothing_else() {
    let delivered = Stage::Delivered { at: BEGINNING };
    let dead = || Stage::Dead { at: BEGINNING, cause: DeathCause::RetriesExhausted };
    expect(ALWAYS, None, |story| {
        story.processed(Stage::Waiting { due_at: BEGINNING });
    });
    expect(ALWAYS, Some("no push is given up"), |story| {
        story.processed(dead());
    });
    expect(AT_THE_END, None, |story| {
        story.processed(delivered);
    });
    expect(AT_THE_END, Some("every push was processed"), |story| {
        story.processed(Stage::Waiting { due_at: BEGINNING });
    });
}

#[test]
fn the_metric_is_what_was_said_last_and_there_is_one() {
    const RULE: Option<&str> = Some("a metric says what was pushed last, and there is one");
    let after_both = |summaries: &'static [Summary]| {
        move |story: &mut Story| {
            story.pushed(1, FIRST, true).pushed(2, CORRECTED, true);
            story.stored.summaries = summaries.to_vec();
        }
    };
    expect(AT_THE_END, None, after_both(&[CORRECTED]));
    for wrong in [&[FIRST][..], &[], &[CORRECTED, CORRECTED], &[CORRECTED, Summary { day: 7, ..FIRST }]] {
        expect(AT_THE_END, RULE, after_both(wrong));
    }
}
