//! Who may import whom: docs/architecture.md has the layers.

use crate::imports::File;

/// The layer of a module.
fn layer(module: &[String]) -> &'static str {
    let names: Vec<&str> = module.iter().map(String::as_str).collect();
    match names[..] {
        // `lib.rs`, which only exports.
        [] => "crate root",
        ["sequencer" | "holder" | "time" | "random" | "backoff" | "background", ..]
        | ["log_throttle" | "server_info", ..] => "types",
        ["database", "postgres", ..] => "postgres",
        ["database", "mysql", ..] => "mysql",
        ["database", "sqlite", ..] => "sqlite",
        ["database", ..] => "database",
        ["lock", "redlock", "memory", ..] => "memory node",
        ["lock", "redlock", "redis", ..] => "redis node",
        ["lock", "redlock", ..] => "redlock",
        ["lock", "sql", ..] => "lock in sql",
        ["lock", "engine", ..] => "lock on engines",
        ["lock", "etcd", ..] => "etcd lock",
        ["lock", "zookeeper", ..] => "zookeeper lock",
        ["lock", "connect", ..] => "connect",
        // A file of the core. A folder is a back end, and needs a layer of its own.
        ["lock"] | ["lock", _] | ["lock", "lease" | "service" | "wait", ..] => "lock",
        ["fence", "memory", ..] => "memory marks",
        ["fence", ..] => "fence",
        ["redis", ..] => "redis marks",
        ["object", ..] => "objects",
        ["sql", ..] => "sql",
        ["http", ..] => "http",
        ["testing", ..] => "testing",
        _ => panic!("{module:?} has no layer: give it one here and in docs/architecture.md"),
    }
}

/// The layers that the files of a layer may import from, apart from their own.
fn below(layer: &str) -> &'static [&'static str] {
    match layer {
        "types" => &[],
        "database" => &["types", "postgres", "mysql", "sqlite"],
        "postgres" | "mysql" | "sqlite" => &["types", "database"],
        "lock" | "fence" => &["types"],
        "redlock" => &["types", "lock"],
        "memory node" | "redis node" => &["types", "lock", "redlock"],
        "lock in sql" => &["types", "database", "lock"],
        "lock on engines" => &["types", "lock"],
        "etcd lock" | "zookeeper lock" => &["types", "lock", "lock on engines"],
        "memory marks" | "redis marks" | "objects" | "http" => &["types", "fence"],
        "sql" => &["types", "database", "postgres", "mysql", "sqlite", "fence"],
        "connect" => &[
            "types",
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
        "testing" => &["types", "lock", "fence", "redlock"],
        _ => panic!("what may {layer} import?"),
    }
}

/// What a file of the library imports against the rule, through `lib.rs` or from another layer.
pub fn breaches(files: &[File], file: &File) -> Vec<String> {
    let here = match layer(&file.module) {
        "crate root" => return Vec::new(),
        here => here,
    };
    let allowed = |there: &str| there == here || below(here).contains(&there);
    let ways = file.imports(files).into_iter();
    let against = ways.filter(|way| way.iter().any(|module| !allowed(layer(module))));
    against.map(|way| format!("{} imports {way:?}", file.path)).collect()
}
