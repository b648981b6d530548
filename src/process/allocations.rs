//! Counting of allocated bytes, to measure how much memory something takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The system's allocator, which counts bytes while [`count`] runs. A program installs it as its global allocator.
pub struct CountingAllocator;

static IS_COUNTING: AtomicBool = AtomicBool::new(false);
/// Bytes allocated minus bytes freed since counting started; below 0 if more is freed.
static HELD: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

/// Bytes that a call allocates, in all threads of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allocated {
    /// What its result holds at its end, beyond what was freed.
    pub held: u64,
    /// The most at any time.
    pub peak: u64,
}

/// Whether allocations can be counted: the [`CountingAllocator`] is the global allocator of this program.
pub fn is_installed() -> bool {
    count(|| drop(black_box(Box::new(0u8)))).1.is_some()
}

/// Runs something and counts what it allocates; `None` unless the [`CountingAllocator`] is installed. One call runs at a
/// time.
pub fn count<T>(work: impl FnOnce() -> T) -> (T, Option<Allocated>) {
    static LOCK: Mutex<()> = Mutex::new(());
    let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    HELD.store(0, Ordering::SeqCst);
    PEAK.store(0, Ordering::SeqCst);
    let _counting = Counting::start();
    drop(black_box(Box::new(0u8)));
    let is_installed = PEAK.load(Ordering::SeqCst) > 0;
    let result = work();
    let bytes = |count: &AtomicIsize| count.load(Ordering::SeqCst).max(0) as u64;
    let allocated = Allocated {
        held: bytes(&HELD),
        peak: bytes(&PEAK),
    };
    (result, is_installed.then_some(allocated))
}

/// Counts as long as it exists, also if the work panics.
struct Counting;

impl Counting {
    fn start() -> Self {
        IS_COUNTING.store(true, Ordering::SeqCst);
        Self
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        IS_COUNTING.store(false, Ordering::SeqCst);
    }
}

fn add(bytes: usize) {
    if IS_COUNTING.load(Ordering::Relaxed) {
        let bytes = bytes as isize;
        let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
        PEAK.fetch_max(held, Ordering::Relaxed);
    }
}

fn subtract(bytes: usize) {
    if IS_COUNTING.load(Ordering::Relaxed) {
        HELD.fetch_sub(bytes as isize, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on to the system's allocator; only sizes are counted.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps to the rules of the allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps to the rules of the allocator.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        subtract(layout.size());
        // SAFETY: the caller keeps to the rules of the allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // The system moves the pages of large blocks and does not copy them.
        add(size.saturating_sub(layout.size()));
        subtract(layout.size().saturating_sub(size));
        // SAFETY: the caller keeps to the rules of the allocator.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
