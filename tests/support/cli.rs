//! The binary `fencing` as a process, and bounds against hanging.

use std::io::{BufRead, BufReader};
use std::ops::Deref;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};
use std::time::Instant;

use tempfile::TempDir;

use super::process;
pub use super::process::{PATIENCE, children_of, runs, signal, stands_still, until};
use super::redis;
pub use super::redis::RedisServer;

/// A program that ignores no signal, whatever the tests were started to ignore: a shell's
/// `&` and `nohup` ignore some. It has no terminal, whatever the tests have. Its process is the program's own.
pub fn heeding(program: &str) -> Command {
    let mut command = Command::new("setsid");
    command.args(["env", "--default-signal"]);
    command.arg(if program == "fencing" { binary(program) } else { program.into() });
    command
}

/// A binary of this repository. Cargo puts it beside the folder of the tests.
pub fn binary(name: &str) -> PathBuf {
    built(name, "")
}

pub fn example(name: &str) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal").arg(built(&format!("examples/{name}"), " --bins --examples"));
    piped(command)
}

fn built(name: &str, targets: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let mut folders = here.ancestors().skip(1).map(|folder| folder.join(name));
    let found = folders.find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} is not built: cargo build --workspace --all-features{targets}"))
}

/// Nothing on stdin, and both outputs are read.
pub fn piped(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Where leases are: servers, a list of their URLs, or the URL of a database. Nowhere if it is empty.
pub trait Place {
    fn place(&self) -> String;
}

impl Place for [RedisServer] {
    fn place(&self) -> String {
        urls(self)
    }
}

impl Place for str {
    fn place(&self) -> String {
        self.to_owned()
    }
}

impl<T: Deref<Target: Place>> Place for T {
    fn place(&self) -> String {
        (**self).place()
    }
}

/// The binary with these arguments, and this place and no other in its environment.
pub fn fencing(place: &(impl Place + ?Sized), arguments: &str) -> Command {
    let place = place.place();
    let mut command = heeding("fencing");
    for name in ["FENCING_LOCK", "FENCING_REDIS", "FENCING_DATABASE"] {
        command.env_remove(name);
    }
    command.args(arguments.split_whitespace());
    if ["sqlite:", "postgres:", "mysql:"].iter().any(|kind| place.starts_with(kind)) {
        command.env("FENCING_DATABASE", place);
    } else if ["etcd:", "zookeeper:", "memory:"].iter().any(|kind| place.starts_with(kind)) {
        command.env("FENCING_LOCK", place);
    } else if !place.is_empty() {
        command.env("FENCING_REDIS", place);
    }
    piped(command)
}

/// The same, until its end.
pub fn ask(place: &(impl Place + ?Sized), arguments: &str) -> Ended {
    finish(fencing(place, arguments))
}

pub fn five() -> Vec<RedisServer> {
    started(redis::five())
}

/// The same servers, once they grant locks: they are new, and nobody waits for locks that they may have forgotten.
pub fn started(servers: Vec<RedisServer>) -> Vec<RedisServer> {
    init(&servers);
    servers
}

/// `fencing fleet init`, which must succeed.
pub fn init(list: &(impl Place + ?Sized)) {
    until("the fleet starts", || ask(list, "fleet init --node-budget 5s").code == Some(0));
}

pub fn urls<'a>(servers: impl IntoIterator<Item = &'a RedisServer>) -> String {
    servers.into_iter().map(RedisServer::url).collect::<Vec<_>>().join(",")
}

/// For servers that neither stop nor hang: with these options of [`run`] a busy machine does not look like dead ones.
pub const PATIENT: &str = "--ttl 2m --node-budget 60s";

