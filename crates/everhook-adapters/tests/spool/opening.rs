//! Who may open a spool, and what is in it.

use everhook_adapters::sqlite::OpenError;
use everhook_core::ports::Spool;

use super::*;

#[tokio::test]
async fn a_spool_belongs_to_one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(&folder);
    assert!(matches!(SqliteSpool::open(settings(&folder, ROOMY)), Err(OpenError::InUse { .. })));
    drop(first);
    open(&folder);
}

#[cfg(unix)]
#[tokio::test]
async fn its_folder_and_its_file_are_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let _spool = open(&folder);
    let mode = |path: &str| std::fs::metadata(folder.path().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("spool"), mode("spool/spool.db")), (0o700, 0o600));
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("spool")).unwrap();
    std::fs::write(folder.path().join("spool/spool.db"), vec![b'x'; 8_192]).unwrap();
    assert!(matches!(SqliteSpool::open(settings(&folder, ROOMY)), Err(OpenError::Foreign { .. })));
}

#[tokio::test]
async fn what_was_forwarded_leaves_no_copy_in_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(&folder);
    let mut secret = event("secret");
    secret.event.data = Bytes::from_static(b"\"the-quick-brown-fox\"");
    spool.take(vec![secret]).await.unwrap();
    let position = spool.oldest(spool.applications(), 1).await.unwrap()[0].position;
    spool.forwarded(vec![position]).await.unwrap();
    drop(spool);
    for file in std::fs::read_dir(folder.path().join("spool")).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(19).any(|part| part == b"the-quick-brown-fox"));
    }
}
