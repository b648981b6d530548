//! An allocator that counts, for tests of the memory that something takes.

use nerzoo::process::allocations::{CountingAllocator, count};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The peak of allocated bytes during a call, beyond those held before it.
pub fn peak<T>(call: impl FnOnce() -> T) -> usize {
    let (result, allocated) = count(call);
    drop(result);
    allocated.expect("the allocator is installed").peak as usize
}
