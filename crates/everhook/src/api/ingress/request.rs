//! A provider's request, read whole and as it came: its bytes are what was signed.

use std::sync::Arc;

use axum::extract::Request;
use bytes::Bytes;
use everhook_core::{
    inbound::{FetchedKey, InboundRequest, Reading},
    line::request::trace_and_flags,
    model::Source,
    policy::headers::check_custom_headers,
    sources::OpenSource,
    time::Timestamp,
};
use http::{header, request::Parts, uri::PathAndQuery};
use tokio::runtime::RuntimeFlavor;

use super::{
    super::{Api, body},
    NotTaken,
};
use crate::memory::Charge;

/// From this size on, verifying takes milliseconds, for which others should not wait.
const LARGE_BODY_BYTES: usize = 512 * 1024;

/// What an event takes in memory beside its data and its headers, until it is stored.
const ITEM_BYTES: usize = 512;

/// A request that was read.
pub(super) struct Inbound {
    head: Parts,
    path_type: Option<String>,
    body: Bytes,
    /// The URL at which others reach this server, if its operator configured it.
    server_url: Option<String>,
    charge: Charge,
}

impl Inbound {
    /// Reads the body, within what the source's kind takes.
    pub(super) async fn read(api: &Arc<Api>, source: &OpenSource, path_type: Option<&str>, request: Request) -> Result<Self, NotTaken> {
        let (head, body) = request.into_parts();
        let charge = Charge::new(api.bodies.clone(), source.source.organization);
        let read = body::read(body, source.verifier.recipe().max_body(), charge).await;
        let (body, charge) = read.map_err(|error| NotTaken::new("body_not_read", error))?;
        Ok(Self { head, path_type: path_type.map(str::to_owned), body, server_url: api.public_url.clone(), charge })
    }

    /// Counts the memory of what a body becomes: a small one may have many items, each with the headers that are kept and sent on.
    pub(super) fn count_items(&mut self, source: &Source, items: usize) -> Result<(), NotTaken> {
        let headers = self.headers_named(&source.keep_headers).into_iter().chain(self.forwarded_headers(&source.forward_headers));
        let each: usize = ITEM_BYTES + headers.map(|(name, value)| name.len() + value.len()).sum::<usize>();
        self.charge.grow(items * each).map_err(|no_room| NotTaken::new("no_memory", no_room.into()))
    }

    /// What the request is, with a key that was fetched for it.
    pub(super) fn evaluate(&self, source: &OpenSource, now: Timestamp, key: Option<&FetchedKey>) -> Reading {
        let read = |request: &InboundRequest<'_>| match key {
            Some(key) => source.verifier.read_with_key(request, now, key),
            None => source.verifier.read(request, now),
        };
        let evaluate = || self.with_request(&source.source, now, read);
        let has_threads = tokio::runtime::Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
        if self.body.len() >= LARGE_BODY_BYTES && has_threads { tokio::task::block_in_place(evaluate) } else { evaluate() }
    }

    /// Hands out the request in the form in which recipes read it.
    pub(super) fn with_request<T>(&self, source: &Source, now: Timestamp, read: impl FnOnce(&InboundRequest<'_>) -> T) -> T {
        let headers: Vec<(&str, &[u8])> = self.head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        read(&InboundRequest {
            method: self.head.method.as_str(),
            url: &self.url(source),
            query: self.head.uri.query().unwrap_or_default(),
            path_type: self.path_type.as_deref(),
            headers: &headers,
            body: &self.body,
            awaiting_handshake: source.is_awaiting_handshake(now),
        })
    }

    /// The URL as the provider called it, for those that sign it: the `public_url` of the source, or the URL that the request shows.
    fn url(&self, source: &Source) -> String {
        let path_and_query = self.head.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        match &source.public_url {
            // The provider may add parameters of its own.
            Some(url) => match self.head.uri.query() {
                Some(query) => format!("{}?{query}", url.split('?').next().unwrap_or_default()),
                _ => url.clone(),
            },
            None => match &self.server_url {
                Some(url) => format!("{}{path_and_query}", url.trim_end_matches('/')),
                None => format!("https://{}{path_and_query}", self.text_of(header::HOST.as_str()).unwrap_or_default()),
            },
        }
    }

    /// The headers of these names, as they were sent. What is not text is left out.
    pub(super) fn headers_named(&self, names: &[String]) -> Vec<(String, String)> {
        let values = |name: &String| self.head.headers.get_all(name.as_str()).iter().filter_map(|value| value.to_str().ok());
        names.iter().flat_map(|name| values(name).map(|value| (name.clone(), value.to_owned()))).collect()
    }

    /// The same for those that endpoints get, as far as they may be sent on: within the bounds of headers that publishers add to their events.
    pub(super) fn forwarded_headers(&self, names: &[String]) -> Vec<(String, String)> {
        let mut forwarded: Vec<(String, String)> = Vec::new();
        for name in names {
            let Some(value) = self.text_of(name) else { continue };
            forwarded.push((name.clone(), value.to_owned()));
            if check_custom_headers(&forwarded).is_err() {
                forwarded.pop();
            }
        }
        forwarded
    }

    /// The provider's trace, if it has one.
    pub(super) fn traceparent(&self) -> Option<String> {
        self.text_of("traceparent").filter(|text| trace_and_flags(text).is_some()).map(str::to_owned)
    }

    fn text_of(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }
}
