//! Traces: which pieces of work, on which systems, belong together.

use crate::time::Timestamp;

/// What a `traceparent` says: which trace, and who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace: 32 hexadecimal digits.
    pub trace: String,
    /// The span of the caller.
    pub span: u64,
    /// Two hexadecimal digits, of which the last bit says whether the trace is recorded.
    pub flags: String,
}

impl TraceParent {
    /// Takes a `traceparent` apart; `None` if it is not one, which restarts the trace as the W3C asks.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let lengths = (version.len(), trace.len(), span.len(), flags.len()) == (2, 32, 16, 2);
        if !lengths || ![version, trace, span, flags].into_iter().all(is_hex) || version == "ff" {
            return None;
        }
        let number = u64::from_str_radix(span, 16).ok().filter(|span| *span != 0)?;
        let is_zero = trace.bytes().all(|byte| byte == b'0');
        (!is_zero).then(|| Self { trace: trace.to_owned(), span: number, flags: flags.to_owned() })
    }

    /// As the trace's number, and whether its spans are recorded.
    pub fn context(&self) -> TraceContext {
        let is_recorded = u8::from_str_radix(&self.flags, 16).is_ok_and(|flags| flags & 1 == 1);
        TraceContext {
            trace: u128::from_str_radix(&self.trace, 16).unwrap_or_default(),
            parent: Some(self.span),
            is_recorded: Some(is_recorded),
        }
    }
}

/// Where in a trace something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: u128,
    /// The span that this follows from; none if the trace begins here.
    pub parent: Option<u64>,
    /// Whether the one that began the trace records it; `None` if it begins here.
    pub is_recorded: Option<bool>,
}

/// A piece of work that ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its place in its trace.
    pub context: TraceContext,
    /// Its identity in the trace.
    pub id: u64,
    /// What was done.
    pub name: &'static str,
    /// Which side of a request it is.
    pub kind: SpanKind,
    /// When it began.
    pub began_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// What is said of it.
    pub attributes: Vec<(&'static str, SpanValue)>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// Which side of a request a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// It answers one.
    Server,
    /// It makes one.
    Client,
    /// It records something for others to get later.
    Producer,
}

/// What is said of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpanValue {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_traceparent_is_taken_apart() {
        let read = TraceParent::parse(&format!("00-{TRACE}-00f067aa0ba902b7-01")).unwrap();
        assert_eq!((read.trace.as_str(), read.span, read.flags.as_str()), (TRACE, 0x00f0_67aa_0ba9_02b7, "01"));
        let expected = TraceContext { trace: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, parent: Some(read.span), is_recorded: Some(true) };
        assert_eq!(read.context(), expected);
        for (flags, is_recorded) in [("00", false), ("02", false), ("03", true)] {
            let context = TraceParent::parse(&format!("00-{TRACE}-00f067aa0ba902b7-{flags}")).unwrap().context();
            assert_eq!(context.is_recorded, Some(is_recorded), "{flags}");
        }
    }

    #[test]
    fn what_is_no_traceparent_is_none() {
        for text in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceParent::parse(text), None, "{text}");
        }
    }
}
