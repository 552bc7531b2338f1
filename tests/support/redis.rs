//! Private redis-servers: real, on sockets in a temporary folder, stopped with the test.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::process::{self, KilledOnDrop};

pub const IN_MEMORY: &[&str] = &["--save", "", "--appendonly", "no"];

pub struct RedisServer {
    // Dropped before its folder.
    child: Option<KilledOnDrop>,
    folder: TempDir,
    settings: Vec<String>,
    /// What shifts its clock.
    shim: Option<&'static Path>,
}

impl RedisServer {
    /// Starts a server without persistence.
    pub fn start() -> RedisServer {
        RedisServer::with(IN_MEMORY)
    }

    pub fn with(settings: &[&str]) -> RedisServer {
        RedisServer::new(settings, None)
    }

    /// The same, with a clock that can jump.
    pub fn shifted(settings: &[&str]) -> RedisServer {
        RedisServer::new(settings, Some(shim()))
    }

    fn new(settings: &[&str], shim: Option<&'static Path>) -> RedisServer {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let settings = settings.iter().map(ToString::to_string).collect();
        let mut server = RedisServer { folder, child: None, settings, shim };
        server.set_clock(0);
        server.restart();
        server
    }

    /// Sets the server's clock so many seconds ahead, or behind.
    pub fn set_clock(&self, ahead: i64) {
        let path = self.folder.path().join("clock");
        let file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
        // In place, as the server has mapped it.
        file.and_then(|mut file| std::io::Write::write_all(&mut file, &ahead.to_ne_bytes())).expect("a file");
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    pub fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub fn kill(&mut self) {
        self.child = None;
    }

    /// Kills the server, and starts it again on the same folder.
    pub fn restart(&mut self) {
        self.kill();
        let _ = std::fs::remove_file(self.socket());
        let mut command = Command::new("redis-server");
        if let Some(shim) = self.shim {
            command.env("LD_PRELOAD", shim).env("FENCING_CLOCK", self.folder.path().join("clock"));
        }
        // A group of its own: where a shell ends, the kernel continues what is stopped in its group.
        command.process_group(0).args(["--port", "0", "--unixsocket"]).arg(self.socket());
        command.arg("--dir").arg(self.folder.path()).args(&self.settings);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(KilledOnDrop(child.expect("redis-server is installed: tests/run does that")));
        process::until("redis-server answers", || {
            let ended = self.child.as_mut().and_then(|child| child.0.try_wait().ok().flatten());
            assert!(ended.is_none(), "redis-server has ended: {ended:?}");
            self.try_cli(&["PING"]).as_deref() == Some("PONG")
        });
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the server runs").0.id()
    }

    pub fn signal(&self, name: &str) {
        process::signal(self.pid(), name);
    }

    pub fn cli(&self, arguments: &[&str]) -> String {
        self.try_cli(arguments).expect("the server answers")
    }

    fn try_cli(&self, arguments: &[&str]) -> Option<String> {
        let output = Command::new("redis-cli").arg("-s").arg(self.socket()).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    }
}

/// Compiles `clock.c`, once.
fn shim() -> &'static Path {
    static SHIM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, shim) = SHIM.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (shim, source) = (folder.path().join("clock.so"), concat!(env!("CARGO_MANIFEST_DIR"), "/clock.c"));
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O1", "-o"]).args([&*shim, Path::new(source)]);
        assert!(compile.status().expect("a C compiler").success());
        (folder, shim)
    });
    shim
}

/// Returns how many clients wait for a lock, at most of the servers. At one that was too late to grant the lock, on a
/// busy machine, it is free, and nobody waits.
pub fn waiting(servers: &[RedisServer], resource: &str) -> usize {
    let key = format!("{{fencing}}:waiting:{resource}");
    let waiting = servers.iter().map(|server| server.cli(&["ZCARD", &key]));
    let mut waiting: Vec<usize> = waiting.map(|many| many.parse().expect("a number")).collect();
    waiting.sort_unstable();
    waiting[waiting.len() / 2]
}

pub fn servers(count: usize) -> Vec<RedisServer> {
    (0..count).map(|_| RedisServer::start()).collect()
}

pub fn five() -> Vec<RedisServer> {
    servers(5)
}

/// Makes a user on each server that has the rights of docs/guide/production.md, and returns its URLs.
pub fn with_rights(servers: &[RedisServer]) -> Vec<String> {
    let guide = include_str!("../../docs/guide/production.md");
    let rule = guide.split("ACL SETUSER locks ").nth(1).unwrap().split("\n```").next().unwrap();
    let rule: Vec<&str> = rule.split_whitespace().filter(|it| *it != "\\").map(|it| it.trim_matches('\'')).collect();
    let allow = |server: &RedisServer| {
        server.cli(&[&["ACL", "SETUSER", "locks"], &rule[..]].concat());
        format!("{}?user=locks&pass=secret", server.url())
    };
    servers.iter().map(allow).collect()
}
