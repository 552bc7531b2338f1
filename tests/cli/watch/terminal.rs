//! A terminal, which `script` makes, with `fencing` on it; and what can be seen there.

use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use support::cli::{PATIENCE, heeding, line, until};
use tempfile::TempDir;

pub struct Terminal {
    /// Of `script`, which ends when `fencing` has.
    child: Child,
    written: Arc<Mutex<Vec<u8>>>,
    /// What reads it, to its end.
    reads: Option<JoinHandle<()>>,
    size: (u16, u16),
    folder: TempDir,
}

/// How it ended, and how it left the terminal.
pub struct Left {
    pub status: String,
    pub written: String,
    pub as_before: bool,
}

impl Terminal {
    /// Starts it with these variables and arguments, and what a shell does before that.
    pub fn start(size: (u16, u16), environment: &[(&str, &str)], first: &str, arguments: &str) -> Terminal {
        let folder = tempfile::tempdir().unwrap();
        let (columns, rows) = size;
        let fencing = env!("CARGO_BIN_EXE_fencing");
        let script = format!(
            "trap : INT; stty cols {columns} rows {rows}; stty -g > before; \
             sh -c '{first} echo $$ > pid; exec {fencing} {arguments}'; \
             echo $? > status; stty -g > after"
        );
        let file = folder.path().join("script");
        std::fs::write(&file, script).unwrap();
        let mut command = heeding("script");
        command.args(["-qec", "exec sh script", "/dev/null"]).current_dir(folder.path());
        command.env("SHELL", "/bin/sh").env("TERM", "xterm").envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let read = Arc::clone(&written);
        let reads = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                read.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Terminal { child, written, reads: Some(reads), size, folder }
    }

    pub fn pid(&self) -> u32 {
        line(&self.folder.path().join("pid")).parse().unwrap()
    }

    /// The process that is the terminal.
    pub fn script(&self) -> u32 {
        self.child.id()
    }

    pub fn press(&mut self, keys: &[u8]) {
        self.child.stdin.as_mut().unwrap().write_all(keys).unwrap();
    }

    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    pub fn screen(&self) -> Vec<String> {
        let (columns, rows) = self.size;
        let mut terminal = vt100::Parser::new(rows, columns, 0);
        terminal.process(&self.written.lock().unwrap());
        terminal.screen().rows(0, columns).collect()
    }

    /// Waits until the screen is as it should be.
    pub fn until(&self, what: &str, condition: impl Fn(&[String]) -> bool) {
        let limit = std::time::Instant::now() + PATIENCE / 2;
        until(what, || {
            let screen = self.screen();
            // What stands there instead helps whoever reads that it never came.
            assert!(std::time::Instant::now() < limit, "{what} is not in {screen:#?}");
            condition(&screen)
        });
    }

    /// Waits until a line has all of these texts.
    pub fn shows(&self, texts: &[&str]) {
        self.until(&texts.concat(), |lines| has(lines, texts));
    }

    pub fn hides(&self, texts: &[&str]) {
        self.until(&format!("no {}", texts.concat()), |lines| !has(lines, texts));
    }

    pub fn left(mut self) -> Left {
        until("its end", || self.child.try_wait().unwrap().is_some());
        self.reads.take().unwrap().join().unwrap();
        let read = |name: &str| std::fs::read_to_string(self.folder.path().join(name)).unwrap();
        let as_before = read("before") == read("after");
        Left { status: read("status").trim().to_owned(), written: self.written(), as_before }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Left {
    /// It has this status, and the terminal is as it was: its settings, its picture and its cursor.
    pub fn assert_whole(&self, status: &str) {
        assert_eq!(self.status, status, "{}", self.written);
        assert!(self.as_before);
        let last = |text: &str| self.written.rfind(text).expect(text);
        assert!(last("\x1b[?1049l") > last("\x1b[?1049h"), "{}", self.written);
        assert!(last("\x1b[?25h") > last("\x1b[?25l"), "{}", self.written);
    }
}

fn has(lines: &[String], texts: &[&str]) -> bool {
    lines.iter().any(|line| texts.iter().all(|text| line.contains(text)))
}
