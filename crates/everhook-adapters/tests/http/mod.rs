//! The transport against servers that are scripted byte by byte.

mod answers;
mod forgery;
mod hostile;
mod providers;
mod reuse;
mod server;
mod tls;

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use everhook_adapters::http::{HttpSettings, HttpTransport, Resolve, ResolveError};
use everhook_core::{
    ids::OrganizationId,
    model::{FailureCategory, Report, Response, Sent, Target},
    policy::address::AddressRules,
    ports::{OutgoingMethod, OutgoingRequest, Transport},
};

/// Long enough for a loaded machine: a request that should be answered is, in a millisecond.
const AMPLE: Duration = Duration::from_secs(10);
/// For requests that must run out of time.
const SHORT: Duration = Duration::from_millis(150);

/// A transport that may go to the loopback address only, as a development server's may.
fn transport() -> HttpTransport {
    HttpTransport::with_resolver(loopback_settings(), Arc::new(Names::default())).unwrap()
}

fn loopback_settings() -> HttpSettings {
    HttpSettings::new(AddressRules::allowing(vec!["127.0.0.1/32".parse().unwrap()]))
}

fn request(url: &str, timeout: Duration) -> OutgoingRequest {
    let target = Target { written: url.to_owned(), url: url.parse().unwrap() };
    OutgoingRequest {
        method: OutgoingMethod::Post,
        organization: organization(1),
        target: Arc::new(target),
        headers: vec![
            ("content-type".into(), Bytes::from_static(b"application/json")),
            ("webhook-id".into(), Bytes::from_static(b"0190-abc")),
            ("x-custom".to_owned().into(), Bytes::from("grüße")),
        ],
        body: Bytes::from_static(b"{\"type\":\"order.paid\"}"),
        timeout,
    }
}

/// An organization of its own for each number.
fn organization(number: u128) -> OrganizationId {
    OrganizationId::from_uuid(uuid::Uuid::from_u128(number))
}

async fn post(transport: &HttpTransport, url: &str) -> Report {
    transport.send(request(url, AMPLE)).await
}

/// The answer, where one must have come.
fn answered(report: Report) -> Response {
    match report.sent {
        Sent::Answered(response) => response,
        failed => panic!("expected an answer, got {failed:?}"),
    }
}

/// Category, words and what came of the answer, where the request must have failed.
fn failed(report: Report) -> (FailureCategory, String, Option<Response>) {
    match report.sent {
        Sent::Failed { category, error, response } => (category, error, response),
        answered => panic!("expected a failure, got {answered:?}"),
    }
}

/// Names as the test wrote them. Each look-up takes the name's next answer; the last repeats.
#[derive(Default)]
struct Names {
    answers: Mutex<HashMap<&'static str, Vec<Vec<IpAddr>>>>,
    /// What every other name resolves to; none if empty.
    others: Vec<IpAddr>,
}

impl Names {
    fn with(self, name: &'static str, answers: &[&[&str]]) -> Self {
        let answers = answers.iter().map(|addresses| addresses.iter().map(|text| text.parse().unwrap()).collect()).collect();
        self.answers.lock().unwrap().insert(name, answers);
        self
    }

    fn everything_is(address: &str) -> Self {
        Self { others: vec![address.parse().unwrap()], ..Self::default() }
    }
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        match self.answers.lock().unwrap().get_mut(host) {
            Some(answers) if answers.len() > 1 => Ok(answers.remove(0)),
            Some(answers) => Ok(answers[0].clone()),
            None if self.others.is_empty() => Err(ResolveError::NoSuchHost),
            None => Ok(self.others.clone()),
        }
    }
}
