//! Counts allocations: for the benches that report them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

static COUNTS: AtomicBool = AtomicBool::new(false);
static NUMBER: AtomicI64 = AtomicI64::new(0);
static LIVE: AtomicI64 = AtomicI64::new(0);

/// Counts allocations between `begin` and `end`.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(number: i64, bytes: i64) {
    if COUNTS.load(Ordering::Relaxed) {
        NUMBER.fetch_add(number, Ordering::Relaxed);
        LIVE.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: everything goes to the system's allocator as it is.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size as i64 - layout.size() as i64);
        unsafe { System.realloc(place, layout, size) }
    }
}

pub fn begin() {
    NUMBER.store(0, Ordering::Relaxed);
    LIVE.store(0, Ordering::Relaxed);
    COUNTS.store(true, Ordering::Relaxed);
}

/// Returns the allocations since, and how many bytes more are in use.
pub fn end() -> (i64, i64) {
    COUNTS.store(false, Ordering::Relaxed);
    (NUMBER.load(Ordering::Relaxed), LIVE.load(Ordering::Relaxed))
}
