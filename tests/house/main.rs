//! The rules of the house, in the library and in the program: who may import whom, no circles,
//! where `#[cfg(feature)]` stands, how long a file may be. docs/architecture.md has the floors.

mod circles;
mod floors;
mod paths;
mod seen;
mod source;

use circles::{arrows, circles};
use floors::breaches;
use source::{File, crate_in};

/// Circles that are known and on their way out. EMPTY AT THE MERGE: nothing may be added.
const KNOWN_CIRCLES: &[&str] = &[
    "src/http/layer.rs src/http/service.rs",
    "src/lock/lease.rs src/lock/watchdog.rs",
    "src/lock/redlock/nodes.rs src/lock/redlock/readmission.rs",
    "src/lock/sql/attempt.rs src/lock/sql/held.rs",
    "src/protocol/readmit.rs src/protocol/start.rs",
    "src/sql/backend.rs src/sql/error.rs src/sql/marks.rs src/sql/migrate.rs src/sql/mysql.rs src/sql/postgres.rs src/sql/protect/mod.rs src/sql/protect/mysql.rs src/sql/protect/postgres.rs src/sql/protect/sqlite.rs src/sql/sqlite.rs src/sql/statement.rs",
    "src/bin/fencing/args.rs src/bin/fencing/database_args.rs src/bin/fencing/fleet_args.rs",
    "src/bin/fencing/guard.rs src/bin/fencing/run.rs",
];

fn library() -> Vec<File> {
    crate_in("src")
}

fn program() -> Vec<File> {
    crate_in("src/bin/fencing")
}

#[test]
fn no_room_imports_from_a_floor_above_it() {
    let found = breaches(&library());
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn no_file_imports_itself_through_others() {
    let mut known = KNOWN_CIRCLES.to_vec();
    for files in [library(), program()] {
        for circle in circles(&files) {
            let arrows = arrows(&files, &circle);
            let circle = circle.join(" ");
            assert!(known.contains(&circle.as_str()), "a circle of {circle}: {arrows:#?}");
            known.retain(|known| *known != circle);
        }
    }
    assert!(known.is_empty(), "circles no longer, remove them from KNOWN_CIRCLES: {known:#?}");
}

#[test]
fn the_program_uses_what_everybody_may() {
    for file in program() {
        for (_, path) in &file.paths {
            let hidden = matches!(&path[..], [root, module, ..]
                if root == "fencing" && (module == "protocol" || module == "testing"));
            assert!(!hidden, "{} imports {}", file.path, path.join("::"));
        }
    }
}

#[test]
fn features_switch_whole_modules() {
    for file in library().iter().chain(&program()) {
        assert!(!file.text.contains("cfg!(feature"), "{}", file.path);
        let breach = partly_switched(&file.text);
        assert!(breach.is_none(), "{}: {}", file.path, breach.unwrap());
    }
}

/// The first line behind `#[cfg(feature)]` that is neither `mod` nor `use`, nor an element of a
/// constant list.
fn partly_switched(text: &str) -> Option<&str> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut list = None;
    let mut switched = false;
    for line in text.lines() {
        let code = line.trim();
        if list.is_some_and(|depth| indent(line) <= depth) && !code.is_empty() {
            list = None;
        }
        if code.contains("const ") && code.ends_with('[') {
            list = Some(indent(line));
        }
        if code.starts_with("#[cfg(") {
            switched |= code.contains("feature");
        } else if switched && !code.starts_with("#[") && !code.starts_with("//") {
            let whole = ["mod ", "pub mod ", "use ", "pub use ", "pub(crate) use "];
            if list.is_none() && !whole.iter().any(|start| code.starts_with(start)) {
                return Some(line);
            }
            switched = false;
        }
    }
    None
}

#[test]
fn no_file_is_longer_than_it_can_be_read() {
    for file in library().iter().chain(&program()) {
        assert!(file.text.lines().count() <= 400, "{} has more than 400 lines", file.path);
    }
}
