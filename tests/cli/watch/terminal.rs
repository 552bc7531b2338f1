//! A terminal, which `script` makes, with `fencing` on it; and what can be seen there.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex};

use support::cli::{Ended, PATIENCE, end, heeding, line, until};
use tempfile::TempDir;

/// `fencing` on a terminal.
pub struct Terminal {
    /// Of `script`, which ends when `fencing` has.
    child: Option<Child>,
    keys: Option<ChildStdin>,
    written: Arc<Mutex<Vec<u8>>>,
    size: (usize, usize),
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
    pub fn start(
        size: (usize, usize),
        environment: &[(&str, &str)],
        first: &str,
        arguments: &str,
    ) -> Terminal {
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
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (keys, mut output) = (child.stdin.take(), child.stdout.take().unwrap());
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let reads = Arc::clone(&written);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                reads.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Terminal { child: Some(child), keys, written, size, folder }
    }

    pub fn pid(&self) -> u32 {
        line(&self.folder.path().join("pid")).parse().unwrap()
    }

    /// The process that is the terminal.
    pub fn script(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub fn press(&mut self, keys: &[u8]) {
        self.keys.as_mut().unwrap().write_all(keys).unwrap();
    }

    /// Everything that was written.
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    /// The lines on the screen.
    pub fn screen(&self) -> Vec<String> {
        screen(&self.written(), self.size)
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

    /// Waits until none has.
    pub fn hides(&self, texts: &[&str]) {
        self.until(&format!("no {}", texts.concat()), |lines| !has(lines, texts));
    }

    /// Waits for the end.
    pub fn left(mut self) -> Left {
        let Ended { code, .. } = end(self.child.take().unwrap());
        assert!(code.is_some());
        let read = |name: &str| std::fs::read_to_string(self.folder.path().join(name)).unwrap();
        let as_before = read("before") == read("after");
        Left { status: read("status").trim().to_owned(), written: self.written(), as_before }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
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

/// What a terminal makes of it. It knows what the view writes, and fails at anything else.
fn screen(written: &str, (columns, rows): (usize, usize)) -> Vec<String> {
    let mut cells = vec![vec![' '; columns]; rows];
    let (mut x, mut y) = (0, 0);
    let mut rest = written.chars();
    while let Some(c) = rest.next() {
        if c != '\x1b' {
            match c {
                '\r' => x = 0,
                '\n' => y += 1,
                _ => {
                    assert!(!c.is_control(), "{c:?} in {written:?}");
                    if y < rows && x < columns {
                        cells[y][x] = c;
                    }
                    x += 1;
                }
            }
            continue;
        }
        let Some('[') = rest.next() else { break };
        let mut parameters = String::new();
        let end = rest.by_ref().find(|c| {
            let end = c.is_ascii_alphabetic();
            if !end {
                parameters.push(*c);
            }
            end
        });
        match end {
            Some('H') => {
                let (row, column) = parameters.split_once(';').unwrap();
                (y, x) = (row.parse::<usize>().unwrap() - 1, column.parse::<usize>().unwrap() - 1);
            }
            Some('J') => cells.iter_mut().for_each(|row| row.fill(' ')),
            Some('m' | 'h' | 'l') => {}
            // It has not come in full.
            None => break,
            Some(other) => panic!("{other} in {written:?}"),
        }
    }
    cells.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect()
}
