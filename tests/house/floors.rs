//! Who may import whom: docs/architecture.md has the floors.

use crate::imports::File;

/// The room of a module.
fn room(module: &[String]) -> &'static str {
    let names: Vec<&str> = module.iter().map(String::as_str).collect();
    match names[..] {
        // `lib.rs`, which only exports.
        [] => "front door",
        ["sequencer" | "holder" | "time" | "random" | "background", ..] | ["log_throttle" | "server_info", ..] => {
            "words"
        }
        ["database", "postgres", ..] => "postgres",
        ["database", "mysql", ..] => "mysql",
        ["database", "sqlite", ..] => "sqlite",
        ["database", ..] => "database",
        ["lock", "redlock", "memory", ..] => "memory node",
        ["lock", "redlock", "redis", ..] => "redis node",
        ["lock", "redlock", ..] => "redlock",
        ["lock", "sql", ..] => "lock in sql",
        ["lock", "etcd", ..] => "etcd lock",
        ["lock", "zookeeper", ..] => "zookeeper lock",
        ["lock", "connect", ..] => "connect",
        // A file of the core. A folder is a back end, and needs a room of its own.
        ["lock"] | ["lock", _] | ["lock", "lease" | "service" | "wait", ..] => "lock",
        ["fence", "memory", ..] => "memory marks",
        ["fence", ..] => "fence",
        ["redis", ..] => "redis marks",
        ["object", ..] => "objects",
        ["sql", ..] => "sql",
        ["http", ..] => "http",
        ["testing", ..] => "testing",
        _ => panic!("{module:?} has no room: give it one here and in docs/architecture.md"),
    }
}

/// The rooms that the files of a room may import from, apart from their own.
fn below(room: &str) -> &'static [&'static str] {
    match room {
        "words" => &[],
        "database" => &["words", "postgres", "mysql", "sqlite"],
        "postgres" | "mysql" | "sqlite" => &["words", "database"],
        "lock" | "fence" => &["words"],
        "redlock" => &["words", "lock"],
        "memory node" | "redis node" => &["words", "lock", "redlock"],
        "lock in sql" => &["words", "database", "lock"],
        "etcd lock" | "zookeeper lock" => &["words", "lock"],
        "memory marks" | "redis marks" | "objects" | "http" => &["words", "fence"],
        "sql" => &["words", "database", "postgres", "mysql", "sqlite", "fence"],
        "connect" => &[
            "words",
            "database",
            "lock",
            "redlock",
            "memory node",
            "redis node",
            "lock in sql",
            "etcd lock",
            "zookeeper lock",
            "sql",
        ],
        "testing" => &["words", "lock", "fence", "redlock"],
        _ => panic!("what may {room} import?"),
    }
}

/// What a file of the library imports against the rule, through `lib.rs` or from another room.
pub fn breaches(files: &[File], file: &File) -> Vec<String> {
    let here = match room(&file.module) {
        "front door" => return Vec::new(),
        here => here,
    };
    let allowed = |there: &str| there == here || below(here).contains(&there);
    let ways = file.imports(files).into_iter();
    let against = ways.filter(|way| way.iter().any(|module| !allowed(room(module))));
    against.map(|way| format!("{} imports {way:?}", file.path)).collect()
}
