//! An allocator that counts what is allocated and refuses what is too much.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that may be allocated at the same time, beyond which an allocation fails. One that cannot fail aborts the program.
pub const LIMIT: usize = 1 << 30;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The allocator of the system, with a limit.
pub struct LimitedAllocator;

/// Starts a new measurement and returns the bytes that are allocated now.
pub fn start() -> usize {
    let now = ALLOCATED.load(Ordering::Relaxed);
    PEAK.store(now, Ordering::Relaxed);
    now
}

/// The most bytes that were allocated at the same time since the start of the measurement.
pub fn peak() -> usize {
    PEAK.load(Ordering::Relaxed)
}

/// Counts an allocation; false if it is beyond the limit.
fn add(bytes: usize) -> bool {
    let before = ALLOCATED.fetch_add(bytes, Ordering::Relaxed);
    let after = before.saturating_add(bytes);
    if after > LIMIT {
        ALLOCATED.fetch_sub(bytes, Ordering::Relaxed);
        return false;
    }
    PEAK.fetch_max(after, Ordering::Relaxed);
    true
}

// SAFETY: every call goes to the allocator of the system with the same arguments, or returns null, which means that there is
// no memory.
unsafe impl GlobalAlloc for LimitedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !add(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !add(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() && !add(size - layout.size()) {
            return std::ptr::null_mut();
        }
        if size < layout.size() {
            ALLOCATED.fetch_sub(layout.size() - size, Ordering::Relaxed);
        }
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
