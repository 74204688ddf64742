//! A health provider that pushes until it is answered, a processor that is on, and a server that is killed again and again.

use std::io::Write as _;

use serde_json::json;

use super::{
    Trial,
    health_pushes::{self, Providers},
    kills,
    sink::Behavior,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_push_of_a_health_provider_is_one_metric_as_it_was_said_last_however_often_the_server_is_killed() {
    // Given a source with the health processor, and users who are connected.
    let mut trial = Trial::start_without_publishers(Behavior::Steady, 0, json!({})).await;
    health_pushes::prepare(trial.node.server()).await;
    // When summaries are pushed, some twice and some corrected, and the server is killed at random moments.
    let providers = Providers::start_at(&[trial.node.server()]);
    trial.kill_again_and_again(kills()).await;
    let pushed = providers.stop().await;
    // Then each is one metric, with what was said of it last, and nothing is dead.
    health_pushes::wait_until_processed(trial.node.server(), &pushed, trial.seed).await;
    let events = health_pushes::assert_none_is_dead(trial.node.server()).await;
    let sum = |of: fn(&health_pushes::Pushed) -> usize| pushed.iter().map(of).sum::<usize>();
    let accepted = sum(|one| one.accepted);
    // A push whose answer was lost is stored once more.
    assert!(events >= accepted, "{accepted} pushes were accepted, and there are {events} events");
    let _ = writeln!(
        std::io::stderr(),
        "killed (health): {} kills, {accepted} pushes accepted ({} repeated, {} corrections), {events} events, {} metrics (SEED={})",
        trial.lives.len() - 1,
        sum(|one| one.repeated),
        sum(|one| one.corrected),
        sum(|one| one.steps.len()),
        trial.seed
    );
}
