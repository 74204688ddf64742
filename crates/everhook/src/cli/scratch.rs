//! A folder that lives as long as a command does: the data of `demo` and `bench`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// A fresh, empty folder that is removed with everything in it when this value is dropped.
#[derive(Debug)]
pub struct ScratchFolder {
    path: PathBuf,
}

impl ScratchFolder {
    /// Makes `everhook-<purpose>-<random>` inside `parent`.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn make(parent: &Path, purpose: &str) -> anyhow::Result<Self> {
        let path = parent.join(format!("everhook-{purpose}-{}", uuid::Uuid::now_v7().simple()));
        std::fs::create_dir_all(&path).with_context(|| format!("cannot create the folder {}", path.display()))?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if let Err(cause) = std::fs::remove_dir_all(&self.path) {
            tracing::warn!("cannot remove the folder {}: {cause}", self.path.display());
        }
    }
}
