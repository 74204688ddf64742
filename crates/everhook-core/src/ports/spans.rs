//! Where spans of traces go, for following a request through several systems. Nothing that Everhook does depends on it.

use crate::model::{Span, TraceContext};

/// Takes spans. No method waits or fails: what cannot be kept is dropped and counted.
pub trait Spans: Send + Sync {
    /// Whether spans of this trace are wanted. Every node says the same of a trace. Asked before a span is put together.
    fn wants(&self, context: &TraceContext) -> bool;

    /// Takes a span, in the order in which they come.
    fn record(&self, span: Span);

    /// How many spans were sent, and how many were dropped.
    fn counts(&self) -> SpanCounts;
}

/// What became of spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// The collector took them.
    pub exported: u64,
    /// There was no room for them, or the collector did not take them.
    pub dropped: u64,
}
