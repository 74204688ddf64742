//! Writes metrics as Prometheus reads them: its text format, version 0.0.4.
//!
//! By hand, because it is a page of code, and the names are to be exactly as they are written: the libraries at hand append `_total` to counters.

use std::fmt::Write as _;

use everhook_core::metrics::Spreading;

/// What the answer's type is.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Most answers are smaller; with ten thousand endpoints one is some megabytes.
const BYTES: usize = 64 << 10;

/// What kind of numbers a metric has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// They only rise, and begin anew when the node starts. The name ends in `_total`.
    Counter,
    /// The same where the name does not: readers would append `_total` to the name of one that is called a counter.
    Rising,
    /// They rise and fall.
    Gauge,
    /// Counts of values up to bounds, with their number and sum.
    Histogram,
}

impl Kind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Rising => "untyped",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric: its name, and what its numbers mean.
#[derive(Debug)]
pub struct Family {
    /// As it is written.
    pub name: &'static str,
    /// What kind of numbers it has.
    pub kind: Kind,
    /// What they mean, in a sentence without line breaks and backslashes.
    pub help: &'static str,
}

/// The names and values of a sample's labels.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// A text that is being written.
pub struct Text(String);

impl Text {
    /// An empty one.
    pub fn new() -> Self {
        Self(String::with_capacity(BYTES))
    }

    /// Begins a metric. Its samples follow, all of them, before the next metric begins.
    pub fn begin(&mut self, family: &'static Family) -> Samples<'_> {
        let Family { name, kind, help } = family;
        write!(self.0, "# HELP {name} {help}\n# TYPE {name} {}\n", kind.as_str()).expect("memory takes every text");
        Samples { text: &mut self.0, name }
    }

    /// All of it.
    pub fn finish(self) -> String {
        self.0
    }
}

/// The samples of one metric.
pub struct Samples<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Samples<'_> {
    /// Writes a number that counts.
    pub fn count(&mut self, labels: Labels<'_>, value: u64) {
        self.sample("", labels, None, value as f64);
    }

    /// Writes any other number.
    pub fn value(&mut self, labels: Labels<'_>, value: f64) {
        self.sample("", labels, None, value);
    }

    /// Writes whether something is so.
    pub fn flag(&mut self, labels: Labels<'_>, is: bool) {
        self.count(labels, is.into());
    }

    /// Writes a histogram.
    pub fn spread<const BOUNDS: usize>(&mut self, labels: Labels<'_>, spread: &Spreading<BOUNDS>) {
        let mut total = 0;
        for (bound, count) in spread.bounds.iter().zip(spread.counts) {
            total += count;
            self.sample("_bucket", labels, Some(*bound), total as f64);
        }
        total += spread.beyond;
        self.sample("_bucket", labels, Some(f64::INFINITY), total as f64);
        self.sample("_sum", labels, None, spread.sum);
        self.sample("_count", labels, None, total as f64);
    }

    fn sample(&mut self, suffix: &str, labels: Labels<'_>, bound: Option<f64>, value: f64) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        let mut before = '{';
        for (name, value) in labels {
            self.text.push(before);
            self.text.push_str(name);
            self.text.push_str("=\"");
            push_escaped(self.text, value);
            self.text.push('"');
            before = ',';
        }
        if let Some(bound) = bound {
            self.text.push(before);
            self.text.push_str("le=\"");
            push_number(self.text, bound);
            self.text.push('"');
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
        self.text.push(' ');
        push_number(self.text, value);
        self.text.push('\n');
    }
}

fn push_number(text: &mut String, value: f64) {
    if value == f64::INFINITY {
        text.push_str("+Inf");
    } else {
        write!(text, "{value}").expect("memory takes every text");
    }
}

fn push_escaped(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use everhook_core::metrics::Spread;

    use super::*;

    static GAUGE: Family = Family { name: "a_gauge", kind: Kind::Gauge, help: "What it means." };
    static RISING: Family = Family { name: "sent_count", kind: Kind::Rising, help: "What it means." };
    static HISTOGRAM: Family = Family { name: "seconds", kind: Kind::Histogram, help: "How long." };

    #[test]
    fn samples_are_written_as_prometheus_reads_them() {
        let mut text = Text::new();
        let mut samples = text.begin(&GAUGE);
        samples.value(&[], 0.25);
        samples.count(&[("a", "quote \" backslash \\ line\nbreak"), ("b", "")], 12_345_678_901);
        samples.flag(&[("is", "so")], true);
        text.begin(&RISING);
        let expected = "# HELP a_gauge What it means.\n# TYPE a_gauge gauge\na_gauge 0.25\n\
            a_gauge{a=\"quote \\\" backslash \\\\ line\\nbreak\",b=\"\"} 12345678901\na_gauge{is=\"so\"} 1\n\
            # HELP sent_count What it means.\n# TYPE sent_count untyped\n";
        assert_eq!(text.finish(), expected);
    }

    #[test]
    fn the_buckets_of_a_histogram_add_up() {
        let spread = Spread::new([0.5, 1.0]);
        [0.1, 0.5, 0.75, 3.0].into_iter().for_each(|value| spread.add(value));
        let mut text = Text::new();
        text.begin(&HISTOGRAM).spread(&[("status", "success")], &spread.read());
        let expected = "# HELP seconds How long.\n# TYPE seconds histogram\nseconds_bucket{status=\"success\",le=\"0.5\"} 2\n\
            seconds_bucket{status=\"success\",le=\"1\"} 3\nseconds_bucket{status=\"success\",le=\"+Inf\"} 4\n\
            seconds_sum{status=\"success\"} 4.35\nseconds_count{status=\"success\"} 4\n";
        assert_eq!(text.finish(), expected);
    }
}