/// `fencing run` of a shell script on `invoice/42`, with these options.
pub fn run(place: &(impl Place + ?Sized), options: &str, script: &str) -> Command {
    let mut command = fencing(place, &format!("run --resource invoice/42 {options}"));
    // A busy machine takes the processors from the servers.
    if !options.contains("--node-budget") {
        command.args(["--node-budget", "1s"]);
    }
    command.args(["--", "sh", "-c", script]);
    command
}

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

    #[track_caller]
    pub fn prints(self, code: i32, stdout: &str) -> Ended {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), stdout), "{self:?}");
        self
    }

    /// Asserts its exit status, and that it says nothing on stderr.
    #[track_caller]
    pub fn is(self, code: i32) -> Ended {
        assert_eq!((self.code, self.stderr.as_str()), (Some(code), ""), "{self:?}");
        self
    }

    /// Asserts that it succeeded and says nothing else, and returns what it printed.
    #[track_caller]
    pub fn printed(self) -> String {
        self.is(0).stdout
    }

    /// The same, where that is a number.
    #[track_caller]
    pub fn number(self) -> u64 {
        self.printed().trim().parse().expect("a number")
    }
}

/// A program that goes on, and is killed at the end of the test.
pub struct Running {
    child: Option<Child>,
    lines: Mutex<Receiver<String>>,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, lines) = mpsc::channel();
        // What nobody waits for is read as well.
        std::thread::spawn(move || output.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        Running { child: Some(child), lines: Mutex::new(lines) }
    }

    /// Reads on until a line begins so, and returns its rest.
    #[track_caller]
    pub fn until(&mut self, start: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let lines = self.lines.get_mut().unwrap();
            let line = lines.recv_timeout(end.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|error| panic!("no line begins with {start}: {error}"));
            if let Some(rest) = line.strip_prefix(start) {
                return rest.to_owned();
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub fn signal(&self, name: &str) {
        process::signal(self.pid(), name);
    }

    pub fn ended(mut self) -> Ended {
        end(self.child.take().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// `fencing run` of a script that goes on until it is let go, or ended.
pub struct Job {
    child: Child,
    folder: TempDir,
    pub token: u64,
    noted: Vec<u32>,
}

impl Job {
    /// Starts it: the script does what comes first, and notes the ids of processes: `$$ $!`.
    pub fn start(place: &(impl Place + ?Sized), options: &str, first: &str, processes: &str) -> Job {
        Job::of(|script| run(place, options, script), first, processes)
    }

    /// The same, by a command that is made of the script.
    pub fn of(command: impl FnOnce(&str) -> Command, first: &str, processes: &str) -> Job {
        let folder = tempfile::tempdir().unwrap();
        let [ready, go] = ["ready", "go"].map(|name| folder.path().join(name));
        let (note, go) = (ready.display(), go.display());
        let script =
            format!("{first}\necho $FENCING_TOKEN {processes} > {note}; while ! [ -e {go} ]; do sleep 0.05; done");
        let child = command(&script).spawn().unwrap();
        let noted = line(&ready);
        let (token, processes) = noted.split_once(' ').unwrap_or((&noted, ""));
        let processes = processes.split_whitespace().map(|number| number.parse().unwrap());
        Job { child, folder, token: token.parse().unwrap(), noted: processes.collect() }
    }

    pub fn processes<const COUNT: usize>(&self) -> [u32; COUNT] {
        self.noted.clone().try_into().expect("so many")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        process::signal(self.pid(), name);
    }

    pub fn let_go(&self) {
        std::fs::write(self.folder.path().join("go"), "").unwrap();
    }

    /// The same, and waits for the end.
    pub fn go(self) -> Ended {
        self.let_go();
        self.ended()
    }

    pub fn ended(self) -> Ended {
        end(self.child)
    }
}

/// Waits for the end; kills the process and fails the test if there is none.
pub fn end(child: Child) -> Ended {
    let pid = child.id();
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = ended.recv_timeout(PATIENCE) else {
        process::kill(&[pid]);
        panic!("the process hangs");
    };
    let output = output.unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    Ended { code: output.status.code(), signal: output.status.signal(), stdout, stderr }
}

pub fn finish(command: Command) -> Ended {
    end(piped(command).spawn().unwrap())
}

/// The lines of `fencing nodes` that name this node.
pub fn lines_of(said: &str, node: &str) -> String {
    let names =
        |line: &&str| line.split_once(": ").is_some_and(|(names, _)| names.split(", ").any(|name| name == node));
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
