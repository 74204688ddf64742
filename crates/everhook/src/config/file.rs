//! The settings file: TOML, one key a setting, no sections.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use super::raw::KNOWN;

/// The file that is read if none is named.
const DEFAULT_PATH: &str = "everhook.toml";

/// What a file says.
#[derive(Default)]
pub(super) struct FileSettings {
    /// Which file.
    pub path: PathBuf,
    /// Its values, as the texts that flags and variables would have.
    pub values: BTreeMap<String, String>,
}

/// Reads the file that is named by flag or variable, or the default one if it exists.
pub(super) fn read(flag: Option<&Path>, variable: Option<&String>, faults: &mut Vec<String>) -> FileSettings {
    let named = flag.or(variable.map(Path::new));
    let path = named.unwrap_or(Path::new(DEFAULT_PATH));
    match std::fs::read_to_string(path) {
        Ok(text) => FileSettings { path: path.to_owned(), values: parse(path, &text, faults) },
        Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => FileSettings::default(),
        Err(error) => {
            faults.push(format!("cannot read {}: {error}", path.display()));
            FileSettings::default()
        }
    }
}

fn parse(path: &Path, text: &str, faults: &mut Vec<String>) -> BTreeMap<String, String> {
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => {
            faults.push(format!("{}: is not TOML{}: {}", path.display(), place(text, &error), error.message()));
            return BTreeMap::new();
        }
    };
    let mut values = BTreeMap::new();
    for (name, value) in table {
        if !KNOWN.iter().any(|known| known.name == name) {
            faults.push(format!("{}: {name}: unknown setting", path.display()));
            continue;
        }
        match text_of(&value) {
            Some(text) => {
                values.insert(name, text);
            }
            None => faults.push(format!("{}: {name}: must be a string, a number, true, false or a list of strings", path.display())),
        }
    }
    values
}

/// Where it went wrong. The library would show the line, which may hold a password or a key.
fn place(text: &str, error: &toml::de::Error) -> String {
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else { return String::new() };
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
    format!(" (line {line}, column {column})")
}

fn text_of(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(boolean) => Some(boolean.to_string()),
        toml::Value::Array(list) => {
            let texts: Option<Vec<&str>> = list.iter().map(toml::Value::as_str).collect();
            texts.map(|texts| texts.join(","))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_toml_is_pointed_at_and_never_quoted() {
        let table = [
            ("listen = \"x\"\ndatabase = \"postgres://u:hunter2@h/d", "(line 2, column "),
            ("seal_key = hunter2\n", "(line 1, column 12)"),
            ("seal_key = \"a\"\nseal_key = \"hunter2\"\n", "(line 2, column 1)"),
            ("admin_key = 'hunter2\n", "(line 1, column "),
            ("admin_key: hunter2\n", "(line 1, column "),
            ("admin_key = \"hunter2\\q\"\n", "(line 1, column "),
            ("admin_key = \"x\" hunter2\n", "(line 1, column "),
            ("admin_key = 2024-99-99hunter2\n", "(line 1, column "),
        ];
        for (text, place) in table {
            let mut faults = Vec::new();
            assert!(parse(Path::new("e.toml"), text, &mut faults).is_empty());
            let told = faults.join("\n");
            assert!(told.starts_with("e.toml: is not TOML") && told.contains(place) && !told.contains("hunter2"), "{text}: {told}");
            assert_eq!(told.lines().count(), 1, "{told}");
        }
    }
}
