//! What the log says when a node starts: what it is, and what should make its operator wonder. Called by `wiring`.

use everhook_adapters::{postgres, sqlite::DATABASE_FILE};

use crate::{
    config::{Config, NodeRoles},
    store::Store,
};

/// Says in one line what this node is there for, and where it keeps things.
pub fn tell(config: &Config, node: &str) {
    tracing::info!("node {node}: {}", description(config));
}

/// Warns of a data folder with a store in it that this node does not use, unless it is known that one was moved into the database.
pub async fn warn_of_unused_folder(config: &Config, store: &Store) {
    let Store::Shared(shared) = store else { return };
    let file = config.data.join(DATABASE_FILE);
    // A database that cannot be asked shows that elsewhere.
    if file.exists() && !shared.was_moved_in().await.unwrap_or(true) {
        let file = file.display();
        tracing::warn!(
            "{file} is not used by this node, which stores everything in PostgreSQL. To copy it into a new database, run `everhook migrate`"
        );
    }
}

fn description(config: &Config) -> String {
    let Some(database) = &config.database else { return format!("all roles, data folder {}", config.data.display()) };
    let mut parts = vec![roles(config.roles)];
    if config.roles.worker {
        parts.push(format!("worker pool {}", config.pool));
    }
    // It was read before, or the configuration would not be there.
    parts.push(format!("PostgreSQL {}", postgres::place(database.expose()).unwrap_or_default()));
    if let Some(spool) = &config.spool {
        parts.push(format!("spool folder {}", spool.folder.display()));
    }
    parts.join(", ")
}

fn roles(roles: NodeRoles) -> String {
    let names = [(roles.api, "api"), (roles.worker, "worker"), (roles.scheduler, "scheduler")];
    let has: Vec<&str> = names.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect();
    format!("roles {}", has.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServeArgs;

    #[test]
    fn a_node_says_what_it_is_there_for_and_never_a_password() {
        let text = |text: &str| Some(text.to_owned());
        let shared = ServeArgs { database: text("postgres://u:hunter2@db:5433/hooks"), data: text("/d"), ..ServeArgs::default() };
        let table = [
            (ServeArgs { data: text("/d"), ..ServeArgs::default() }, "all roles, data folder /d"),
            (shared.clone(), "roles api worker scheduler, worker pool default, PostgreSQL db:5433/hooks, spool folder /d/spool"),
            (
                ServeArgs { worker: text("true"), pool: text("heavy"), ..shared.clone() },
                "roles worker, worker pool heavy, PostgreSQL db:5433/hooks",
            ),
            (ServeArgs { api: text("true"), ..shared }, "roles api, PostgreSQL db:5433/hooks, spool folder /d/spool"),
        ];
        for (args, expected) in table {
            assert_eq!(description(&args.load_from([]).unwrap().config), expected);
        }
    }
}
