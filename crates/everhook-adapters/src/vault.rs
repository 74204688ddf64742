//! Seals secrets with AES-256-GCM-SIV, and keeps the key of the embedded store in a file.
//!
//! A sealed value is: format version (1 byte), key id (4), nonce (12), ciphertext and tag. The owner's id is authenticated with it, so that
//! a value moved to another row does not open. Nothing here may ever log or print a key.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use aws_lc_rs::{
    aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    digest, rand,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use everhook_core::{
    model::{SealKeyId, SealedSecret},
    ports::{Vault, VaultError, VaultKeys},
};
use uuid::Uuid;

/// The file in the data folder that holds the key, unless it is kept elsewhere.
pub const KEY_FILE: &str = "seal.key";

/// The length of a sealing key.
pub const KEY_BYTES: usize = 32;

const FORMAT_VERSION: u8 = 1;
const KEY_ID_BYTES: usize = 4;
const HEADER_BYTES: usize = 1 + KEY_ID_BYTES + NONCE_LEN;

/// A key file is 44 characters; one that is longer than this is something else.
const KEY_FILE_BYTES_MAX: u64 = 1_024;

/// Sealing keys: one that seals, and others that open what they have sealed. Nonces are random: the SIV mode stays safe even if two were ever equal.
pub struct AesVault {
    /// The one that the operator wants to be used is the first. Few: they are looked through for each value.
    keys: Vec<Key>,
    /// Which one seals.
    in_use: AtomicUsize,
}

struct Key {
    key: LessSafeKey,
    id: SealKeyId,
}

impl Key {
    fn new(bytes: &[u8; KEY_BYTES]) -> Self {
        let unbound = UnboundKey::new(&AES_256_GCM_SIV, bytes).expect("every 32 bytes are an AES-256 key");
        let hash = digest::digest(&digest::SHA256, bytes);
        let mut id = [0; KEY_ID_BYTES];
        id.copy_from_slice(&hash.as_ref()[..KEY_ID_BYTES]);
        Self { key: LessSafeKey::new(unbound), id: SealKeyId(id) }
    }
}

/// Why there is no vault, in words for the operator.
#[derive(Debug, thiserror::Error)]
pub enum VaultSetupError {
    /// The text is not a key.
    #[error("a sealing key must be base64 of exactly {KEY_BYTES} bytes (44 characters)")]
    NotAKey,
    /// The file holds something else.
    #[error("{} does not contain a sealing key: expected base64 of exactly {KEY_BYTES} bytes (44 characters)", .0.display())]
    NotAKeyFile(PathBuf),
    /// The file could not be read.
    #[error("cannot read the sealing key in {}", .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    /// The file could not be made.
    #[error("cannot write a sealing key to {}", .0.display())]
    Unwritable(PathBuf, #[source] io::Error),
}

impl AesVault {
    /// A vault with the key given.
    pub fn from_key(key: [u8; KEY_BYTES]) -> Self {
        Self { keys: vec![Key::new(&key)], in_use: AtomicUsize::new(0) }
    }

    /// The same vault with one more key, which opens what it has sealed. One that it has already changes nothing.
    #[must_use]
    pub fn with_old_key(mut self, key: [u8; KEY_BYTES]) -> Self {
        let key = Key::new(&key);
        if !self.has(key.id) {
            self.keys.push(key);
        }
        self
    }

