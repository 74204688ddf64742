//! What it costs to verify a request, without the network and the store: a loop over the same code that the door uses.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use everhook_core::{
    inbound::{Credentials, InboundRequest, Reading, Verifier, kind},
    time::Timestamp,
};

use super::pushes::{SECRET, signature_hex};

const BODY_BYTES: usize = 10 * 1024;
/// Enough that the clock does not count, few enough that nothing else runs in most of them.
const REQUESTS_A_ROUND: u32 = 500;
const ROUNDS: u32 = 20;

/// The time that verifying and reading a signed JSON body of 10 KiB takes, in microseconds: the median of some rounds.
///
/// # Errors
/// When the request is not accepted.
pub fn microseconds_for_10_kib() -> anyhow::Result<f64> {
    let credentials = Credentials { secrets: vec![SECRET.to_owned()], ..Credentials::default() };
    let recipe = kind("github").context("there is no kind `github`")?.compile();
    let verifier = Verifier::new(Arc::new(recipe), &credentials, None).map_err(|faults| anyhow::anyhow!("{faults:?}"))?;
    let body = Bytes::from(format!(r#"{{"action":"opened","data":"{}"}}"#, "x".repeat(BODY_BYTES - 30)));
    let signature = format!("sha256={}", signature_hex(&body));
    let headers: [(&str, &[u8]); 3] =
        [("x-hub-signature-256", signature.as_bytes()), ("x-github-event", b"issues"), ("x-github-delivery", b"bench")];
    let url = "https://hooks.example.com/in/bench";
    let request =
        InboundRequest { method: "POST", url, query: "", path_type: None, headers: &headers, body: &body, awaiting_handshake: false };
    let now = Timestamp::from_secs(1_700_000_000);
    ensure!(matches!(verifier.read(&request, now), Reading::Accepted(_)), "the request is not accepted");
    let mut rounds: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let began_at = Instant::now();
            for _ in 0..REQUESTS_A_ROUND {
                black_box(verifier.read(black_box(&request), now));
            }
            began_at.elapsed()
        })
        .collect();
    rounds.sort_unstable();
    Ok(rounds[rounds.len() / 2].as_secs_f64() * 1e6 / f64::from(REQUESTS_A_ROUND))
}
