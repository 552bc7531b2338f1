//! The rules of the house, in the library, the program and the pages: who may import whom, no circles,
//! where `#[cfg(feature)]` stands, how long a file may be, what operators are given. docs/architecture.md has the floors.

mod circles;
mod docs;
mod floors;
mod ops;
mod paths;
mod seen;
mod source;

use std::path::Path;

use circles::{arrows, circles};
use floors::breaches;
use source::{File, crate_in};

fn library() -> Vec<File> {
    crate_in("src")
}

fn protocol() -> Vec<File> {
    crate_in("protocol/src")
}

fn program() -> Vec<File> {
    crate_in("cli/src")
}

#[test]
fn no_room_imports_from_a_floor_above_it() {
    let found = breaches(&library());
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn no_file_imports_itself_through_others() {
    let mut found = Vec::new();
    for files in [library(), protocol(), program()] {
        for circle in circles(&files) {
            found.push((circle.join(" "), arrows(&files, &circle)));
        }
    }
    assert!(found.is_empty(), "circles: {found:#?}");
}

#[test]
fn features_switch_whole_modules() {
    for file in library().iter().chain(&protocol()).chain(&program()) {
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
    for file in library().iter().chain(&protocol()).chain(&program()) {
        assert!(file.text.lines().count() <= 400, "{} has more than 400 lines", file.path);
    }
}

#[test]
fn small_examples_are_small() {
    let mut found = 0;
    for entry in
        std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("examples"))
            .unwrap()
    {
        let path = entry.unwrap().path();
        if path.is_file() {
            found += 1;
            let lines = std::fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines < 60, "{} has {lines} lines", path.display());
        }
    }
    assert!(found >= 8, "{found} examples");
}
