//! The rules of the house, in the library, the program and the pages: who may import whom, no circles, where
//! `#[cfg(feature)]` stands, how long a file may be, what operators are given. docs/architecture.md has the layers.

mod docs;
mod imports;
mod layers;
mod ops;
mod seen;

use std::path::{Path, PathBuf};

use imports::{File, circles, crate_in};
use layers::breaches;

/// Where the repository stands, seen from the package of the tests.
fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files of this kind in a folder and below it, in order.
fn files_in(folder: &Path, kind: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = |path: PathBuf| match path.is_dir() {
        true => files_in(&path, kind),
        false => Vec::from_iter(Some(path).filter(|path| path.extension().is_some_and(|k| k == kind))),
    };
    let mut found: Vec<PathBuf> = entries.flat_map(files).collect();
    found.sort();
    found
}

/// The anchors of a page, as GitHub makes them from its headings.
fn anchors(page: &str) -> Vec<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        heading.chars().filter(kept).collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// The library, its protocol and the program.
const CRATES: [&str; 3] = ["src", "protocol/src", "cli/src"];

fn all() -> impl Iterator<Item = File> {
    CRATES.into_iter().flat_map(crate_in)
}

#[test]
fn no_layer_imports_from_one_above_it() {
    let files = crate_in("src");
    let found: Vec<_> = files.iter().flat_map(|file| breaches(&files, file)).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn no_file_imports_itself_through_others() {
    let found = CRATES.map(|folder| circles(&crate_in(folder)));
    assert!(found.iter().all(|circles| circles.is_empty()), "circles: {found:#?}");
}

#[test]
fn features_switch_whole_modules() {
    for file in all() {
        assert!(!file.text.contains("cfg!(feature"), "{}", file.path);
        let breach = partly_switched(&file.text);
        assert!(breach.is_none(), "{}: {}", file.path, breach.unwrap());
    }
}

/// The first line behind `#[cfg(feature)]` that is neither `mod` nor `use`, nor an element of a constant list.
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
            let whole = ["mod ", "pub mod ", "pub(crate) mod ", "use ", "pub use ", "pub(crate) use "];
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
    for file in all() {
        assert!(file.text.lines().count() <= 400, "{} has more than 400 lines", file.path);
    }
}

#[test]
fn small_examples_are_small() {
    let entries = std::fs::read_dir(repository().join("examples")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let examples: Vec<_> = paths.filter(|path| path.is_file()).collect();
    for path in &examples {
        assert!(read(path).lines().count() < 60, "{} is long", path.display());
    }
    assert!(examples.len() >= 8, "{} examples", examples.len());
}
