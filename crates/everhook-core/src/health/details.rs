//! The text beside a metric's value: a JSON object whose members have a fixed order, without those that were not measured.

/// An object that is being written.
#[derive(Default)]
pub(super) struct Details(String);

impl Details {
    /// Adds a number, if there is one.
    pub(super) fn number(self, name: &str, value: Option<f64>) -> Self {
        self.member(name, value.map(written))
    }

    /// Adds a text, if there is one.
    pub(super) fn text(self, name: &str, value: Option<&str>) -> Self {
        self.member(name, value.map(quoted))
    }

    /// The object; `None` if it has no member.
    pub(super) fn finish(self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0 + "}")
    }

    fn member(mut self, name: &str, value: Option<String>) -> Self {
        if let Some(value) = value {
            self.0.push(if self.0.is_empty() { '{' } else { ',' });
            self.0 += &format!("{}:{value}", quoted(name));
        }
        self
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A number as people write it: whole ones without a point.
fn written(value: f64) -> String {
    /// Up to here floats hold every whole number.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < WHOLE_MAX { format!("{value:.0}") } else { serde_json::Value::from(value).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_measured_is_written_in_the_order_of_asking() {
        let details = Details::default().number("b", Some(3.0)).number("c", None).text("a", Some("\"x\"")).number("d", Some(2.25));
        assert_eq!(details.finish().as_deref(), Some(r#"{"b":3,"a":"\"x\"","d":2.25}"#));
        assert_eq!(Details::default().number("a", None).finish(), None);
    }
}
