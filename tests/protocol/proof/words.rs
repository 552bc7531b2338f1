//! The words: sorts, what does not change, what a state is made of, what is derived from it.
//!
//! All is SMT-LIB text. A body is written once, about "now"; [`next`] makes it the same sentence about the next state.

/// A word of the language: its name, what it takes, and its value.
pub struct Word {
    pub name: &'static str,
    pub takes: &'static [&'static str],
    pub gives: &'static str,
}

const fn word(name: &'static str, takes: &'static [&'static str], gives: &'static str) -> Word {
    Word { name, takes, gives }
}

/// Any number of each. Eras and counts are integers.
pub const SORTS: &[&str] = &["Node", "Attempt", "Quorum", "Memory", "Client"];

/// What no step changes.
pub const FIXED: &[Word] = &[
    // A node belongs to a fleet.
    word("member", &["Node", "Fleet"], "Bool"),
    // A quorum is a majority of one fleet; `in` says who belongs to it.
    word("in", &["Node", "Quorum"], "Bool"),
    word("of", &["Quorum"], "Fleet"),
    // A node that two majorities of one fleet share.
    word("meet", &["Quorum", "Quorum"], "Node"),
    // An attempt and a client are of one fleet; a memory is of one node.
    word("fleet", &["Attempt"], "Fleet"),
    word("under", &["Client"], "Fleet"),
    word("target", &["Client"], "Node"),
    // The attempt asks for a part of the lock, which it shares with others that do. Any other is alone.
    word("shared", &["Attempt"], "Bool"),
    word("owner", &["Memory"], "Node"),
    // The first era of f that was promised.
    word("first-era", &[], "Era"),
];

/// What a step may change.
pub const STATE: &[Word] = &[
    // What a node keeps: `protocol/src/store.rs`. A resource's counts, for one resource.
    word("admitted", &["Node", "Fleet"], "Bool"),
    word("sealed", &["Node"], "Bool"),
    // The stretch of memory, marked by its nonce.
    word("memory", &["Node"], "Memory"),
    word("era", &["Node"], "Era"),
    word("reserved", &["Node"], "Era"),
    word("count", &["Node"], "Count"),
    word("lock", &["Node", "Attempt"], "Bool"),
    // What an attempt has seen and done: `protocol/src/acquire.rs`.
    word("began", &["Attempt"], "Bool"),
    // The first was won before the second began.
    word("before", &["Attempt", "Attempt"], "Bool"),
    word("grant", &["Attempt", "Node", "Memory", "Era", "Count"], "Bool"),
    // The token is chosen: its era, its count, and the grants counted for it.
    word("chose", &["Attempt"], "Bool"),
    word("token-era", &["Attempt"], "Era"),
    word("token-count", &["Attempt"], "Count"),
    word("choosers", &["Attempt"], "Quorum"),
    word("counted-memory", &["Attempt", "Node"], "Memory"),
    word("counted-era", &["Attempt", "Node"], "Era"),
    word("counted-count", &["Attempt", "Node"], "Count"),
    // A publish was answered yes, in this memory.
    word("raised", &["Attempt", "Node", "Memory"], "Bool"),
    word("won", &["Attempt"], "Bool"),
    word("winners", &["Attempt"], "Quorum"),
    word("winner-memory", &["Attempt", "Node"], "Memory"),
    // One that shares has won this token; the first one that did.
    word("shared-won", &["Era", "Count"], "Bool"),
    word("first-sharer", &["Era", "Count"], "Attempt"),
    // Eras and stretches of memory.

    // At one moment a majority held the promise of the era.
    word("promised", &["Era"], "Bool"),
    word("promisers", &["Era"], "Quorum"),
    // The era was promised before the memory began.
    word("past", &["Memory", "Era"], "Bool"),
    word("used", &["Memory"], "Bool"),
    word("earlier", &["Memory", "Memory"], "Bool"),
    // A client that re-admits or collects: `protocol/src/readmit.rs`.
    word("prepared", &["Client"], "Bool"),
    word("stretch", &["Client"], "Memory"),
    word("told", &["Client", "Node", "Era"], "Bool"),
    // It read a majority, and goes on with this era.
    word("aims", &["Client", "Era"], "Bool"),
    // The move from fleet `f` to fleet `g`.

    // A majority of f was sealed at one moment.
    word("moment", &[], "Bool"),
    word("sealers", &[], "Quorum"),
    // The memory or the attempt began after that moment.
    word("late", &["Memory"], "Bool"),
    word("belated", &["Attempt"], "Bool"),
    // The node answered the mover's seal, in this memory, with what is written there.
    word("answered", &["Client", "Node", "Memory", "Era"], "Bool"),
    // The mover has found a majority sealed at one moment, and no more than this written.
    word("floored", &["Client"], "Bool"),
    word("floor", &["Client"], "Era"),
    // A client of a first start has prepared every node and picked an era.
    word("starting", &["Client"], "Bool"),
    word("saw", &["Client", "Node"], "Memory"),
    word("pick", &["Client"], "Era"),
];

pub struct Derived {
    pub name: &'static str,
    pub takes: &'static str,
    pub gives: &'static str,
    pub body: &'static str,
}

const fn derived(name: &'static str, takes: &'static str, gives: &'static str, body: &'static str) -> Derived {
    Derived { name, takes, gives, body }
}

pub const DERIVED: &[Derived] = &[
    derived("written", "n Node", "Era", "(ite (>= (era n) (reserved n)) (era n) (reserved n))"),
    derived("forgotten", "n Node", "Bool", "(not (or (admitted n f) (admitted n g) (sealed n)))"),
    derived(
        "published",
        "a Attempt, n Node, m Memory",
        "Bool",
        "(or (raised a n m) (grant a n m (token-era a) (token-count a)))",
    ),
];

/// `below` and `upto` compare tokens: era first, then count.
pub const TOKENS: &str = "\
(define-fun below ((e Era) (c Count) (d Era) (b Count)) Bool (or (< e d) (and (= e d) (< c b))))
(define-fun upto ((e Era) (c Count) (d Era) (b Count)) Bool (or (< e d) (and (= e d) (<= c b))))
";

pub fn after(name: &str) -> String {
    format!("{name}*")
}

/// The same sentence about the state after a step that changes these words.
pub fn next(text: &str, changed: &[&str]) -> String {
    renamed(text, |symbol| changed.contains(&symbol).then(|| after(symbol)))
}

/// The text with some of its symbols replaced.
pub fn renamed(text: &str, new: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut symbol = String::new();
    for letter in text.chars().chain([' ']) {
        if letter.is_whitespace() || letter == '(' || letter == ')' {
            out.push_str(&new(&symbol).unwrap_or_else(|| symbol.clone()));
            symbol.clear();
            out.push(letter);
        } else {
            symbol.push(letter);
        }
    }
    out.pop();
    out
}

/// Whether the text says anything of one of the words.
pub fn mentions(text: &str, words: &[&str]) -> bool {
    next(text, words) != text
}

/// The words changed, and what is derived from them.
pub fn with_derived(changed: &[&'static str]) -> Vec<&'static str> {
    let derived = DERIVED.iter().filter(|derived| mentions(derived.body, changed));
    changed.iter().copied().chain(derived.map(|d| d.name)).collect()
}
