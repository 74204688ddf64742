//! The rules about signed pushes: each has a short log that breaks it.

use everhook_core::model::Stage;

use super::{
    tests::{Story, event, expect},
    *,
};
use crate::{
    simulation::{log::SignedAnswer, shop::key_of},
    world::BEGINNING,
};

impl Story {
    fn pushed_signed(&mut self, second: u64, push: u32, signed_with: u32, answer: SignedAnswer) -> &mut Self {
        self.then(second, Happening::SignedPushing(push, signed_with)).then(second, Happening::SignedAnswered(push, answer))
    }

    /// The secret 0 is replaced by 1, with a time in which both are in force.
    fn replaced(&mut self) -> &mut Self {
        for (second, secrets) in [(1, vec![0]), (2, vec![0, 1]), (3, vec![1])] {
            self.then(second, Happening::SecretsChanging(secrets.clone())).then(second, Happening::SecretsChanged(secrets));
        }
        self
    }
}

#[test]
fn secrets_count_as_long_as_they_are_in_force() {
    const REFUSED: Option<&str> = Some("what is signed with a secret in force is not refused");
    const TAKEN: Option<&str> = Some("what is signed with a former secret is not taken");
    expect(ALWAYS, None, |story| _ = story.replaced().pushed_signed(4, 9, 0, SignedAnswer::Refused));
    expect(ALWAYS, REFUSED, |story| _ = story.replaced().pushed_signed(4, 9, 1, SignedAnswer::Refused));
    expect(ALWAYS, TAKEN, |story| {
        story.replaced().pushed_signed(4, 9, 0, SignedAnswer::Taken);
        story.stores_event(event(), &format!("source:{}", key_of(9))).stores_delivery(1, Stage::Waiting { due_at: BEGINNING }, 0);
    });
    // While nobody knows whether a change took place, either answer is right.
    expect(ALWAYS, None, |story| {
        story.replaced().then(4, Happening::SecretsChanging(vec![1, 2]));
        story.pushed_signed(5, 9, 2, SignedAnswer::Refused);
    });
}

#[test]
fn a_push_that_was_taken_has_one_effect() {
    const RULE: Option<&str> = Some("every signed push that was taken has one effect");
    let waiting = || Stage::Waiting { due_at: BEGINNING };
    let key = || format!("source:{}", key_of(9));
    expect(ALWAYS, RULE, |story| _ = story.replaced().pushed_signed(4, 9, 1, SignedAnswer::Taken));
    expect(ALWAYS, None, |story| {
        story.replaced().pushed_signed(4, 9, 1, SignedAnswer::Failed).pushed_signed(5, 9, 1, SignedAnswer::Taken);
        story.stores_event(event(), &key()).stores_delivery(1, waiting(), 0);
    });
    expect(ALWAYS, RULE, |story| {
        story.replaced().pushed_signed(4, 9, 1, SignedAnswer::Taken);
        story.stores_event(event(), &key()).stores_delivery(1, waiting(), 0).stores_delivery(2, waiting(), 0);
    });
}
