//! Tests of receiving: published vectors, a golden request for every row of the table and every change of one byte of it, handshakes, batches, faults of
//! recipes, and hostile input.

mod batches;
mod faults;
mod fuzz;
mod golden;
mod handshakes;
mod hostile;
mod rules;
mod signers;
mod table;
mod vectors;

use std::sync::Arc;

use bytes::Bytes;

use super::{Accepted, Credentials, InboundRequest, Reading, Recipe, RecipeFields, Refusal, Verifier, kind};
use crate::time::Timestamp;

/// When golden requests were signed.
const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

/// A request that a test owns.
#[derive(Clone, Debug)]
struct Sent {
    method: &'static str,
    url: String,
    path_type: Option<String>,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    awaiting_handshake: bool,
}

impl Sent {
    fn post(body: impl AsRef<[u8]>) -> Self {
        let url = "https://hooks.example.com/in/src_1".to_owned();
        Self { method: "POST", url, path_type: None, headers: Vec::new(), body: body.as_ref().to_vec(), awaiting_handshake: false }
    }

    fn get(query: &str) -> Self {
        Self { method: "GET", ..Self::post("") }.to(&format!("https://hooks.example.com/in/src_1?{query}"))
    }

    fn to(self, url: &str) -> Self {
        Self { url: url.to_owned(), ..self }
    }

    fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_ascii_lowercase(), value.as_ref().to_vec()));
        self
    }

    /// Reads it with a verifier.
    fn read(&self, verifier: &Verifier, now: Timestamp) -> Reading {
        self.read_by(|request| verifier.read(request, now))
    }

    fn read_by(&self, read: impl FnOnce(&InboundRequest<'_>) -> Reading) -> Reading {
        let body = Bytes::copy_from_slice(&self.body);
        let headers: Vec<(&str, &[u8])> = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        read(&InboundRequest {
            method: self.method,
            url: &self.url,
            query: self.url.split_once('?').map_or("", |(_, query)| query),
            path_type: self.path_type.as_deref(),
            headers: &headers,
            body: &body,
            awaiting_handshake: self.awaiting_handshake,
        })
    }
}

fn secrets(secrets: &[&str]) -> Credentials {
    Credentials { secrets: secrets.iter().map(|secret| (*secret).to_owned()).collect(), ..Credentials::default() }
}

fn verifier_of(name: &str, credentials: &Credentials) -> Verifier {
    Verifier::new(Arc::new(kind(name).unwrap().compile()), credentials, None).unwrap_or_else(|faults| panic!("{name}: {faults:?}"))
}

fn custom(fields: &RecipeFields<'_>, credentials: &Credentials) -> Verifier {
    let recipe = Recipe::compile(fields).unwrap_or_else(|faults| panic!("{faults:?}"));
    Verifier::new(Arc::new(recipe), credentials, None).unwrap_or_else(|faults| panic!("{faults:?}"))
}

#[track_caller]
fn accepted(reading: Reading) -> Accepted {
    match reading {
        Reading::Accepted(accepted) => accepted,
        other => panic!("not accepted: {other:?}"),
    }
}

#[track_caller]
fn refused(reading: Reading) -> Refusal {
    match reading {
        Reading::Refused(refusal) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}
