//! What is in force where nothing is written, or where something else decides: for `everhook config`, which shows that.

use super::{
    Config, SealKey,
    raw::{Origin, Setting},
    retention, units,
};

/// Completes settings as they were written with what follows from them.
pub(super) fn complete(settings: &mut [Setting], config: &Config) {
    for setting in settings {
        if setting.text.is_none() {
            setting.text = unwritten(config, setting.name);
        }
        let is_implied = setting.name == "allow_http" && config.targets.allow_http && !config.targets.addresses.is_public_only();
        if is_implied && !matches!(setting.text.as_deref(), Some("true" | "1")) {
            (setting.text, setting.origin) = (Some("true".to_owned()), Origin::Implied("allow_private_networks"));
        }
    }
}

/// What holds for a setting whose default depends on others; `None` if it says nothing about this node.
fn unwritten(config: &Config, name: &str) -> Option<String> {
    let spool = config.spool.as_ref();
    match name {
        "api" => Some(config.roles.api.to_string()),
        "worker" => Some(config.roles.worker.to_string()),
        "scheduler" => Some(config.roles.scheduler.to_string()),
        "pool" => config.roles.worker.then(|| config.pool.to_string()),
        "seal_key_file" => match &config.seal_key {
            SealKey::Given(_) => None,
            SealKey::File(path) => Some(path.display().to_string()),
        },
        "seal_key_old_file" => match &config.old_seal_key {
            Some(SealKey::File(path)) => Some(path.display().to_string()),
            _ => None,
        },
        "retention_attempts" => Some(retention::show(config.retention.attempts)),
        "spool" => spool.map(|spool| spool.folder.display().to_string()),
        "spool_max" => spool.map(|spool| units::show_size(spool.bytes_max)),
        _ => None,
    }
}
