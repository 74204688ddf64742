//! Says which field of a body could not be read, and what it must be. The parser knows only a line, a column and types of its own: where that is in the
//! document is found by walking to it, and its words are translated.

use everhook_core::manage::Fault;

use super::error::ApiError;

/// The problem of a JSON object that is well-formed and could not be read.
pub fn misread(body: &[u8], error: &serde_json::Error) -> ApiError {
    let text = error.to_string();
    let said = text.rsplit_once(" at line ").map_or(&*text, |(said, _)| said);
    let place = place(&body[..offset(body, error)]);
    let (summary, fault) = translate(said, place);
    let problem = ApiError::bad_request(super::error::shorten(format!("the body cannot be read: {summary}")));
    problem.with_errors(fault.into_iter().collect())
}

/// What is wrong in a few words, and with which field.
fn translate(said: &str, place: Place) -> (String, Option<Fault>) {
    if let Some(rest) = said.strip_prefix("unknown field `") {
        let (name, known) = rest.rsplit_once("`, expected ").or_else(|| rest.rsplit_once("`, ")).unwrap_or((rest, ""));
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        let reason = match known.is_empty() {
            true => "is not a field of this request, which takes none here".to_owned(),
            false => format!("is not a field of this request, which takes {}", known.join(", ")),
        };
        return (format!("unknown field `{name}`"), Some(Fault::new(place.path(), reason)));
    }
    if let Some(name) = said.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        let path = place.member(name).path();
        return (format!("`{path}` is required"), Some(Fault::new(path, "is required")));
    }
    if let Some(name) = said.strip_prefix("duplicate field `").and_then(|rest| rest.strip_suffix('`')) {
        let path = place.path();
        let reason = match path.rsplit('.').next() == Some(name) {
            true => "is given more than once".to_owned(),
            false => format!("is another name of `{name}`, which is given as well"),
        };
        return (format!("`{path}` {reason}"), Some(Fault::new(path, reason)));
    }
    match (said.rsplit_once(", expected "), place.path()) {
        (Some((found, wanted)), path) if !path.is_empty() && (found.starts_with("invalid ") || found.starts_with("unknown variant ")) => {
            let reason = format!("must be {}", in_words(wanted));
            (format!("`{path}` {reason}"), Some(Fault::new(path, reason)))
        }
        (_, path) if !path.is_empty() => (said.to_owned(), Some(Fault::new(path, said))),
        _ => (said.to_owned(), None),
    }
}

/// What the parser expected, in the words of JSON.
fn in_words(wanted: &str) -> String {
    match wanted {
        "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        wanted if wanted.starts_with("struct ") => "an object",
        wanted => return wanted.replace('`', ""),
    }
    .to_owned()
}

/// How many bytes were read when the error was noticed.
fn offset(body: &[u8], error: &serde_json::Error) -> usize {
    let before = body.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1)).map(<[u8]>::len).sum::<usize>();
    (before + error.column()).min(body.len())
}

/// A place in a document: names and indices from the outside to the inside.
#[derive(Debug, Default)]
struct Place(Vec<Step>);

#[derive(Debug)]
enum Step {
    /// In an object, at this member; before the first, at none.
    Member(Option<String>),
    /// In a list, at this index.
    Index(usize),
}

impl Place {
    fn member(mut self, name: &str) -> Self {
        self.0.push(Step::Member(Some(name.to_owned())));
        self
    }

    /// As in `endpoints[3].url`.
    fn path(&self) -> String {
        let mut path = String::new();
        for step in &self.0 {
            match step {
                Step::Member(None) => {}
                Step::Member(Some(name)) if path.is_empty() => path.push_str(name),
                Step::Member(Some(name)) => path.extend([".", name]),
                Step::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        path
    }
}

/// Where well-formed JSON is after this much of it. A member is where one is until the next comma.
fn place(read: &[u8]) -> Place {
    let mut place = Place::default();
    let mut rest = read;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'{' => place.0.push(Step::Member(None)),
            b'[' => place.0.push(Step::Index(0)),
            b'}' | b']' => drop(place.0.pop()),
            b',' => match place.0.last_mut() {
                Some(Step::Member(name)) => *name = None,
                Some(Step::Index(index)) => *index += 1,
                None => {}
            },
            b'"' => {
                let (text, after) = string(rest);
                rest = after;
                if let Some(Step::Member(name @ None)) = place.0.last_mut() {
                    *name = Some(text);
                }
            }
            _ => {}
        }
    }
    place
}

/// A text up to its closing quote, and what follows. Escapes in names are shown as they were written.
fn string(from: &[u8]) -> (String, &[u8]) {
    let mut is_escaped = false;
    let end = from.iter().position(|byte| match byte {
        _ if is_escaped => {
            is_escaped = false;
            false
        }
        b'\\' => {
            is_escaped = true;
            false
        }
        byte => *byte == b'"',
    });
    let end = end.unwrap_or(from.len());
    (String::from_utf8_lossy(&from[..end]).into_owned(), from.get(end + 1..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        #[allow(dead_code)]
        url: String,
        #[allow(dead_code)]
        labels: Option<BTreeMap<String, String>>,
        #[allow(dead_code)]
        rows: Option<Vec<Row>>,
        #[allow(dead_code)]
        enabled: Option<bool>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Row {
        #[allow(dead_code)]
        count: u32,
    }

    #[test]
    fn the_field_that_cannot_be_read_is_named_with_what_it_must_be() {
        let table = [
            (r#"{"url": 5}"#, "url", "must be a string"),
            (r#"{"url": {"a": 1}}"#, "url", "must be a string"),
            ("{\n  \"labels\": {\"a\": \"b\",\n \"c\": [1]}}", "labels.c", "must be a string"),
            (r#"{"labels": [1]}"#, "labels", "must be an object"),
            (r#"{"url": "a,\"{[", "rows": [{"count": 1}, {"count": -1}]}"#, "rows[1].count", "must be a whole number"),
            (r#"{"rows": [{"count": 1, "size": 2}]}"#, "rows[0].size", "is not a field of this request, which takes count"),
            (r#"{"rows": [{"count": 1}, {}]}"#, "rows[1].count", "is required"),
            (r#"{"rows": 1}"#, "rows", "must be a list"),
            (r#"{"enabled": "yes"}"#, "enabled", "must be true or false"),
            (r#"{"enabled": true}"#, "url", "is required"),
            (r#"{"url": "a", "url": "b"}"#, "url", "is given more than once"),
            (r#"{"color": 1}"#, "color", "is not a field of this request, which takes url, labels, rows, enabled"),
        ];
        for (body, field, reason) in table {
            let error = serde_json::from_str::<Asked>(body).unwrap_err();
            let problem = serde_json::to_value(misread(body.as_bytes(), &error).into_problem()).unwrap();
            assert_eq!(
                (&problem["errors"][0]["field"], &problem["errors"][0]["reason"]),
                (&field.into(), &reason.into()),
                "{body}: {error}"
            );
            assert!(problem["detail"].as_str().unwrap().starts_with("the body cannot be read: "), "{problem}");
        }
    }

    #[test]
    fn a_body_from_a_stranger_is_walked_without_surprises() {
        for body in ["", "}}}]]", "{\"a", "{\"a\\", "[[[[,,,,", "{\"é\": \u{1f600}", ",,,"] {
            let _ = place(body.as_bytes()).path();
        }
        let nested = format!("{}1", "{\"a\":[".repeat(1_000));
        assert!(place(nested.as_bytes()).path().starts_with("a[0].a[0]"));
    }
}