    /// A vault with the key in the file at `path`, which is made with a random key (mode 0600) if it does not exist.
    ///
    /// The caller holds the lock of the data folder: two processes that made the file at the same moment would seal with different keys.
    ///
    /// # Errors
    /// [`VaultSetupError`] if the file cannot be read or made, or holds no key. An existing file is never overwritten.
    pub fn load_or_create(path: &Path) -> Result<Self, VaultSetupError> {
        match read_key_file(path) {
            Ok(text) => Ok(Self::from_key(key_in_file(path, &text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut key = [0; KEY_BYTES];
                fill_random(&mut key);
                write_whole(path, &format!("{}\n", BASE64_STANDARD.encode(key)))
                    .map_err(|error| VaultSetupError::Unwritable(path.to_owned(), error))?;
                Ok(Self::from_key(key))
            }
            Err(error) => Err(VaultSetupError::Unreadable(path.to_owned(), error)),
        }
    }

    /// The id of the key that the operator wants to be used.
    pub fn key_id(&self) -> SealKeyId {
        self.keys[0].id
    }

    /// Whether it has this key, to seal with or to open with.
    pub fn has(&self, id: SealKeyId) -> bool {
        self.keys.iter().any(|key| key.id == id)
    }

    fn in_use(&self) -> &Key {
        &self.keys[self.in_use.load(Ordering::Acquire)]
    }
}

/// The key in a file that must be there.
///
/// # Errors
/// [`VaultSetupError`] if the file cannot be read, or holds no key.
pub fn read_key(path: &Path) -> Result<[u8; KEY_BYTES], VaultSetupError> {
    let text = read_key_file(path).map_err(|error| VaultSetupError::Unreadable(path.to_owned(), error))?;
    key_in_file(path, &text)
}

fn key_in_file(path: &Path, text: &str) -> Result<[u8; KEY_BYTES], VaultSetupError> {
    warn_if_others_can_read(path);
    parse_key(text).map_err(|_| VaultSetupError::NotAKeyFile(path.to_owned()))
}

/// The id of the key that a value says it was sealed with.
fn key_of(sealed: &SealedSecret) -> Option<SealKeyId> {
    let (version, rest) = sealed.0.split_first()?;
    let id = rest.first_chunk::<KEY_ID_BYTES>()?;
    (*version == FORMAT_VERSION).then_some(SealKeyId(*id))
}

/// Reads a sealing key as an operator writes it: base64 of 32 bytes, blanks around it ignored.
///
/// # Errors
/// [`VaultSetupError::NotAKey`] if it is anything else.
pub fn parse_key(text: &str) -> Result<[u8; KEY_BYTES], VaultSetupError> {
    let bytes = BASE64_STANDARD.decode(text.trim()).map_err(|_| VaultSetupError::NotAKey)?;
    bytes.try_into().map_err(|_| VaultSetupError::NotAKey)
}

impl Vault for AesVault {
    fn seal(&self, owner: &Uuid, plain: &[u8]) -> SealedSecret {
        let mut nonce = [0; NONCE_LEN];
        fill_random(&mut nonce);
        let mut encrypted = plain.to_vec();
        let Key { key, id } = self.in_use();
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(owner.as_bytes()), &mut encrypted)
            .expect("a secret is far below the 64 GiB that one message may have");
        let mut sealed = Vec::with_capacity(HEADER_BYTES + encrypted.len());
        sealed.push(FORMAT_VERSION);
        sealed.extend_from_slice(&id.0);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&encrypted);
        SealedSecret(sealed)
    }

    fn open(&self, owner: &Uuid, sealed: &SealedSecret) -> Result<Vec<u8>, VaultError> {
        let (header, encrypted) = sealed.0.split_at_checked(HEADER_BYTES).ok_or(VaultError)?;
        let id = key_of(sealed).ok_or(VaultError)?;
        let Key { key, .. } = self.keys.iter().find(|key| key.id == id).ok_or(VaultError)?;
        let nonce = Nonce::try_assume_unique_for_key(&header[1 + KEY_ID_BYTES..]).map_err(|_| VaultError)?;
        let mut buffer = encrypted.to_vec();
        let plain_len = key.open_in_place(nonce, Aad::from(owner.as_bytes()), &mut buffer).map_err(|_| VaultError)?.len();
        buffer.truncate(plain_len);
        Ok(buffer)
    }

    fn reseal(&self, owner: &Uuid, sealed: &SealedSecret) -> Result<Option<SealedSecret>, VaultError> {
        if key_of(sealed) == Some(self.in_use().id) {
            return Ok(None);
        }
        Ok(Some(self.seal(owner, &self.open(owner, sealed)?)))
    }

    fn keys(&self) -> VaultKeys {
        VaultKeys { wanted: self.key_id(), in_use: self.in_use().id, has_others: self.keys.len() > 1 }
    }

    fn seal_with_key(&self, id: SealKeyId) -> bool {
        let Some(at) = self.keys.iter().position(|key| key.id == id) else { return false };
        self.in_use.store(at, Ordering::Release);
        true
    }
}

fn read_key_file(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > KEY_FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too large for a sealing key"));
    }
    fs::read_to_string(path)
}

/// Makes a file for its owner alone. Writes beside the place, then renames: whenever the machine stops, the file is whole or not there.
///
/// # Errors
/// If it cannot be written.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        // What an earlier start left behind was never used.
        Ok(()) | Err(_) => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    sync_folder_of(path)
}

/// The rename itself is durable only once the folder is.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}

#[cfg(unix)]
fn warn_if_others_can_read(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o077 != 0 {
        tracing::warn!(path = %path.display(), "the file of the sealing key is readable by other users; run `chmod 600` on it");
    }
}

