//! The archive in a folder: what is added is on disk and can be read back, encrypted data only with its key, and a disk that refuses costs nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use everhook_adapters::{
    archive::{self, FILE_SUFFIX, FolderArchive, ReadError, ReadFile},
    vault::AesVault,
};
use everhook_core::{
    ids::SourceId,
    model::{DeathCause, Stage},
    ports::{Archive, ArchiveRecord, History, Vault},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::sqlite::conformance::given::{Given, NOW, after, failure, id, settlement, success};

const MARKER: &str = "a-very-private-marker";

fn vault(key: u8) -> Arc<dyn Vault> {
    Arc::new(AesVault::from_key([key; 32]))
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn files(folder: &TempDir) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// All records of a file, and what was found.
fn read(file: &Path, key: Option<u8>) -> (Vec<Value>, ReadFile) {
    let mut lines = Vec::new();
    let vault = key.map(vault);
    let found = archive::read(file, vault.as_deref(), |line| {
        lines.push(serde_json::from_str(line).unwrap());
        Ok(())
    });
    (lines, found.unwrap())
}

/// A dead letter with its event and delivery, and an event of a source with its: what is archived of either.
async fn records(given: &Given) -> Vec<ArchiveRecord> {
    let (event, dead) = given.published().await;
    let died = settlement(dead, given.endpoint, failure(1), Stage::Dead { at: after(5), cause: DeathCause::RetriesExhausted });
    given.store.settle(Arc::new(vec![died])).await.unwrap();
    let mut new = given.received_event(SourceId::from_uuid(id()), "user-7").await;
    new.event.sealed = true;
    new.event.data = Bytes::from(format!("{{\"n\": 1.50,\n \"text\": \"{MARKER}\"}}"));
    let (received, delivered) = (new.event.id, new.deliveries[0].id);
    given.record(new).await;
    given.store.settle(Arc::new(vec![settlement(delivered, given.endpoint, success(1), Stage::Delivered { at: after(6) })])).await.unwrap();
    let organization = given.organization;
    let letter = given.store.dead_letter(organization, dead).await.unwrap().unwrap();
    let mut records = vec![ArchiveRecord::DeadLetter(Box::new(letter))];
    for (event, delivery) in [(event, dead), (received, delivered)] {
        let (summary, event) = History::event(&*given.store, organization, event).await.unwrap().unwrap();
        records.push(ArchiveRecord::Event { organization, summary, event: event.map(Box::new) });
        let (delivery, attempts) = given.store.delivery(organization, delivery).await.unwrap().unwrap();
        records.push(ArchiveRecord::Delivery(Box::new(delivery), attempts));
    }
    records.push(ArchiveRecord::UnreadableEvent { organization, event: received });
    records
}

#[tokio::test]
async fn what_is_archived_is_read_back_and_what_is_encrypted_in_the_store_needs_its_key() {
    let (given, folder) = (Given::new().await, folder());
    let archive = FolderArchive::new(folder.path().join("below"), vault(1));
    assert_eq!(archive.status().written_at, None);
    archive.append(NOW, records(&given).await).await.unwrap();
    assert_eq!((archive.status().written_at, archive.status().failing), (Some(NOW), None));
    let below = fs::read_dir(folder.path().join("below")).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    assert_eq!(below.len(), 1);
    let name = below[0].file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name.starts_with("2023-11-14T221320Z-") && name.ends_with(FILE_SUFFIX), "{name}");
    let (lines, found) = read(&below[0], Some(1));
    assert_eq!(found, ReadFile { records: 6, unopened: 0, is_cut_off: false });
    let kinds: Vec<_> = lines.iter().map(|line| line["record"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["dead_letter", "event", "delivery", "event", "delivery", "event"]);
    assert_eq!((&lines[0]["reason"], &lines[0]["event_id"]), (&json!("retries_exhausted"), &lines[1]["id"]));
    // Published data is as it was in the store, byte for byte.
    assert_eq!((&lines[1]["data"], &lines[1]["sealed"]), (&json!("{\"id\": 1}"), &Value::Null));
    assert_eq!((&lines[4]["status"], &lines[4]["attempts"][0]["attempt_number"]), (&json!("delivered"), &json!(1)));
    assert_eq!(lines[3]["data"], json!(format!("{{\"n\": 1.50,\n \"text\": \"{MARKER}\"}}")));
    assert_eq!(lines[3]["headers"][0], json!(["x-request-id", "a-very-private-thing"]));
    assert_eq!((&lines[3]["external_user_id"], &lines[3]["archived_at"]), (&json!("user-7"), &json!(NOW.to_string())));
    assert_eq!(lines[5]["unreadable"], true);
    // Without the key, or with another, it stays as it is, and says which key it needs.
    for key in [None, Some(2)] {
        let (lines, found) = read(&below[0], key);
        assert_eq!((found.records, found.unopened), (6, 1));
        assert!(!lines.iter().any(|line| line.to_string().contains(MARKER) || line.to_string().contains("private-thing")));
        assert_eq!(lines[3]["sealed"]["key_id"], json!(vault(1).keys().in_use.to_string()));
    }
}

#[tokio::test]
async fn a_file_that_a_crash_cut_off_is_read_as_far_as_it_goes_and_the_next_process_begins_another() {
    let (given, folder) = (Given::new().await, folder());
    let records = records(&given).await;
    let archive = FolderArchive::new(folder.path().to_owned(), vault(1));
    archive.append(NOW, records.clone()).await.unwrap();
    archive.append(after(1), records.clone()).await.unwrap();
    drop(archive);
    let first = files(&folder);
    assert_eq!((first.len(), read(&first[0], None).1.records), (1, 12));
    let whole = fs::read(&first[0]).unwrap();
    fs::write(&first[0], &whole[..whole.len() - 9]).unwrap();
    let (lines, found) = read(&first[0], Some(1));
    assert!(found.is_cut_off && (6..=12).contains(&lines.len()), "{found:?}");
    let archive = FolderArchive::new(folder.path().to_owned(), vault(1));
    archive.append(after(2), records).await.unwrap();
    assert_eq!(files(&folder).len(), 2);
    assert_eq!(fs::read(&first[0]).unwrap().len(), whole.len() - 9, "a file of another process is left alone");
}

#[tokio::test]
async fn each_day_has_files_of_its_own() {
    let (given, folder) = (Given::new().await, folder());
    let archive = FolderArchive::new(folder.path().to_owned(), vault(1));
    let records = records(&given).await;
    for seconds in [0, 60, 86_400, 86_460] {
        archive.append(after(seconds), records.clone()).await.unwrap();
    }
    let counts: Vec<_> = files(&folder).iter().map(|file| read(file, None).1.records).collect();
    assert_eq!(counts, [12, 12]);
}

#[tokio::test]
async fn a_disk_that_refuses_is_told_since_when_and_used_again_when_it_takes_something() {
    let (given, folder) = (Given::new().await, folder());
    let place = folder.path().join("archive");
    fs::write(&place, "in the way").unwrap();
    let archive = FolderArchive::new(place.clone(), vault(1));
    let records = records(&given).await;
    for seconds in [0, 60] {
        let error = archive.append(after(seconds), records.clone()).await.unwrap_err();
        assert!(error.to_string().contains("archive"), "{error}");
    }
    let status = archive.status();
    assert_eq!((status.written_at, status.failing.as_ref().map(|(since, _)| *since)), (None, Some(NOW)), "{status:?}");
    fs::remove_file(&place).unwrap();
    archive.append(after(120), records).await.unwrap();
    assert_eq!((archive.status().written_at, archive.status().failing), (Some(after(120)), None));
}

#[test]
fn what_is_no_archive_is_refused() {
    let folder = folder();
    let file = folder.path().join("other.zst");
    fs::write(&file, zstd::encode_all(&b"hello\n"[..], 1).unwrap()).unwrap();
    assert!(matches!(archive::read(&file, None, |_| Ok(())), Err(ReadError::Line(1))));
    fs::write(&file, "hello, this is plain text").unwrap();
    assert!(matches!(archive::read(&file, None, |_| Ok(())), Err(ReadError::Io(_))));
}
