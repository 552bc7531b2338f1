//! The rules would see a breach: each on the library with a file that has one.

use crate::imports::{File, circles, crate_in};
use crate::layers::breaches;
use crate::partly_switched;

const UPWARDS: [(&str, &str); 8] = [
    ("sequencer.rs", "use crate::database::Database;"),
    ("sequencer.rs", "use crate::{time, lock::Lease};"),
    ("database/mod.rs", "use crate::sql::SqlMarks;"),
    ("lock/lease/mod.rs", "use super::sql::SqlLockBuilder;"),
    ("lock/service/mod.rs", "use crate::lock::redlock::nodes::Nodes;"),
    ("lock/runtime.rs", "fn f() { super::redlock::nodes::Nodes; }"),
    ("fence/gate.rs", "use crate::lock::Lease;"),
    ("fence/gate.rs", "use super::MemoryMarks;"),
];

const TO_A_SIBLING: [(&str, &str); 12] = [
    ("lock/redlock/redis/node.rs", "use super::super::memory::MemoryNode;"),
    ("lock/redlock/nodes.rs", "use super::{memory, redis::RedisNode};"),
    ("lock/redlock/nodes.rs", "use super::RedisNode;"),
    ("lock/redlock/nodes.rs", "use crate::lock::sql::SqlLockBuilder;"),
    ("lock/sql/table.rs", "use crate::sql::SqlMarks;"),
    ("database/postgres/mod.rs", "use crate::fence::Stale;"),
    ("database/postgres/mod.rs", "use super::sqlite::BEGIN;"),
    ("database/postgres/mod.rs", "use super::sqlite;\nfn f() { sqlite::BEGIN; }"),
    ("sql/mod.rs", "use crate::lock::Holder;"), // Through a layer that it may not see.
    ("http/layer.rs", "fn f() { crate::sql::admit() }"),
    ("http/layer.rs", "use crate::lock::Lease;"),
    ("http/layer.rs", "use crate::fence::MemoryMarks;"),
];

const THROUGH_THE_CRATE_ROOT: [(&str, &str); 2] =
    [("lock/runtime.rs", "use crate::Sequencer;"), ("lock/runtime.rs", "fn f(sequencer: crate::Sequencer) {}")];

const ALLOWED: [(&str, &str); 8] = [
    ("lock/runtime.rs", "use crate::sequencer::Sequencer;"),
    ("database/postgres/mod.rs", "use super::Database;"),
    ("sql/mod.rs", "use crate::{database::Database, fence::Stale};"),
    ("http/layer.rs", "use crate::fence::{Fence, Stale};"),
    ("lock/redlock/redis/node.rs", "use super::super::nodes::Nodes;"),
    ("lock/connect/mod.rs", "use super::{redlock::RedisNode, sql::SqlLockBuilder};"),
    ("sequencer.rs", "// use crate::lock::Lease;\nconst A: &str = \"crate::lock::Lease\";"),
    ("sequencer.rs", "#[cfg(test)]\nmod tests {\n    use crate::lock::Lease;\n}"),
];

#[test]
fn an_import_against_the_rule_is_seen() {
    let mut library = crate_in("src");
    let all = [&UPWARDS[..], &TO_A_SIBLING, &THROUGH_THE_CRATE_ROOT, &ALLOWED].concat();
    for (path, text) in all {
        let path = format!("src/{path}");
        assert!(library.iter().any(|file| file.path == path), "{path}");
        library.push(File::new(&path, text));
        let seen = !breaches(&library, library.last().unwrap()).is_empty();
        library.pop();
        assert_eq!(seen, !ALLOWED.contains(&(&path[4..], text)), "{path}: {text}");
    }
}

/// The circles in files of these paths and texts.
fn circle(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<_> = files.iter().map(|(path, text)| File::new(path, text)).collect();
    circles(&files).iter().map(|(from, to)| format!("{} {}", from.join("/"), to.join("/"))).collect()
}

#[test]
fn a_circle_is_seen() {
    let head = ("src/lock/mod.rs", "pub use lease::Lease;");
    let attempt = ("src/lock/service.rs", "use super::lease::Lease; pub struct Attempt;");
    let lease = ("src/lock/lease.rs", "use super::service::Attempt; pub struct Lease;");
    let none: [String; 0] = [];
    assert_eq!(circle(&[head, attempt, ("src/lock/lease.rs", "pub struct Lease;")]), none);
    let two = ["lock/lease lock/service", "lock/service lock/lease"];
    assert_eq!(circle(&[head, attempt, lease]), two);
    let exported = ("src/lock/service.rs", "use crate::lock::Lease; pub struct Attempt;");
    assert_eq!(circle(&[head, exported, lease]), two);
    let named = ("src/lock/lease.rs", "use crate::lock::service; fn f() { service::Attempt }");
    let further = ("src/lock/service.rs", "use super::connect::Url; pub struct Attempt;");
    let back = ("src/lock/connect.rs", "use super::Lease; pub struct Url;");
    let three = ["lock/connect lock/lease", "lock/lease lock/service", "lock/service lock/connect"];
    assert_eq!(circle(&[head, named, further, back]), three);
    let up = ("src/lock/sql/mod.rs", "use crate::lock::service::Attempt; pub struct SqlLock;");
    let down = ("src/lock/service.rs", "use super::sql::SqlLock; pub struct Attempt;");
    assert_eq!(circle(&[head, up, down]), ["lock/service lock/sql", "lock/sql lock/service"]);
}

#[test]
fn a_feature_within_a_module_is_seen() {
    assert_eq!(partly_switched("#[cfg(feature = \"redis\")]\nmod redis;"), None);
    assert_eq!(partly_switched("#[cfg(not(feature = \"mysql\"))]\nuse without as mysql;"), None);
    let list = "const ALL: &[Kind] = &[\n    #[cfg(feature = \"redis\")]\n    REDIS,\n];\n";
    assert_eq!(partly_switched(list), None);
    let function = format!("{list}#[cfg(feature = \"redis\")]\nfn redis() {{}}");
    assert_eq!(partly_switched(&function), Some("fn redis() {}"));
    let arm = "match kind {\n    #[cfg(feature = \"redis\")]\n    Kind::Redis => {}\n}";
    assert_eq!(partly_switched(arm), Some("    Kind::Redis => {}"));
}
