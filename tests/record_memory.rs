//! Writing the record of a long document takes little memory for each of its entities.

#![allow(unsafe_code)] // a counting allocator

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::sink;
use std::sync::atomic::{AtomicUsize, Ordering};

use nerzoo::data::Format;
use nerzoo::data::words::{self, Segmentation};
use nerzoo::data::write::{Annotated, BratWriter, WriteOptions, Writer};
use nerzoo::text::{Entity, Mention, Sentence};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(size: usize) {
    let held = HELD.fetch_add(size, Ordering::Relaxed) + size;
    PEAK.fetch_max(held, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator; only sizes are counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }

    // The system moves pages of large blocks and does not copy them.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grow(size.saturating_sub(layout.size()));
        HELD.fetch_sub(layout.size().saturating_sub(size), Ordering::Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Entities of the document: as many as fill a growing vector.
const ENTITIES: usize = 1 << 16;
/// Length of a sentence in bytes, with two words and one entity.
const SENTENCE: usize = 16;

/// Calls `add` with the sentences of a document one after the other.
fn each_sentence(mut add: impl FnMut(&Annotated<'_>)) {
    let mut sentence = words::sentence("Zo\u{eb} left again", Segmentation::default());
    sentence.trailing = " ".to_string();
    sentence.document = Some("d".to_string());
    assert_eq!(sentence.text.len() + 1, SENTENCE);
    let characters = sentence.text.chars().count() + 1;
    let mention = Mention {
        entity: Entity::new(0, 1, "PER"),
        score: 0.5,
    };
    for number in 0..ENTITIES {
        let next = Sentence {
            offset: number * characters,
            ..sentence.clone()
        };
        add(&Annotated::predicted(&next, std::slice::from_ref(&mention)));
    }
}

/// The peak of allocated bytes for each entity while a document is written.
fn peak(write: impl FnOnce()) -> usize {
    let before = HELD.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    write();
    (PEAK.load(Ordering::Relaxed) - before) / ENTITIES
}

#[test]
fn entities_of_a_long_document_take_at_most_100_bytes() {
    let folder = tempfile::tempdir().unwrap();
    for (format, words) in [
        (Format::TextJsonl, 0),
        (Format::Doccano, 0),
        (Format::Spacy, 0),
        (Format::LabelStudio, 0),
        (Format::Pubtator, 0),
        (Format::PlainText, 0),
        (Format::Brat, 0),
        (Format::Prodigy, 3),
    ] {
        let options = WriteOptions::of(format);
        let bytes = peak(|| {
            if format == Format::Brat {
                let mut writer =
                    BratWriter::begin(&folder.path().join("x"), false, options).unwrap();
                each_sentence(|item| writer.add(item).unwrap());
                assert_eq!(writer.finish().unwrap().entities, ENTITIES);
            } else {
                let mut writer = Writer::begin(sink(), options).unwrap();
                each_sentence(|item| writer.add(item).unwrap());
                let (_, summary) = writer.finish().unwrap();
                assert_eq!((summary.entities, summary.documents), (ENTITIES, 1));
            }
        });
        println!("{format}: {bytes} bytes for each entity and its sentence of {SENTENCE} bytes");
        // The text, one copy of it, and the words where they are written.
        let most = 100 + 2 * SENTENCE + 2 * 24 * words;
        assert!(
            bytes <= most,
            "{format}: {bytes} bytes for each entity, more than {most}"
        );
    }
}
