//! Files that are whole or as they were, and their hashes.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// Hash of a file, as lower-case hexadecimal digits.
pub fn sha256(path: &Path) -> Result<String> {
    let fail = |said| Error::io(path, said);
    let mut file = File::open(path).map_err(fail)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(fail)? {
            0 => break,
            count => hasher.update(&buffer[..count]),
        }
    }
    let digest = hasher.finalize();
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes a file in one go: a temporary file beside it takes its name once everything is on disk.
pub fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    let written = File::create(&partial)
        .and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&partial, path));
    written.map_err(|said| {
        // The first error is the one to report; the partial file may not even exist.
        let _ = fs::remove_file(&partial);
        Error::io(path, said)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_or_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        replace(&path, b"one").unwrap();
        replace(&path, b"abc").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        // The well-known digest of "abc".
        assert!(
            sha256(&path)
                .unwrap()
                .starts_with("ba7816bf8f01cfea414140de5dae2223")
        );
        assert!(replace(&folder.path().join("none/b.txt"), b"x").is_err());
    }
}
