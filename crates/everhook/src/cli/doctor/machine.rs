//! What a node needs on its own machine: room on its disks, its data folder, its sealing key, names that resolve, and authorities to trust.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use everhook_adapters::{
    http::{Resolve as _, SystemResolver},
    sqlite::{DATABASE_FILE, sealing_at_rest},
    vault::AesVault,
};
use url::Url;
use uuid::Uuid;

use super::{
    report::{Check, Report, size},
    server::Found,
};
use crate::{
    config::{Config, SealKey},
    sealing,
};

/// Less room is a problem now: a node refuses events when there is none.
const FREE_BYTES_MIN: u64 = 256 << 20;
/// Less room is worth a look.
const FREE_BYTES_FEW: u64 = 2 << 30;
/// What is resolved where no service has a name: it exists, and says nothing to anybody.
const EXAMPLE_HOST: &str = "example.com";

pub(super) async fn examine(config: &Config, found: Option<&Found>, report: &mut Report) {
    if config.database.is_none() {
        report.add(data_folder(&config.data));
        report.add(disk("disk", &config.data));
    } else if let Some(spool) = &config.spool {
        report.add(disk("spool disk", &spool.folder));
    }
    report.add(seal_key(config, found));
    match &config.archive {
        Some(folder) => {
            report.add(archive_folder(folder));
            report.add(disk("archive disk", folder));
        }
        None => report.add(Check::skipped("archive", "not configured: what expires is removed for good")),
    }
    report.add(names(config).await);
    report.add(tls());
}

/// The folder itself, or the nearest one above it that exists.
fn existing(folder: &Path) -> PathBuf {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    absolute.ancestors().find(|path| path.exists()).unwrap_or(&absolute).to_owned()
}

fn data_folder(folder: &Path) -> Check {
    let file = folder.join(DATABASE_FILE);
    match fs::metadata(&file) {
        Ok(_) => match try_write(folder) {
            Ok(()) => Check::ok("data folder", folder.display().to_string()),
            Err(error) => Check::problem(
                "data folder",
                format!("cannot write to {}: {error}", folder.display()),
                "give the server's user the right to",
            ),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Check::ok("data folder", format!("{} has no data yet: it is created when the server starts", folder.display()))
        }
        Err(error) => {
            Check::problem("data folder", format!("cannot read {}: {error}", file.display()), "give the server's user the right to")
        }
    }
}

/// Writes a file, flushes it and removes it again.
fn try_write(folder: &Path) -> io::Result<()> {
    let probe = folder.join(format!("doctor-{}", Uuid::new_v4().simple()));
    let written = fs::write(&probe, b"doctor").and_then(|()| fs::File::open(&probe)?.sync_all());
    let removed = fs::remove_file(&probe);
    written.and(removed)
}

#[cfg(unix)]
fn disk(name: &'static str, folder: &Path) -> Check {
    let folder = existing(folder);
    let found = match rustix::fs::statvfs(&folder) {
        Ok(found) => found,
        Err(error) => {
            return Check::warning(name, format!("cannot measure the room in {}: {error}", folder.display()), "see whether it can be read");
        }
    };
    let (free, all) = (found.f_bavail.saturating_mul(found.f_frsize), found.f_blocks.saturating_mul(found.f_frsize));
    let finding = format!("{} free of {} at {}", size(free), size(all), folder.display());
    match free {
        0..FREE_BYTES_MIN => Check::problem(name, finding, "free space: a server without any refuses events"),
        FREE_BYTES_MIN..FREE_BYTES_FEW => Check::warning(name, finding, "free space before it is used up"),
        _ => Check::ok(name, finding),
    }
}

#[cfg(not(unix))]
fn disk(name: &'static str, _folder: &Path) -> Check {
    Check::skipped(name, "this system does not say")
}

fn archive_folder(folder: &Path) -> Check {
    let shown = folder.display();
    if !folder.exists() {
        return match try_write(&existing(folder)) {
            Ok(()) => Check::ok("archive", format!("{shown} is created when something expires")),
            Err(error) => Check::problem(
                "archive",
                format!("cannot create {shown}: {error}"),
                "create it, and give the server's user the right to write to it",
            ),
        };
    }
    match try_write(folder) {
        Ok(()) => Check::ok("archive", shown.to_string()),
        Err(error) => Check::problem(
            "archive",
            format!("cannot write to {shown}: {error}"),
            "give the server's user the right to, or free space: until then nothing that is archived is removed",
        ),
    }
}

/// Whether the key that is configured here is the one that the secrets are encrypted with.
fn seal_key(config: &Config, found: Option<&Found>) -> Check {
    const NAME: &str = "sealing key";
    let at_rest = || sealing_at_rest(&config.data).ok().flatten().map(|sealing| sealing.key.to_string());
    let known = match found {
        Some(found) => found.seal_key_id.clone(),
        None if config.database.is_none() => at_rest(),
        None => None,
    };
    let id = match &config.seal_key {
        SealKey::Given(key) => AesVault::from_key(*key.expose()).key_id().to_string(),
        SealKey::File(path) if !path.exists() => return missing_key(config, path, known.as_deref()),
        SealKey::File(_) => match sealing::given_vault(config) {
            Ok(vault) => vault.key_id().to_string(),
            Err(error) => return Check::problem(NAME, format!("{error:#}"), "bring back the right file from a backup"),
        },
    };
    match known {
        Some(known) if known != id => Check::problem(
            NAME,
            format!("{id} is configured here, but the secrets are encrypted with {known}"),
            "supply the other key, unless a rotation is about to begin: a server with the wrong one does not start",
        ),
        Some(_) => Check::ok(NAME, format!("{id} is the one that the secrets are encrypted with")),
        None => Check::ok(NAME, format!("{id}; keep a copy of it apart from the data")),
    }
}

