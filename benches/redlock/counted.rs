use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::contestant::Contestant;
use crate::fleet::{self, Servers};
use crate::table::Table;

const PAIRS: usize = 500;

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

/// Begins to count.
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

/// Allocations of one pair on five nodes, what it leaves to background tasks included.
pub async fn measure(table: &mut Table) {
    let servers = Servers::start(5).await;
    let contestants = Contestant::all(&servers.urls()).await;
    fleet::settle(&contestants).await;
    let mut figures = Vec::new();
    for contestant in &contestants {
        begin();
        for _ in 0..PAIRS {
            contestant.pair("invoice/42").await;
        }
        figures.push((contestant.name(), end().0 as f64 / PAIRS as f64));
    }
    table.figure("allocations per pair", "number", &figures);
}
