//! Parts of an input, and files with them.

use std::path::PathBuf;
use std::sync::OnceLock;

/// The bytes of an input that are not used yet.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// All of an input.
    pub fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    /// The next byte; 0 at the end.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// True if nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A number below `count`. The digits 0 to 9 and what follows them in ASCII stand for themselves, so that seeds can be
    /// read.
    pub fn choose(&mut self, count: usize) -> usize {
        usize::from(self.byte().wrapping_sub(b'0')) % count.max(1)
    }

    /// One of a list.
    pub fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.choose(list.len())]
    }

    /// Any float: a special value, a probability, or any bits.
    pub fn float(&mut self) -> f32 {
        let special = [
            0.0,
            -0.0,
            1.0,
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MAX,
            f32::MIN_POSITIVE,
        ];
        match self.byte() {
            kind @ 0..=15 => special[usize::from(kind) % special.len()],
            16..=31 => f32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
            value => f32::from(value - 32) / 223.0,
        }
    }

    /// Everything up to the next zero byte, which is left out.
    pub fn part(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0);
        let (part, rest) = match end {
            Some(end) => (&self.0[..end], &self.0[end + 1..]),
            None => (self.0, &self.0[self.0.len()..]),
        };
        self.0 = rest;
        part
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

/// A path in a folder of this process. The folder is in memory where the system has such a place.
pub fn path(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let shared = PathBuf::from("/dev/shm");
        let place = if shared.is_dir() {
            shared
        } else {
            std::env::temp_dir()
        };
        let folder = place.join(format!("nerzoo-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for files");
        folder
    });
    folder.join(name)
}

/// Writes a file and returns its path.
pub fn file(name: &str, content: &[u8]) -> PathBuf {
    let path = path(name);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).expect("a folder for files");
    }
    std::fs::write(&path, content).expect("a file in the folder");
    path
}