fn missing_key(config: &Config, path: &Path, known: Option<&str>) -> Check {
    let shown = path.display();
    match known {
        Some(known) => Check::problem(
            "sealing key",
            format!("{shown} does not exist, but the secrets are encrypted with {known}"),
            "run this command with the server's settings and as its user, or bring the file back",
        ),
        None if config.database.is_some() => {
            Check::problem("sealing key", format!("{shown} does not exist"), "give all nodes the same key: `openssl rand -base64 32`")
        }
        None => Check::ok("sealing key", format!("{shown} is created when the server starts")),
    }
}

/// Whether the names resolve that the configuration has, or any.
async fn names(config: &Config) -> Check {
    const NAME: &str = "dns";
    let resolver = match SystemResolver::new() {
        Ok(resolver) => resolver,
        Err(error) => return Check::problem(NAME, error.to_string(), "see /etc/resolv.conf"),
    };
    let mut hosts = hosts(config);
    let is_example = hosts.is_empty();
    if is_example {
        hosts.insert(EXAMPLE_HOST.to_owned());
    }
    let mut failed = Vec::new();
    for host in &hosts {
        if let Err(error) = resolver.resolve(host).await {
            failed.push(format!("{host}: {error}"));
        }
    }
    let advice = "see the machine's name servers in /etc/resolv.conf; endpoints whose names do not resolve are retried";
    match (failed.is_empty(), is_example) {
        (true, _) => Check::ok(NAME, format!("resolves {}", hosts.into_iter().collect::<Vec<_>>().join(", "))),
        // A machine that reaches only its own network may be meant to.
        (false, true) => Check::warning(NAME, failed.join("; "), advice),
        (false, false) => Check::problem(NAME, failed.join("; "), advice),
    }
}

/// The names of hosts in the configuration.
fn hosts(config: &Config) -> BTreeSet<String> {
    let urls = [
        config.database.as_ref().map(|url| url.expose().clone()),
        config.redis.as_ref().map(|url| url.expose().clone()),
        config.amqp_hints.as_ref().map(|url| url.expose().clone()),
        config.amqp_source.as_ref().map(|source| source.url.expose().clone()),
        config.public_url.clone(),
    ];
    let host = |url: &String| match url.parse::<Url>().ok()?.host()? {
        // Databases have schemes of their own, whose addresses are texts to the library.
        url::Host::Domain(name) if name.parse::<std::net::IpAddr>().is_err() && name != "localhost" => Some(name.to_owned()),
        _ => None,
    };
    urls.iter().flatten().filter_map(host).collect()
}

fn tls() -> Check {
    let count = webpki_roots::TLS_SERVER_ROOTS.len();
    match crate::cli::client::tls_connector() {
        Ok(_) if count > 0 => Check::ok("tls", format!("{count} certificate authorities are trusted, those of Mozilla")),
        Ok(_) => Check::problem("tls", "no certificate authority is trusted", "use another build of Everhook"),
        Err(error) => Check::problem("tls", format!("{error:#}"), "use another build of Everhook"),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::report::Verdict, *};
    use crate::config::ServeArgs;

    fn config(args: ServeArgs) -> Config {
        args.load_from([]).unwrap().config
    }

    #[test]
    fn the_names_of_hosts_are_found_and_addresses_are_none() {
        let text = |text: &str| Some(text.to_owned());
        let args = ServeArgs {
            database: text("postgres://u:p@db.example:5432/d"),
            redis: text("redis://127.0.0.1"),
            public_url: text("https://hooks.example"),
            ..ServeArgs::default()
        };
        assert_eq!(hosts(&config(args)).into_iter().collect::<Vec<_>>(), ["db.example", "hooks.example"]);
        assert!(hosts(&config(ServeArgs::default())).is_empty());
    }

    #[test]
    fn a_folder_that_cannot_be_written_to_is_a_problem_and_one_that_is_not_there_yet_is_none() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(data_folder(&folder.path().join("new")).verdict, Verdict::Ok);
        assert_eq!(archive_folder(&folder.path().join("new")).verdict, Verdict::Ok);
        assert_eq!(archive_folder(folder.path()).verdict, Verdict::Ok);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "the probe is left");
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(archive_folder(&file).verdict, Verdict::Problem);
        assert_eq!(archive_folder(&file.join("below")).verdict, Verdict::Problem);
    }

    #[test]
    fn a_key_that_does_not_exist_is_a_problem_only_where_it_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let data = Some(folder.path().display().to_string());
        let alone = config(ServeArgs { data: data.clone(), ..ServeArgs::default() });
        assert_eq!(seal_key(&alone, None).verdict, Verdict::Ok);
        let shared = config(ServeArgs { data, database: Some("postgres://db/d".to_owned()), ..ServeArgs::default() });
        assert_eq!(seal_key(&shared, None).verdict, Verdict::Problem);
        assert_eq!(missing_key(&alone, folder.path(), Some("1a2b3c4d")).verdict, Verdict::Problem);
    }
}
