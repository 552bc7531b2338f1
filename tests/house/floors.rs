//! Who may import whom: docs/architecture.md has the floors.

use crate::paths::imports;
use crate::source::File;

/// A room of the house.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    // Floor 0.
    Words,
    // Floor 1.
    Database,
    Postgres,
    Mysql,
    Sqlite,
    // Floor 2.
    Lock,
    Fence,
    // Floor 3: back ends. etcd and ZooKeeper will stand here.
    Redlock,
    MemoryNode,
    RedisNode,
    LockSql,
    MemoryMarks,
    RedisMarks,
    Sql,
    // Floor 4: doors.
    Connect,
    Http,
    // Floor 5.
    Testing,
    /// `lib.rs`, which only exports.
    FrontDoor,
}

use Room::{
    Connect, Database, Fence, FrontDoor, Http, Lock, LockSql, MemoryMarks, MemoryNode, Mysql,
    Postgres, RedisMarks, RedisNode, Redlock, Sql, Sqlite, Testing, Words,
};

impl Room {
    /// The room of a module.
    pub fn of(module: &[String]) -> Room {
        let names: Vec<&str> = module.iter().map(String::as_str).collect();
        match names[..] {
            [] => FrontDoor,
            ["sequencer" | "holder" | "time" | "random" | "background", ..]
            | ["log_throttle" | "server_info", ..] => Words,
            ["database", "postgres", ..] => Postgres,
            ["database", "mysql", ..] => Mysql,
            ["database", "sqlite", ..] => Sqlite,
            ["database", ..] => Database,
            ["lock", "redlock", "memory", ..] => MemoryNode,
            ["lock", "redlock", "redis", ..] => RedisNode,
            ["lock", "redlock", ..] => Redlock,
            ["lock", "sql", ..] => LockSql,
            ["lock", "connect", ..] => Connect,
            // A file of the core. A folder is a back end, and needs a room of its own.
            ["lock"] | ["lock", _] | ["lock", "lease" | "service" | "wait", ..] => Lock,
            ["fence", "memory", ..] => MemoryMarks,
            ["fence", ..] => Fence,
            ["redis", ..] => RedisMarks,
            ["sql", ..] => Sql,
            ["http", ..] => Http,
            ["testing", ..] => Testing,
            _ => panic!("{module:?} has no room: give it one here and in docs/architecture.md"),
        }
    }

    /// Whether its files may import from the other room, apart from their own.
    pub fn may_import(self, other: Room) -> bool {
        let rooms: &[Room] = match self {
            Words => &[],
            Database => &[Words, Postgres, Mysql, Sqlite],
            Postgres | Mysql | Sqlite => &[Words, Database],
            Lock | Fence => &[Words],
            Redlock => &[Words, Lock],
            MemoryNode | RedisNode => &[Words, Lock, Redlock],
            LockSql => &[Words, Database, Lock],
            MemoryMarks => &[Words, Fence],
            RedisMarks => &[Words, Fence],
            Sql => &[Words, Database, Postgres, Mysql, Sqlite, Fence],
            Connect => &[Words, Database, Lock, Redlock, MemoryNode, RedisNode, LockSql, Sql],
            Http => &[Words, Fence],
            Testing => &[Words, Lock, Fence, Redlock],
            FrontDoor => return true,
        };
        self == other || rooms.contains(&other)
    }
}

/// What the library imports against the rule.
pub fn breaches(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for (of, file) in files.iter().enumerate().filter(|(_, file)| !file.module.is_empty()) {
        for import in imports(files, of) {
            let target = &files[import.file];
            if import.through.iter().any(Vec::is_empty) {
                found.push(format!("{} imports {} through lib.rs", file.path, target.path));
            }
            let rooms =
                import.through.iter().chain([&target.module]).map(|module| Room::of(module));
            let here = Room::of(&file.module);
            if rooms.filter(|room| *room != FrontDoor).any(|room| !here.may_import(room)) {
                found.push(format!("{} imports {}", file.path, target.path));
            }
        }
    }
    found
}
