//! Unpacking of a model archive: a tar file, compressed or not, with the files of one model folder.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use tar::{Archive, Entry, EntryType};

use super::limits::largest_file;
use crate::data;
use crate::error::{Error, Result};
use crate::hub::is_safe_path;

/// Most entries of an archive.
const MOST_ENTRIES: usize = 1000;
/// Bytes of an archive besides the content of its files.
const OVERHEAD: u64 = 16 << 20;

/// Unpacks the files of an archive into an existing, empty folder: those at its top, or those of the one folder at its top.
/// Links, other special files, paths that leave the folder and files larger than the limits are refused; nothing is
/// allocated for a size that an entry only claims. Compression is recognised by the first bytes.
pub(super) fn unpack(archive: &Path, folder: &Path, largest: u64) -> Result<()> {
    let refused = |problem: String| {
        Error::model_folder(archive, format!("{problem}; do not use this archive"))
    };
    let damaged = |problem: std::io::Error| {
        Error::model_folder(
            archive,
            format!("the archive is cut, damaged or no tar file ({problem}); fetch it again"),
        )
    };
    // Longer streams end here; what is missing then is an error.
    let stream = data::open_stream(archive)?.take(largest.saturating_add(OVERHEAD));
    let mut tar = Archive::new(stream);
    let mut top: Option<Option<String>> = None;
    let mut total = 0u64;
    // Raw entries: extended headers, which may be of any length, are not read into memory.
    for (index, entry) in tar.entries().map_err(damaged)?.raw(true).enumerate() {
        let mut entry = entry.map_err(damaged)?;
        if index >= MOST_ENTRIES {
            return Err(refused(format!("it has more than {MOST_ENTRIES} entries")));
        }
        let Some(path) = file_path(&entry).map_err(refused)? else {
            continue;
        };
        let (parent, name) = match path.split_once('/') {
            Some((parent, name)) => (Some(parent.to_string()), name),
            None => (None, path.as_str()),
        };
        if name.contains('/') {
            return Err(refused(format!(
                "{path:?} is in a folder of a folder, which no model has"
            )));
        }
        // Files that macOS adds.
        if name.starts_with("._") {
            continue;
        }
        if *top.get_or_insert_with(|| parent.clone()) != parent {
            return Err(refused("it has files in several folders".into()));
        }
        let size = entry.size();
        total = total.saturating_add(size);
        let limit = largest_file(name, largest);
        if size > limit || total > largest {
            return Err(refused(format!(
                "{path} claims {size} bytes, more than the limit of {}",
                limit.min(largest)
            )));
        }
        write(&mut entry, &folder.join(name), size).map_err(|problem| match problem.kind() {
            std::io::ErrorKind::AlreadyExists => refused(format!("it has two files {name:?}")),
            _ => damaged(problem),
        })?;
    }
    Ok(())
}

/// The path of a file in the archive; `None` for a folder or a header without meaning here. An error says why the entry is
/// refused.
fn file_path<R: Read>(entry: &Entry<'_, R>) -> std::result::Result<Option<String>, String> {
    let path = entry.path_bytes();
    let path =
        std::str::from_utf8(&path).map_err(|_| "the name of an entry is not UTF-8".to_string())?;
    match entry.header().entry_type() {
        EntryType::Regular | EntryType::Continuous => {}
        EntryType::XHeader | EntryType::XGlobalHeader => return Ok(None),
        EntryType::Directory => {
            let path = path.trim_start_matches("./").trim_end_matches('/');
            return if path.is_empty() || is_safe_path(path) {
                Ok(None)
            } else {
                Err(format!(
                    "the folder {path:?} would be outside of the model's folder"
                ))
            };
        }
        EntryType::GNULongName => return Err("it has names longer than 100 bytes".into()),
        EntryType::Symlink | EntryType::Link => {
            return Err(format!(
                "{path:?} is a link; archives of models have files only"
            ));
        }
        _ => {
            return Err(format!(
                "{path:?} is a special file; archives of models have files only"
            ));
        }
    }
    let path = path.strip_prefix("./").unwrap_or(path);
    if is_safe_path(path) {
        Ok(Some(path.to_string()))
    } else {
        Err(format!(
            "the file {path:?} would be outside of the model's folder"
        ))
    }
}

