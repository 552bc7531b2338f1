//! The terminal: taken for the view, and given back as it was.

use std::io::{self, IsTerminal, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Size;
use ratatui_core::terminal::Terminal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc;

use super::ansi::Ansi;
use super::keys::{Key, Keys};

/// How long the rest of a key may take to follow an escape.
const REST: Duration = Duration::from_millis(100);
/// Where the terminal does not say how large it is.
const SIZE: Size = Size::new(80, 24);
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// How the terminal was set before.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// The terminal while it is the view's. Dropped, it is given back.
pub(super) struct Screen {
    terminal: Terminal<Ansi<Tty>>,
}

/// stdout without a buffer and without a lock, that a panic could find taken.
struct Tty;

impl Write for Tty {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(stdout().as_fd(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns whether there is a terminal to read from and to draw on.
pub(super) fn is_there() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stdin().is_terminal() && stdout().is_terminal() && !dumb
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn enter() -> io::Result<Screen> {
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                usual(panic);
                // Also from another thread: nobody would see what it draws from now on.
                std::process::exit(101);
            }));
        });
        let screen = Screen { terminal: Terminal::new(Ansi::new(Tty, size))? };
        // If that fails in the middle, what was taken is given back.
        take()?;
        Ok(screen)
    }

    /// Draws a picture: writes what has changed since the last one.
    pub(super) fn draw<T>(&mut self, picture: impl FnOnce(&mut Buffer) -> T) -> io::Result<T> {
        let mut drawn = None;
        self.terminal.draw(|frame| drawn = Some(picture(frame.buffer_mut())))?;
        drawn.ok_or_else(|| io::Error::other("nothing was drawn"))
    }

    /// Forgets what stands there: the next picture is drawn in full.
    pub(super) fn anew(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }

    /// Gives the terminal back, stops this process as Ctrl-Z does, and takes the terminal again when it goes on.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        rustix::process::kill_current_process_group(rustix::process::Signal::TSTP)?;
        take()?;
        self.anew()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn size() -> io::Result<Size> {
    let size = tcgetwinsize(stdout().as_fd())?;
    let known = size.ws_col > 0 && size.ws_row > 0;
    Ok(if known { Size::new(size.ws_col, size.ws_row) } else { SIZE })
}

fn take() -> io::Result<()> {
    let before = tcgetattr(stdin().as_fd())?;
    let mut raw = before.clone();
    raw.make_raw();
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(before);
    tcsetattr(stdin().as_fd(), OptionalActions::Now, &raw)?;
    Tty.write_all(ENTER)
}

/// Gives the terminal back, if it was taken. If that fails there is none any more.
pub(super) fn give_back() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        // The settings first: a terminal that takes no more text takes these.
        let _ = tcsetattr(stdin().as_fd(), OptionalActions::Now, &before);
        let _ = Tty.write_all(LEAVE);
    }
}

/// Reads keys until the terminal is gone. Then the channel ends.
pub(super) fn keys() -> mpsc::Receiver<Key> {
    let (told, heard) = mpsc::channel(64);
    std::thread::spawn(move || {
        let mut keys = Keys::default();
        loop {
            let found = match read(&mut keys) {
                Ok(found) => found,
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return,
            };
            if found.into_iter().any(|key| told.blocking_send(key).is_err()) {
                return;
            }
        }
    });
    heard
}

fn read(keys: &mut Keys) -> rustix::io::Result<Vec<Key>> {
    let stdin = stdin();
    if keys.wait() {
        let rest = Timespec::try_from(REST).unwrap_or_default();
        if poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&rest))? == 0 {
            return Ok(keys.nothing_more().into_iter().collect());
        }
    }
    let mut bytes = [0; 256];
    let count = rustix::io::read(stdin.as_fd(), &mut bytes)?;
    if count == 0 {
        return Err(rustix::io::Errno::IO);
    }
    Ok(bytes.iter().take(count).filter_map(|byte| keys.take(*byte)).collect())
}