#[cfg(not(unix))]
fn warn_if_others_can_read(_path: &Path) {}

fn fill_random(bytes: &mut [u8]) {
    rand::fill(bytes).expect("the operating system's random generator does not fail once the machine has started");
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Uuid = Uuid::from_u128(7);

    #[test]
    fn a_secret_opens_for_its_owner_and_looks_different_each_time() {
        let vault = AesVault::from_key([1; 32]);
        for plain in [&b""[..], b"whsec_abc", &[0; 1_000]] {
            let sealed = vault.seal(&OWNER, plain);
            assert_eq!(vault.open(&OWNER, &sealed).as_deref(), Ok(plain));
            assert_ne!(sealed, vault.seal(&OWNER, plain));
        }
    }

    #[test]
    fn a_secret_does_not_open_for_another_owner_or_with_another_key() {
        let sealed = AesVault::from_key([1; 32]).seal(&OWNER, b"secret");
        assert_eq!(AesVault::from_key([1; 32]).open(&Uuid::from_u128(8), &sealed), Err(VaultError));
        assert_eq!(AesVault::from_key([2; 32]).open(&OWNER, &sealed), Err(VaultError));
    }

    #[test]
    fn what_an_old_key_sealed_opens_and_is_sealed_again_with_the_one_in_use() {
        let (old, vault) = (AesVault::from_key([1; 32]), AesVault::from_key([2; 32]).with_old_key([1; 32]).with_old_key([1; 32]));
        let (wanted, before) = (vault.key_id(), old.key_id());
        assert_eq!(vault.keys(), VaultKeys { wanted, in_use: wanted, has_others: true });
        let sealed = old.seal(&OWNER, b"secret");
        assert_eq!(vault.open(&OWNER, &sealed).as_deref(), Ok(&b"secret"[..]));
        let again = vault.reseal(&OWNER, &sealed).unwrap().unwrap();
        assert_eq!((old.open(&OWNER, &again), vault.open(&OWNER, &again).as_deref()), (Err(VaultError), Ok(&b"secret"[..])));
        assert_eq!(vault.reseal(&OWNER, &again), Ok(None));
        assert_eq!(vault.reseal(&Uuid::from_u128(8), &sealed), Err(VaultError));
        // The store may say that the old one is still to be used.
        assert!(vault.seal_with_key(before) && !vault.seal_with_key(SealKeyId([0; 4])));
        assert_eq!(vault.keys(), VaultKeys { wanted, in_use: before, has_others: true });
        assert_eq!(old.open(&OWNER, &vault.seal(&OWNER, b"x")).as_deref(), Ok(&b"x"[..]));
    }

    #[test]
    fn a_damaged_secret_does_not_open_whichever_byte_is_hit_or_missing() {
        let vault = AesVault::from_key([1; 32]);
        let sealed = vault.seal(&OWNER, b"secret").0;
        for at in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert_eq!(vault.open(&OWNER, &SealedSecret(damaged)), Err(VaultError), "byte {at} was changed");
            assert_eq!(vault.open(&OWNER, &SealedSecret(sealed[..at].to_vec())), Err(VaultError), "cut to {at} bytes");
        }
    }

    #[test]
    fn the_key_file_is_made_once_and_only_its_owner_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seal.key");
        let first = AesVault::load_or_create(&path).unwrap();
        let second = AesVault::load_or_create(&path).unwrap();
        assert_eq!(first.key_id(), second.key_id());
        assert_eq!(second.open(&OWNER, &first.seal(&OWNER, b"secret")).unwrap(), b"secret");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_half_written_key_file_of_an_earlier_start_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("seal.key.new"), "half").unwrap();
        assert!(AesVault::load_or_create(&folder.path().join("seal.key")).is_ok());
    }

    #[test]
    fn a_file_that_holds_no_key_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seal.key");
        for content in ["", "not base64!", "c2hvcnQ=", &"A".repeat(5_000)] {
            fs::write(&path, content).unwrap();
            let error = AesVault::load_or_create(&path).err().unwrap().to_string();
            assert!(error.contains("seal.key"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert!(AesVault::load_or_create(&folder.path().join("no/such/folder/seal.key")).is_err());
    }

    #[test]
    fn a_key_is_read_as_base64_of_32_bytes() {
        assert_eq!(parse_key(&format!(" {}\n", BASE64_STANDARD.encode([9; 32]))).unwrap(), [9; 32]);
        assert!(parse_key(&BASE64_STANDARD.encode([9; 31])).is_err());
        assert!(parse_key("").is_err());
    }
}
