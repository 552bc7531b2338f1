//! The binary `fencing` as a process, and bounds against hanging.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::redis::{self, RedisServer};

/// Far longer than anything here takes: a test that comes here hangs.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A program that ignores no signal, whatever the tests were started to ignore: a shell's
/// `&` and `nohup` ignore some. It has no terminal, whatever the tests have. Its process is the program's own.
pub fn heeding(program: &str) -> Command {
    let mut command = Command::new("setsid");
    command.args(["env", "--default-signal"]);
    if program == "fencing" {
        command.arg(binary(program))
    } else {
        command.arg(program)
    };
    command
}

/// A binary of this repository. Cargo puts it beside the folder of the tests.
pub fn binary(name: &str) -> PathBuf {
    built(name, "")
}

/// One of the small examples.
pub fn example(name: &str) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal").arg(built(&format!("examples/{name}"), " --bins --examples"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn built(name: &str, targets: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let mut folders = here.ancestors().skip(1).map(|folder| folder.join(name));
    let found = folders.find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!("{name} is not built: cargo build --workspace --all-features{targets}")
    })
}

/// The binary, with the nodes in its environment and nothing on stdin.
pub fn fencing(servers: &[RedisServer]) -> Command {
    fencing_at(&urls(servers))
}

/// The same, where the servers are in other hands.
pub fn fencing_at(urls: &str) -> Command {
    let mut command = heeding("fencing");
    command.env("FENCING_REDIS", urls).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Five servers that grant locks.
pub fn five() -> Vec<RedisServer> {
    started(redis::five())
}

/// The same servers, once they grant locks: they are new, and nobody needs to wait until a
/// lock that they may have forgotten is over.
pub fn started(servers: Vec<RedisServer>) -> Vec<RedisServer> {
    let mut command = fencing(&servers);
    command.args(["fleet", "init", "--node-budget", "5s"]);
    let ended = finish(command);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    servers
}

pub fn urls(servers: &[RedisServer]) -> String {
    servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(",")
}

/// `fencing run` of a shell script on `invoice/42`, with these options.
pub fn run(servers: &[RedisServer], options: &[&str], script: &str) -> Command {
    let mut command = fencing(servers);
    command.args(["run", "--resource", "invoice/42"]).args(options);
    // A busy machine takes the processors from the servers.
    if !options.contains(&"--node-budget") {
        command.args(["--node-budget", &format!("{}ms", patience(options))]);
    }
    command.args(["--", "sh", "-c", script]);
    command
}

/// How long a node may take, in milliseconds: a second, or a quarter of a shorter TTL.
pub fn patience(options: &[&str]) -> u64 {
    let ttl = options.iter().skip_while(|option| **option != "--ttl").nth(1);
    let millis = ttl.and_then(|ttl| match ttl.strip_suffix("ms") {
        Some(millis) => millis.parse().ok(),
        None => ttl.strip_suffix('s')?.parse().ok().map(|seconds: u64| seconds * 1000),
    });
    millis.map_or(1000, |millis| 1000.min(millis / 4))
}

/// How a process ended, in words.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Asserts its exit status, and that it says these words on stderr.
    #[track_caller]
    pub fn says(self, code: i32, words: &str) -> Ended {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.stderr.contains(words), "{words:?} in {self:?}");
        self
    }
}

/// Waits for the end; kills the process and fails the test if there is none.
pub fn end(mut child: Child) -> Ended {
    let read = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut stream) = stream {
                let _ = stream.read_to_end(&mut text);
            }
            text
        })
    };
    let stdout = read(child.stdout.take().map(|s| Box::new(s) as Box<dyn Read + Send>));
    let stderr = read(child.stderr.take().map(|s| Box::new(s) as Box<dyn Read + Send>));
    let limit = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() >= limit {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the process hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let output = Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() };
    Ended {
        code: output.status.code(),
        signal: output.status.signal(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Starts it and waits for its end.
pub fn finish(mut command: Command) -> Ended {
    end(command.spawn().unwrap())
}

/// Waits for a condition, and fails the test if it never comes.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let limit = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < limit, "never came: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The lines of `fencing nodes` that name this node.
pub fn lines_of(said: &str, node: &str) -> String {
    let names = |line: &&str| {
        line.split_once(": ").is_some_and(|(names, _)| names.split(", ").any(|name| name == node))
    };
    said.lines().filter(names).collect::<Vec<_>>().join("\n")
}

/// The first line of a file that a script writes, when it is there.
pub fn line(path: &std::path::Path) -> String {
    let mut text = String::new();
    until(&path.display().to_string(), || {
        text = std::fs::read_to_string(path).unwrap_or_default();
        text.contains('\n')
    });
    text.lines().next().unwrap().to_owned()
}
