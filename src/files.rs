//! Atomic writing and bounded reading of files, their SHA-256 hashes, and space on disks.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// SHA-256 of a file's content, as lower-case hexadecimal digits.
pub fn sha256(path: &Path) -> Result<String> {
    let fail = |source| Error::io(path, source);
    let mut file = open_regular(path)?;
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

/// Opens a file for reading, but nothing else: a named pipe would wait for its writer for ever, and a device has no end.
pub fn open_regular(path: &Path) -> Result<File> {
    let fail = |source| Error::io(path, source);
    let about = std::fs::metadata(path).map_err(fail)?;
    if !about.is_file() {
        let problem = "this is not an ordinary file";
        return Err(fail(std::io::Error::other(problem)));
    }
    File::open(path).map_err(fail)
}

/// The path of a file in a folder that may come from a stranger. Fails if it is a link to something outside of the folder.
/// In the cache of a hub, the files of a folder in `snapshots` are links to `blobs` beside it.
pub fn inside(folder: &Path, name: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    // What does not exist is reported when it is opened.
    let (Ok(target), Ok(folder)) = (path.canonicalize(), folder.canonicalize()) else {
        return Ok(path);
    };
    let snapshots = folder
        .parent()
        .filter(|parent| parent.file_name().is_some_and(|name| name == "snapshots"));
    let blobs = snapshots
        .and_then(Path::parent)
        .map(|cache| cache.join("blobs"));
    if target.starts_with(&folder) || blobs.is_some_and(|blobs| target.starts_with(blobs)) {
        return Ok(path);
    }
    let problem = format!(
        "this is a link to {}, which is outside of the folder; copy that file into the folder if you trust it",
        target.display()
    );
    Err(Error::io(&path, std::io::Error::other(problem)))
}

/// Reads an ordinary file of at most `limit` bytes as text.
pub fn read_text(path: &Path, limit: u64) -> Result<String> {
    read_bounded(open_regular(path)?, path, limit)
}

/// Like [`read_text`], for a file that the user names, which may be a pipe such as `<(command)` of a shell.
pub fn read_stream_text(path: &Path, limit: u64) -> Result<String> {
    let file = File::open(path).map_err(|source| Error::io(path, source))?;
    read_bounded(file, path, limit)
}

fn read_bounded(file: File, path: &Path, limit: u64) -> Result<String> {
    let fail = |source| Error::io(path, source);
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(fail)?;
    if bytes.len() as u64 > limit {
        let problem =
            format!("the file is longer than {limit} bytes, which is more than such a file needs");
        return Err(fail(std::io::Error::new(
            std::io::ErrorKind::FileTooLarge,
            problem,
        )));
    }
    String::from_utf8(bytes).map_err(|problem| fail(std::io::Error::other(problem.utf8_error())))
}

/// Writes a file atomically: it has either the new content or, after an error or a crash, the previous one.
pub fn write_atomic(path: &Path, content: &[u8]) -> Result<()> {
    write_atomic_with(path, |file| {
        let written = file.write_all(content);
        written.map_err(|source| Error::io(path, source))
    })
}

/// Like [`write_atomic`], for content that is produced by a closure. When the closure fails, the file stays as it was.
///
/// The content goes into a temporary file in the same folder, is flushed to disk, and then renamed to `path`.
pub fn write_atomic_with<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> Result<T>,
) -> Result<T> {
    let fail = |source| Error::io(path, source);
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        let problem = format!("the folder {} does not exist; create it", folder.display());
        return Err(fail(std::io::Error::new(
            std::io::ErrorKind::NotFound,
            problem,
        )));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = create_temporary(folder, &format!(".{name}.")).map_err(fail)?;
    let mut writer = BufWriter::new(temporary.as_file());
    let result = write(&mut writer)?;
    writer.flush().map_err(fail)?;
    drop(writer);
    temporary.as_file().sync_all().map_err(fail)?;
    temporary
        .persist(path)
        .map_err(|problem| fail(problem.error))?;
    sync_folder(folder);
    Ok(result)
}

/// A temporary file with the permissions of an ordinary new file; by default only its owner could read it.
fn create_temporary(folder: &Path, prefix: &str) -> std::io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).suffix(".partial");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The process's umask is subtracted, as for `File::create`.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}

/// Makes a rename durable. Not every file system can flush a folder, and the file itself is complete, so errors are
/// ignored.
fn sync_folder(folder: &Path) {
    if cfg!(unix)
        && let Ok(folder) = File::open(folder)
    {
        let _ = folder.sync_all();
    }
}

/// Free space in bytes on the disk of an existing file or folder, where the system reports it.
#[allow(unsafe_code)]
pub fn available_space(path: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let path = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
        let mut disk = std::mem::MaybeUninit::<libc::statvfs>::uninit();
        // SAFETY: the path ends with a zero byte, and statvfs fills the structure when it returns 0.
        let disk = unsafe {
            (libc::statvfs(path.as_ptr(), disk.as_mut_ptr()) == 0).then(|| disk.assume_init())
        }?;
        // The types of the fields differ between systems.
        #[allow(clippy::unnecessary_cast)]
        Some((disk.f_bavail as u64).saturating_mul(disk.f_frsize as u64))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_or_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        write_atomic(&path, b"one").unwrap();
        write_atomic(&path, b"abc").unwrap();
        // The well-known digest of "abc".
        let digest = "ba7816bf8f01cfea414140de5dae2223";
        assert!(sha256(&path).unwrap().starts_with(digest));
        let failed: Result<()> = write_atomic_with(&path, |file| {
            file.write_all(b"half").unwrap();
            Err(Error::Config("stop".into()))
        });
        assert!(failed.is_err());
        assert!(sha256(&path).unwrap().starts_with(digest));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_atomic(&folder.path().join("none/b.txt"), b"x").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_out_of_a_folder_are_refused() {
        use std::os::unix::fs::symlink;
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        for folder in ["model/sub", "cache/snapshots/1", "cache/blobs"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        for file in ["model/a", "model/sub/b", "cache/blobs/c", "secret"] {
            std::fs::write(at(file), "x").unwrap();
        }
        symlink("a", at("model/within")).unwrap();
        symlink(at("secret"), at("model/out")).unwrap();
        symlink(base.path(), at("model/up")).unwrap();
        symlink("nowhere", at("model/dangling")).unwrap();
        symlink("../../blobs/c", at("cache/snapshots/1/c")).unwrap();
        symlink(at("secret"), at("cache/snapshots/1/out")).unwrap();
        symlink(at("model"), at("other")).unwrap();
        for name in ["a", "sub/b", "within", "missing", "dangling"] {
            assert_eq!(inside(&at("model"), name).unwrap(), at("model").join(name));
        }
        inside(&at("other"), "a").unwrap();
        inside(&at("cache/snapshots/1"), "c").unwrap();
        for (folder, name) in [
            ("model", "out"),
            ("model", "up/secret"),
            ("cache/snapshots/1", "out"),
        ] {
            let problem = inside(&at(folder), name).unwrap_err().chain();
            assert!(problem.contains("outside of the folder"), "{problem}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn permissions_are_those_of_a_new_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (atomic, plain) = (folder.path().join("a"), folder.path().join("b"));
        write_atomic(&atomic, b"x").unwrap();
        std::fs::write(&plain, b"x").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
        assert_eq!(mode(&atomic), mode(&plain));
    }
}
