//! Servers whose clock can jump.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use support::redis::{RedisServer, SHIM_SOURCE};

/// A server whose clock is set by `set_clock`.
pub fn shifted() -> RedisServer {
    static SHIM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, shim) = SHIM.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let shim = folder.path().join("clock.so");
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&shim).arg(SHIM_SOURCE);
        assert!(compile.status().expect("a C compiler").success());
        (folder, shim)
    });
    RedisServer::shifted(&["--save", "", "--appendonly", "no"], Some(shim))
}