/// Writes the content of an entry into a new file.
fn write<R: Read>(entry: &mut Entry<'_, R>, path: &Path, size: u64) -> std::io::Result<()> {
    let mut file = File::create_new(path)?;
    let written = std::io::copy(&mut entry.take(size), &mut file)?;
    if written != size {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tar::{Builder, Header};

    use super::*;

    /// A tar file of entries with a path, a type, a claimed size and a content.
    fn tar_file(entries: &[(&str, EntryType, u64, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (path, kind, size, content) in entries {
            let mut header = Header::new_ustar();
            header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(*size);
            header.set_mode(0o644);
            header.set_cksum();
            bytes.extend(header.as_bytes());
            bytes.extend(*content);
            bytes.resize(bytes.len().next_multiple_of(512), 0);
        }
        bytes.resize(bytes.len() + 1024, 0);
        bytes
    }

    fn unpacked(bytes: &[u8], largest: u64) -> std::result::Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("a.tar");
        fs::write(&archive, bytes).unwrap();
        let out = folder.path().join("out");
        fs::create_dir(&out).unwrap();
        unpack(&archive, &out, largest).map_err(|problem| problem.to_string())?;
        let mut names: Vec<String> = fs::read_dir(&out)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        Ok(names)
    }

    const FILE: EntryType = EntryType::Regular;

    #[test]
    fn files_of_one_folder_are_unpacked() {
        for prefix in ["", "./", "model/", "./model/"] {
            let [a, b] = ["a.json", "b"].map(|name| format!("{prefix}{name}"));
            let entries = [
                (&*a, FILE, 2, &b"{}"[..]),
                (&*b, FILE, 1, b"x"),
                ("pax", EntryType::XHeader, 3, b"abc"),
            ];
            assert_eq!(
                unpacked(&tar_file(&entries), 1000).unwrap(),
                ["a.json", "b"],
                "{prefix:?}"
            );
        }
        let mut builder = Builder::new(Vec::new());
        let mut header = Header::new_gnu();
        header.set_size(3);
        header.set_cksum();
        builder
            .append_data(&mut header, "model/config.json", &b"{ }"[..])
            .unwrap();
        let bytes = builder.into_inner().unwrap();
        assert_eq!(unpacked(&bytes, 1000).unwrap(), ["config.json"]);
        let gzip = {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&bytes).unwrap();
            encoder.finish().unwrap()
        };
        assert_eq!(unpacked(&gzip, 1000).unwrap(), ["config.json"]);
        assert!(
            unpacked(&gzip[..gzip.len() / 2], 1000)
                .unwrap_err()
                .contains("cut, damaged")
        );
        let zstd = ruzstd::encoding::compress_to_vec(
            &bytes[..],
            ruzstd::encoding::CompressionLevel::Fastest,
        );
        assert_eq!(unpacked(&zstd, 1000).unwrap(), ["config.json"]);
    }

    #[test]
    fn hostile_entries_are_refused() {
        let large = 10_000_000_000;
        for (entries, expected) in [
            (&[("../a", FILE, 1, &b"x"[..])][..], "outside"),
            (&[("/etc/passwd", FILE, 1, b"x")], "outside"),
            (&[("m/../../a", FILE, 1, b"x")], "outside"),
            (&[("m/x/a", FILE, 1, b"x")], "folder of a folder"),
            (&[("../m", EntryType::Directory, 0, b"")], "outside"),
            (&[("a", EntryType::Symlink, 0, b"")], "is a link"),
            (&[("a", EntryType::Link, 0, b"")], "is a link"),
            (&[("a", EntryType::Fifo, 0, b"")], "special file"),
            (&[("a", EntryType::GNUSparse, 0, b"")], "special file"),
            (&[("a", EntryType::GNULongName, 1, b"x")], "longer than 100"),
            (
                &[("model.safetensors", FILE, large, b"x")],
                "claims 10000000000 bytes",
            ),
            (
                &[("config.json", FILE, large, b"x")],
                "claims 10000000000 bytes",
            ),
            (
                &[("a", FILE, 600, b"x"), ("b", FILE, 600, b"x")],
                "cut, damaged",
            ),
            (&[("a", FILE, 1, b"x"), ("a", FILE, 1, b"y")], "two files"),
            (
                &[("m/a", FILE, 1, b"x"), ("n/b", FILE, 1, b"y")],
                "several folders",
            ),
            (&[("a", FILE, 5000, b"x")], "cut, damaged"),
        ] {
            let problem = unpacked(&tar_file(entries), 100_000).unwrap_err();
            assert!(problem.contains(expected), "{entries:?}: {problem}");
        }
        let many: Vec<(String, EntryType)> =
            (0..1100).map(|index| (format!("f{index}"), FILE)).collect();
        let many: Vec<_> = many
            .iter()
            .map(|(name, kind)| (name.as_str(), *kind, 0, &b""[..]))
            .collect();
        assert!(
            unpacked(&tar_file(&many), 1000)
                .unwrap_err()
                .contains("more than 1000 entries")
        );
        assert!(unpacked(b"not a tar file", 1000).is_err());
    }
}
