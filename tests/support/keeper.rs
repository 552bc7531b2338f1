//! A server that ends with the test, however the test process ends, and its folder with it.

use std::ffi::OsString;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// At the end of the input, however the test process ends, ends the server, also a stopped one, and removes its folder.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
signal=$1 folder=$2; shift 2
"$@" </dev/null & server=$!
echo $server >"$folder/pid"
cat >/dev/null
# Another process may have the number of one that has ended.
[ "$(cut -d' ' -f4 /proc/$server/stat 2>/dev/null)" = $$ ] && { kill -$signal $server; kill -CONT $server; }
wait $server
cd /; rm -rf "$folder""#;

/// A shell that waits for the end of the test process.
pub struct Keeper {
    shell: Child,
    folder: PathBuf,
}

impl Keeper {
    /// Starts a program by this shell, and returns when it is ready. The signal ends it.
    pub fn start(
        mut shell: Command,
        folder: &Path,
        signal: &str,
        program: Vec<OsString>,
        mut ready: impl FnMut() -> bool,
    ) -> Keeper {
        shell.args(["-c", SCRIPT, "sh", signal]).arg(folder).args(&program);
        let log = std::fs::File::create(folder.join("log")).expect("a file");
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        let shell = shell.spawn().expect("sh runs");
        let end = Instant::now() + Duration::from_secs(180);
        while !ready() {
            let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < end, "{:?} does not answer:\n{}", program[0], log());
            std::thread::sleep(Duration::from_millis(20));
        }
        Keeper { shell, folder: folder.to_owned() }
    }

    pub fn pid(&self) -> u32 {
        let pid = std::fs::read_to_string(self.folder.join("pid")).expect("the server runs");
        pid.trim().parse().expect("a process id")
    }

    /// Leaves the folder of a server that was killed.
    pub fn leave(&mut self) {
        self.shell.kill().expect("the keeper is ours");
        self.shell.wait().expect("the keeper is ours");
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// The first of these users and their group, if the tests run as root: servers refuse to.
pub fn instead_of_root(users: &[&str]) -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse::<u32>().ok()
    };
    let users = users.iter().filter(|_| id(&["-u"]) == Some(0));
    users.filter_map(|user| Some((id(&["-u", user])?, id(&["-g", user])?))).next()
}

/// A new folder that belongs to that user.
pub fn own_folder(prefix: &str, users: &[&str]) -> PathBuf {
    let folder = tempfile::Builder::new().prefix(prefix).tempdir();
    let folder = folder.expect("a temporary folder").keep();
    if let Some((uid, gid)) = instead_of_root(users) {
        chown(&folder, Some(uid), Some(gid)).expect("root may");
    }
    folder
}

/// The first of these paths that is there: the path for users may not show a server.
pub fn first_of(paths: [&'static str; 3]) -> &'static str {
    paths.into_iter().find(|path| Path::new(path).exists()).unwrap_or(paths[0])
}
