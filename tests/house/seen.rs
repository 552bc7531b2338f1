//! The rules would see a breach: each on files that have one.

use crate::circles::circles;
use crate::floors::breaches;
use crate::partly_switched;
use crate::source::File;

/// A library of the files that matter here, and of these.
fn library(changed: &[(&str, &str)]) -> Vec<File> {
    let standing = [
        ("lib.rs", "pub use sequencer::Sequencer; pub use lock::Lease;"),
        ("sequencer.rs", "pub struct Sequencer;"),
        ("time.rs", ""),
        ("database/mod.rs", "pub trait Database {}"),
        ("lock/mod.rs", "pub use lease::Lease; pub use crate::sequencer::Sequencer;"),
        ("lock/connect.rs", ""),
        ("lock/lease.rs", "pub struct Lease;"),
        ("lock/service.rs", "pub struct Attempt;"),
        ("lock/redlock/mod.rs", "pub use memory::MemoryNode; pub use redis::RedisNode;"),
        ("lock/redlock/lane.rs", "pub struct Lane;"),
        ("lock/redlock/memory.rs", "pub struct MemoryNode;"),
        ("lock/redlock/redis/mod.rs", "mod node; pub use node::RedisNode;"),
        ("lock/redlock/redis/node.rs", "pub struct RedisNode;"),
        ("lock/sql/mod.rs", "pub struct SqlLock;"),
        ("lock/sql/table.rs", "pub trait Table {}"),
        ("database/postgres.rs", ""),
        ("database/sqlite.rs", "pub const BEGIN: &str = \"\";"),
        ("fence/mod.rs", "pub use memory::MemoryMarks; pub use stale::Stale; pub struct Fence;"),
        ("fence/gate.rs", ""),
        ("fence/memory.rs", "pub struct MemoryMarks;"),
        ("fence/stale.rs", "pub struct Stale;"),
        ("sql/mod.rs", "pub struct SqlMarks; pub fn admit() {}"),
        ("http/mod.rs", ""),
        ("http/layer.rs", ""),
    ];
    let file = |(path, standing): (&str, &str)| {
        let names = path.trim_end_matches(".rs").split('/').map(str::to_owned);
        let module = names.filter(|name| name != "mod" && name != "lib").collect();
        let text = changed.iter().find(|(changed, _)| *changed == path);
        File::new(path, module, text.map_or(standing, |(_, text)| *text))
    };
    standing.into_iter().map(file).collect()
}

fn breach(path: &str, text: &str) -> bool {
    let files = library(&[(path, text)]);
    assert!(files.iter().any(|file| file.path == path), "{path}");
    !breaches(&files).is_empty()
}

#[test]
fn an_arrow_upwards_is_seen() {
    assert!(breach("sequencer.rs", "use crate::database::Database;"));
    assert!(breach("sequencer.rs", "use crate::{time, lock::Lease};"));
    assert!(breach("database/mod.rs", "use crate::sql::SqlMarks;"));
    assert!(breach("lock/lease.rs", "use super::sql::SqlLock;"));
    assert!(breach("lock/service.rs", "use crate::lock::redlock::lanes::Lanes;"));
    assert!(breach("lock/service.rs", "fn f() { super::redlock::lanes::Lanes; }"));
    assert!(breach("fence/gate.rs", "use crate::lock::Lease;"));
    assert!(breach("fence/gate.rs", "use super::MemoryMarks;"));
}

#[test]
fn an_arrow_to_a_sibling_is_seen() {
    assert!(breach("lock/redlock/redis/node.rs", "use super::super::memory::MemoryNode;"));
    assert!(breach("lock/redlock/lane.rs", "use super::{memory, redis::RedisNode};"));
    assert!(breach("lock/redlock/lane.rs", "use super::RedisNode;"));
    assert!(breach("lock/redlock/lane.rs", "use crate::lock::sql::SqlLock;"));
    assert!(breach("lock/sql/table.rs", "use crate::sql::SqlMarks;"));
    assert!(breach("database/postgres.rs", "use crate::fence::Stale;"));
    assert!(breach("database/postgres.rs", "use super::sqlite::BEGIN;"));
    assert!(breach("database/postgres.rs", "use super::sqlite;\nfn f() { sqlite::BEGIN; }"));
    assert!(
        breach("sql/mod.rs", "use crate::lock::Sequencer;"),
        "through a room that it may not see"
    );
    assert!(breach("http/layer.rs", "fn f() { crate::sql::admit() }"));
    assert!(breach("http/layer.rs", "use crate::lock::Lease;"));
    assert!(breach("http/layer.rs", "use crate::fence::MemoryMarks;"));
}

#[test]
fn an_import_through_the_front_door_is_seen() {
    assert!(breach("lock/service.rs", "use crate::Sequencer;"));
    assert!(breach("lock/service.rs", "fn f(sequencer: crate::Sequencer) {}"));
    assert!(!breach("lock/service.rs", "use crate::sequencer::Sequencer;"));
}

#[test]
fn what_is_allowed_is_no_breach() {
    assert_eq!(breaches(&library(&[])), Vec::<String>::new());
    assert!(!breach("database/postgres.rs", "use super::Database;"));
    assert!(!breach("sql/mod.rs", "use crate::{database::Database, fence::Stale};"));
    assert!(!breach("http/layer.rs", "use crate::fence::{Fence, Stale};"));
    assert!(!breach("lock/redlock/redis/node.rs", "use super::super::lanes::Lanes;"));
    assert!(!breach("lock/connect.rs", "use super::{redlock::RedisNode, sql::SqlLock};"));
    assert!(!breach(
        "sequencer.rs",
        "// use crate::lock::Lease;\nconst A: &str = \"crate::lock::Lease\";"
    ));
    assert!(!breach("sequencer.rs", "#[cfg(test)]\nmod tests {\n    use crate::lock::Lease;\n}"));
}

#[test]
fn a_circle_is_seen() {
    let circle = |changed: &[(&str, &str)]| circles(&library(changed));
    assert_eq!(circle(&[]), Vec::<Vec<String>>::new());
    let two = circle(&[
        ("lock/lease.rs", "use super::service::Attempt; pub struct Lease;"),
        ("lock/service.rs", "use super::lease::Lease; pub struct Attempt;"),
    ]);
    assert_eq!(two, [["lock/lease.rs", "lock/service.rs"]]);
    let through_an_export = circle(&[
        ("lock/lease.rs", "fn f() { super::service::Attempt } pub struct Lease;"),
        ("lock/service.rs", "use crate::lock::Lease; pub struct Attempt;"),
    ]);
    assert_eq!(through_an_export, two);
    let three = circle(&[
        (
            "lock/lease.rs",
            "use crate::lock::service; fn f() { service::Attempt } pub struct Lease;",
        ),
        ("lock/service.rs", "use super::connect::Url; pub struct Attempt;"),
        ("lock/connect.rs", "use super::Lease; pub struct Url;"),
    ]);
    assert_eq!(three, [["lock/connect.rs", "lock/lease.rs", "lock/service.rs"]]);
    let to_the_head = circle(&[
        ("lock/sql/mod.rs", "use crate::lock::service::Attempt; pub struct SqlLock;"),
        ("lock/service.rs", "use super::sql::SqlLock; pub struct Attempt;"),
    ]);
    assert_eq!(to_the_head, [["lock/service.rs", "lock/sql/mod.rs"]]);
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
