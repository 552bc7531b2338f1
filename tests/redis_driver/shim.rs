//! Servers whose clock can jump.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::redis::RedisServer;

/// A server whose clock is set by `set_clock`.
pub fn shifted() -> RedisServer {
    static SHIM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, shim) = SHIM.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let shim = folder.path().join("clock.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/clock.c");
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&shim).arg(source);
        assert!(compile.status().expect("a C compiler").success());
        (folder, shim)
    });
    RedisServer::shifted(&["--save", "", "--appendonly", "no"], Some(shim))
}
