//! Starts that cannot succeed, and what they say: the cause first, with the place, and never a password.

use std::{fs, path::Path};

use everhook::cli::client::Connection;
use everhook_testbed::{
    database::{Database, SEAL_KEY},
    node::{ADMIN_KEY, Node},
};
use http::Method;
use serde_json::json;
use tempfile::TempDir;
use tokio_postgres::NoTls;
use uuid::Uuid;

use super::{run, scratch, stderr, stdout};

fn folder() -> TempDir {
    tempfile::tempdir_in(scratch()).expect("a folder")
}

/// The address of another database of the same server.
fn beside(database: &Database, name: &str) -> String {
    let url = database.url();
    format!("{}/{name}", url.rsplit_once('/').expect("a path").0)
}

/// Starts a server that must not come up, with a folder of its own, and returns what it says.
async fn refusal(data: &Path, flags: &[&str]) -> String {
    let data = data.display().to_string();
    let output = run(&[&["serve", "--listen", "127.0.0.1:0", "--data", &data], flags].concat()).await;
    assert_eq!(output.status.code(), Some(1), "{}{}", stdout(&output), stderr(&output));
    // The last line: the log is before it.
    stderr(&output).lines().last().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_be_used_is_named_with_the_cause_and_without_the_password() {
    let (data, database) = (folder(), Database::create().await);
    let (missing, there) = (beside(&database, "there_is_no_such_database"), database.url());
    let with_root = format!("{there}?sslrootcert=/nowhere.pem");
    let verified = format!("{there}?sslmode=verify-full&sslrootcert=/nowhere.pem");
    let table = [
        (&*missing, "/there_is_no_such_database: PostgreSQL refuses: database \"there_is_no_such_database\" does not exist"),
        ("postgres://u:hunter2@127.0.0.1:9/d", "everhook: cannot use the database 127.0.0.1:9/d: cannot reach PostgreSQL: "),
        ("postgres://u:hunter2@there.invalid/d", "everhook: cannot use the database there.invalid:5432/d: cannot reach PostgreSQL: "),
        ("postgres://u:hun@ter2@127.0.0.1/d", "has more than one `@`: write those of the password as %40"),
        ("postgres://u:hunter2@h/d?sslmode=maybe", "invalid database address"),
        (&*with_root, "needs `sslmode=verify-full`"),
        (&*verified, "cannot use the file /nowhere.pem of `sslrootcert`"),
    ];
    for (url, words) in table {
        let said = refusal(data.path(), &["--database", url, "--seal-key", SEAL_KEY]).await;
        assert!(said.contains(words) && !said.contains("hunter2") && !said.contains("ter2"), "{url}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_named_with_the_way_out() {
    // Given a store whose file is damaged behind its first page.
    let mut node = Node::new(scratch());
    node.start();
    node.wait_until_ready().await;
    node.ask_to_stop();
    node.wait_until_ended().await;
    let file = node.data().join("everhook.db");
    for beside in ["everhook.db-wal", "everhook.db-shm"] {
        _ = fs::remove_file(node.data().join(beside));
    }
    let mut bytes = fs::read(&file).expect("the file");
    bytes.iter_mut().skip(100).for_each(|byte| *byte = 0xa5);
    fs::write(&file, bytes).expect("written");
    // Then the start says which, and what to do.
    let said = refusal(&node.data(), &[]).await;
    for words in ["everhook.db is damaged", "restore a backup", "--data", "docs/operating.md"] {
        assert!(said.contains(words), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_store_without_its_key_is_refused_with_the_way_out_and_takes_the_right_key_afterwards() {
    // Given a store with a secret in it, and a backup of it without the key.
    let mut node = Node::new(scratch());
    node.start();
    node.wait_until_ready().await;
    let endpoint = json!({ "url": "http://127.0.0.1:9/", "event_types": ["order.paid"] });
    let made = Connection::new(node.server()).ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.expect("an endpoint");
    node.ask_to_stop();
    node.wait_until_ended().await;
    let (key, kept) = (node.data().join("seal.key"), node.data().with_file_name("kept.key"));
    let folder = fs::read_dir(node.data()).expect("its folder").map(|file| file.expect("a file").path());
    let only_the_store = folder.filter(|file| !["everhook.db", "seal.key"].iter().any(|name| file.ends_with(name)));
    only_the_store.for_each(|file| fs::remove_file(file).expect("it is not in the backup"));
    fs::rename(&key, &kept).expect("the key is left behind");
    // When it is started, it says which key is missing, where it is looked for and how to bring it, and makes none.
    let said = refusal(&node.data(), &[]).await;
    let words = format!("but {} does not exist: supply the key that belongs to this store", key.display());
    assert!(
        said.contains("are encrypted with the sealing key ") && said.contains(&words) && said.contains("EVERHOOK_SEAL_KEY_FILE"),
        "{said}"
    );
    assert!(!key.exists());
    let said = refusal(&node.data(), &["--seal-key", SEAL_KEY]).await;
    assert!(said.contains("EVERHOOK_SEAL_KEY is the key "), "{said}");
    // The right key is accepted then, and opens the secret.
    fs::rename(&kept, &key).expect("the key is brought");
    node.start();
    node.wait_until_ready().await;
    let secret = format!("/v1/endpoints/{}/secret", made["id"].as_str().expect("its id"));
    let shown = Connection::new(node.server()).ask(Method::GET, &secret, None).await.expect("the secret");
    assert_eq!(shown["secret"], made["secret"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_empty_or_somebody_elses_is_named_with_the_remedy() {
    let data = folder();
    let file = data.path().join("everhook.db");
    fs::write(&file, "").expect("a file");
    fs::write(data.path().join("seal.key"), SEAL_KEY).expect("a key");
    let said = refusal(data.path(), &[]).await;
    assert!(said.contains(&format!("{} is empty, but ", file.display())) && said.contains("restore the file from a backup"), "{said}");
    fs::write(&file, "somebody else's".repeat(100)).expect("a file");
    let said = refusal(data.path(), &[]).await;
    assert!(said.contains(&format!("{} is not a SQLite database: name another folder", file.display())), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_another_encoding_is_refused() {
    let (data, database) = (folder(), Database::create().await);
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.expect("the server answers");
    let connection = tokio::spawn(connection);
    let name = format!("everhook_test_latin_{}", Uuid::now_v7().simple());
    client.batch_execute(&format!("CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")).await.expect("it is made");
    let said = refusal(data.path(), &["--database", &beside(&database, &name), "--seal-key", SEAL_KEY]).await;
    client.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.expect("it is dropped");
    drop(client);
    connection.await.expect("no panic").expect("a clean end");
    assert!(said.contains("its encoding is LATIN1, but must be UTF8"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_file_and_a_spool_folder_that_are_none_are_named() {
    let (data, database) = (folder(), Database::create().await);
    let file = data.path().join("file");
    fs::write(&file, "").expect("a file");
    let (url, file) = (database.url(), file.display().to_string());
    let said = refusal(data.path(), &["--database", &url, "--seal-key-file", "/nope"]).await;
    assert!(said.starts_with("everhook: /nope does not exist") && said.contains("Copy it from a working node"), "{said}");
    let said = refusal(data.path(), &["--database", &url, "--seal-key", SEAL_KEY, "--spool", &file]).await;
    assert_eq!(said, format!("everhook: cannot use the spool folder {file}: it is not a folder"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_its_database_refuses_ends_even_if_its_spool_knows_publishers() {
    let database = Database::create().await;
    let mut node = Node::new(scratch()).with_flags(["--database", &database.url(), "--seal-key", SEAL_KEY]);
    node.start();
    node.wait_until_ready().await;
    let event = json!({ "type": "order.paid", "data": 1 });
    Connection::new(node.server()).ask(Method::POST, "/v1/events", Some(&event)).await.expect("an event is taken");
    node.kill();
    let missing = beside(&database, "there_is_no_such_database");
    let said = refusal(&node.data(), &["--database", &missing, "--seal-key", SEAL_KEY]).await;
    assert!(said.contains("does not exist (3D000)"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_says_what_it_is_which_folder_it_does_not_use_and_which_role_it_lacks() {
    let database = Database::create().await;
    let mut node = Node::new(scratch()).with_flags(["--worker", "--database", &database.url(), "--seal-key", SEAL_KEY]);
    fs::create_dir_all(node.data()).expect("its folder");
    fs::write(node.data().join("everhook.db"), "").expect("a file");
    node.start();
    node.wait_until_ready().await;
    let publish = run(&["publish", "--url", &node.url(), "--key", ADMIN_KEY, "--type", "user.created", "--data", "1"]).await;
    assert!(stderr(&publish).contains("404: not found: /v1/events: this node does not have the role `api`"), "{}", stderr(&publish));
    let log = fs::read_to_string(node.data().with_file_name("server.log")).expect("a log");
    for words in ["roles worker, worker pool default, PostgreSQL ", "everhook.db is not used by this node", "`everhook migrate`"] {
        assert_eq!(log.matches(words).count(), 1, "`{words}` in:\n{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_read_is_pointed_at_and_never_quoted() {
    let folder = folder();
    let file = folder.path().join("everhook.toml");
    fs::write(&file, "listen = \"127.0.0.1:0\"\ndatabase = \"postgres://everhook:hunter2@h/db").expect("a file");
    let refused = run(&["config", "--config", &file.display().to_string()]).await;
    let said = stderr(&refused);
    assert!(said.contains("is not TOML (line 2, column ") && !said.contains("hunter2"), "{said}");
}
