//! The repository as text.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Folders that are built, not written.
const NOT_SOURCES: [&str; 3] = ["target", "node_modules", "snapshots"];
/// What is read. Other files are images or made by tools.
const EXTENSIONS: [&str; 8] = ["rs", "md", "sql", "toml", "yaml", "env", "py", "cjs"];

/// The text of every source file by its path from the root, with `/` between folders.
pub struct Tree(BTreeMap<String, String>);

impl Tree {
    /// The repository that this test was built from.
    pub fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/NAME lies two folders down").to_owned();
        let mut files = BTreeMap::new();
        read_folder(&root, &root, &mut files);
        assert!(files.contains_key("Cargo.toml"), "{} is not the repository", root.display());
        Self(files)
    }

    /// A tree with these files alone.
    #[cfg(test)]
    pub fn planted<const N: usize>(files: [(&str, &str); N]) -> Self {
        Self(files.map(|(path, text)| (path.to_owned(), text.to_owned())).into())
    }

    /// Files whose path begins and ends like this, and their texts.
    pub fn files<'a>(&'a self, begin: &'a str, end: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let files = self.0.iter().filter(move |(path, _)| path.starts_with(begin) && path.ends_with(end));
        files.map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Every file.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files("", "")
    }

    /// The text of one file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Whether there is a file or a folder of this path.
    pub fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.0.keys().any(|file| file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    }
}

fn read_folder(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().expect("a name").to_string_lossy();
        if name.starts_with('.') || NOT_SOURCES.contains(&name.as_ref()) {
            continue;
        }
        if path.is_dir() {
            read_folder(root, &path, files);
        } else if is_read(&path) {
            let place = path.strip_prefix(root).expect("a path below the root").to_string_lossy().replace('\\', "/");
            files.insert(place, fs::read_to_string(&path).expect("text"));
        }
    }
}

/// Scripts and the like have no extension.
fn is_read(path: &Path) -> bool {
    path.extension().is_none_or(|extension| EXTENSIONS.iter().any(|known| extension == *known))
}

/// The identifier at the beginning of a text.
pub fn identifier(text: &str) -> &str {
    text.split(|c: char| !is_in_identifier(c)).next().expect("at least one part")
}

/// Whether a character may be part of an identifier.
pub fn is_in_identifier(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Rust without its line comments.
pub fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().expect("at least one part")).collect::<Vec<_>>().join("\n")
}
