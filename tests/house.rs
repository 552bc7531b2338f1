//! The rules of the house: who may import whom, where `#[cfg(feature)]` stands, how long a
//! file may be.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A room of the house. What it may import stands in [`Room::may_import`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Room {
    Words,
    Law,
    Lock,
    Fence,
    MemoryNode,
    RedisNode,
    SqlLock,
    SqliteLeases,
    PostgresLeases,
    MysqlLeases,
    Connect,
    MemoryMarks,
    Sql,
    Http,
    Testing,
    FrontDoor,
}

impl Room {
    fn may_import(self, other: Room) -> bool {
        use Room::{Fence, FrontDoor, Http, Law, Lock, Sql, Testing, Words};
        let floor: &[Room] = match self {
            Words => &[],
            Law => &[Words],
            Lock | Fence => &[Words, Law],
            Room::MemoryNode | Room::RedisNode => &[Words, Law, Lock],
            Room::SqlLock => &[Words, Law, Lock],
            Room::SqliteLeases | Room::PostgresLeases | Room::MysqlLeases => {
                &[Words, Law, Lock, Room::SqlLock]
            }
            Room::MemoryMarks | Sql => &[Words, Law, Fence],
            Room::Connect => {
                &[Words, Law, Lock, Room::MemoryNode, Room::RedisNode, Room::SqlLock, Sql]
            }
            Http => &[Words, Fence],
            Testing => &[Words, Law, Lock, Fence],
            FrontDoor => return true,
        };
        self == other || floor.contains(&other)
    }
}

/// The room of a module, given from the root of the crate.
fn room(module: &[&str]) -> Room {
    match module {
        ["token" | "resource" | "time" | "random", ..] => Room::Words,
        ["Token" | "TokenError" | "Resource" | "ResourceError", ..] => Room::Words,
        ["protocol", ..] => Room::Law,
        ["lock", "connect", ..] => Room::Connect,
        ["lock", "redlock", "memory" | "MemoryNode", ..] => Room::MemoryNode,
        ["lock", "redlock", "redis" | "RedisNode", ..] => Room::RedisNode,
        ["lock", "sql", "sqlite", ..] => Room::SqliteLeases,
        ["lock", "sql", "postgres", ..] => Room::PostgresLeases,
        ["lock", "sql", "mysql", ..] => Room::MysqlLeases,
        ["lock", "sql", ..] => Room::SqlLock,
        ["lock" | "Lock" | "Lease" | "Redlock", ..] => Room::Lock,
        ["fence", "memory" | "MemoryMarks", ..] => Room::MemoryMarks,
        ["fence" | "Fence", ..] => Room::Fence,
        ["sql", ..] => Room::Sql,
        ["http", ..] => Room::Http,
        ["testing", ..] => Room::Testing,
        [] => Room::FrontDoor,
        other => panic!("{other:?} has no room: give it one here and in the design"),
    }
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

/// Every file of the library but its tests: module path, text.
fn library() -> Vec<(Vec<String>, String)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    files(&source, &mut found);
    let module = |path: &PathBuf| {
        let path = path.strip_prefix(&source).unwrap().with_extension("");
        let names = path.iter().map(|name| name.to_str().unwrap().to_owned());
        names.filter(|name| name != "mod" && name != "lib").collect::<Vec<_>>()
    };
    let files = found.iter().map(|path| (module(path), std::fs::read_to_string(path).unwrap()));
    files
        .filter(|(module, _)| module.first().is_none_or(|first| first != "bin"))
        .filter(|(module, _)| module.last().is_none_or(|last| last != "tests"))
        .collect()
}

fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The modules that a file names through `crate::` and `super::`.
fn imports(module: &[String], text: &str) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    for (start, _) in text.match_indices("crate::").chain(text.match_indices("super::")) {
        let before = text[..start].chars().next_back().unwrap_or(' ');
        if before.is_alphanumeric() || before == '_' || before == ':' || before == '$' {
            continue;
        }
        let mut rest = &text[start..];
        let mut path = module.to_vec();
        while let Some(after) = rest.strip_prefix("super::") {
            path.pop();
            rest = after;
        }
        if let Some(after) = rest.strip_prefix("crate::") {
            path.clear();
            rest = after;
        }
        for tail in tails(rest) {
            found.insert(path.iter().cloned().chain(tail).collect());
        }
    }
    found
}

/// The paths that follow: `a::b::{c, d::e}` is `a::b::c` and `a::b::d::e`.
fn tails(text: &str) -> Vec<Vec<String>> {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let (head, rest) = text.split_at(end.unwrap_or(text.len()));
    let head: Vec<String> =
        head.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let Some(group) = rest.strip_prefix('{') else { return vec![head] };
    let (mut depth, mut start, mut items) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                items.push(group[start..at].trim());
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    let items = items.into_iter().filter(|item| !item.is_empty()).flat_map(tails);
    items.map(|tail| head.iter().cloned().chain(tail).collect()).collect()
}

fn names(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

/// What this file imports against the rule.
fn breaches(module: &[String], text: &str) -> Vec<String> {
    let here = room(&names(module));
    let paths = imports(module, &code(text)).into_iter();
    // A name of the parent's own: the parent is a room of its own already.
    let paths = paths.filter(|path| !path.is_empty());
    let wrong = paths.filter(|path| !here.may_import(room(&names(path))));
    wrong.map(|path| format!("{} imports {}", module.join("::"), path.join("::"))).collect()
}

#[test]
fn no_room_imports_from_a_floor_above_it() {
    let found: Vec<String> =
        library().iter().flat_map(|(module, text)| breaches(module, text)).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn the_rule_would_see_a_breach() {
    let breach = |module: &str, text: &str| {
        let module: Vec<String> = module.split("::").map(str::to_owned).collect();
        !breaches(&module, text).is_empty()
    };
    assert!(breach("protocol::acquire", "use crate::lock::Lease;"));
    assert!(breach("protocol::acquire", "use crate::{Token, lock::Lease};"));
    assert!(breach("fence::gate", "use crate::Lease;"));
    assert!(breach("lock::redlock::redis::node", "use super::super::memory::MemoryNode;"));
    assert!(breach("lock::redlock::fleet", "use super::{lane, redis::RedisNode};"));
    assert!(breach("lock::sql::ledger", "use crate::sql::SqlMarks;"));
    assert!(breach("lock::sql::postgres", "use crate::fence::Stale;"));
    assert!(breach("lock::sql::postgres", "use super::sqlite::LEFT;"));
    assert!(breach("lock::redlock::fleet", "use crate::lock::sql::SqlLock;"));
    assert!(breach("lock::lease", "use super::sql::SqlLock;"));
    assert!(!breach("lock::sql::postgres", "use super::backend::Backend;"));
    assert!(breach("http::layer", "fn f() { crate::sql::admit() }"));
    assert!(!breach("http::layer", "use crate::fence::{Fence, Stale};"));
    assert!(!breach("lock::redlock::redis::node", "use super::super::node::Node;"));
}

#[test]
fn features_switch_whole_modules() {
    for (module, text) in library() {
        let attribute = |line: &&str| line.starts_with("#[") && !line.starts_with("#[cfg(");
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !attribute(l)).collect();
        for pair in lines.windows(2) {
            if pair[0].starts_with("#[cfg(feature") || pair[0].starts_with("#[cfg(any(feature") {
                let whole = ["mod ", "pub mod ", "pub use ", "(&["];
                assert!(
                    whole.iter().any(|start| pair[1].starts_with(start)),
                    "{module:?}: {pair:?}"
                );
            }
        }
    }
}

#[test]
fn no_file_is_longer_than_it_can_be_read() {
    for (module, text) in library() {
        assert!(text.lines().count() <= 400, "{} is to be split", module.join("::"));
    }
}
