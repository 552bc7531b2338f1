//! `fencing watch`: shows nodes, leases and marks, and asks again and again.
//!
//! `sources` asks, `view` is what is known, and `draw` the picture of it.

mod draw;
mod sources;
mod view;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::pending;
use std::io::{self, IsTerminal, Write, stdin, stdout};
use std::time::Duration;

use crossterm::cursor::Show;
use crossterm::event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};
use fencing::redis::RedisMarks;
use futures_util::StreamExt as _;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::{DefaultTerminal, Frame};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, kill_current_process_group};
use tokio::sync::{Notify, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{interval, sleep, timeout};
use wildmatch::WildMatch;

use crate::args::{Chosen, WatchArgs};
use crate::exit::{self, Failure};
use crate::pool;
use crate::signals::Signals;
use crate::{redis_marks, say};
use sources::{OnDatabase, OnNodes, SharedView, marks_in_redis};
use view::{Moment, Part, View};

/// How often the picture is drawn at least: the ages in it grow.
const TICK: Duration = Duration::from_secs(1);
/// How long the end may take after a signal, when the terminal takes nothing any more.
const GRACE: Duration = Duration::from_secs(2);
/// The columns of a picture that no terminal shows.
const WIDTH: u16 = 120;

/// Draws until you quit, and returns the exit status.
pub(crate) async fn main(args: WatchArgs) -> Result<u8, Failure> {
    // The namespace may be that of marks on a Redis.
    let on_redis = args.marks.as_deref().is_some_and(redis_marks::is_redis);
    let place = if on_redis { args.place.named() } else { args.place.chosen() };
    let place = place?;
    let wanted = WildMatch::new(&args.resource);
    let mut described = match &place {
        Chosen::Redis(_) => format!("namespace {}", args.place.namespace()),
        Chosen::Database(url) => say::without_passwords(url.as_str()),
    };
    if args.resource != "*" {
        described = format!("{described}  {}", args.resource);
    }
    let marks_url = match (args.marks.as_deref().filter(|url| !url.is_empty()), &place) {
        (Some(url), _) => Some(url),
        (None, Chosen::Database(url)) => Some(url.as_str()),
        (None, Chosen::Redis(_)) => None,
    };
    let mut view = View::new(described, args.every, args.node_budget);
    view.nodes = matches!(place, Chosen::Redis(_)).then(Part::default);
    view.marks = marks_url.is_some().then(Part::default);
    let view = RefCell::new(view);
    let shared = SharedView { view, changed: Notify::new(), resumed: Notify::new() };
    let marks = async || match marks_url {
        Some(url) if redis_marks::is_redis(url) => {
            let marks = RedisMarks::new(url, args.place.namespace());
            let marks = marks.map_err(|error| Failure::usage(format_args!("--marks: {error}")))?;
            let marks = marks.budget(args.node_budget);
            let ask = async || marks_in_redis(&marks, shared.on_screen()).await;
            shared.refresh(ask, |view, now, answer| set(&mut view.marks, now, answer)).await
        }
        Some(url) => {
            pool::kind(url).map_err(|_| Failure::usage(NO_MARKS))?;
            let mut database = OnDatabase::new(url);
            let ask = async || database.marks(shared.on_screen()).await;
            shared.refresh(ask, |view, now, answer| set(&mut view.marks, now, answer)).await
        }
        None => pending().await,
    };
    let sources = async {
        match &place {
            Chosen::Redis(urls) => {
                let urls = urls.clone();
                let namespace = args.place.namespace().to_owned();
                let nodes = OnNodes { urls, namespace, budget: args.node_budget };
                let states = shared.refresh(async || nodes.nodes().await, View::set_nodes);
                let leases = shared.refresh(
                    async || nodes.leases(&wanted).await,
                    |view, now, answer| view.leases.set(now, answer),
                );
                tokio::try_join!(states, leases, marks()).map(|(never, ..)| never)
            }
            Chosen::Database(url) => {
                pool::kind(url.as_str())?;
                let mut database = OnDatabase::new(url.as_str());
                let leases = shared.refresh(
                    async || database.leases(&wanted).await,
                    |view, now, answer| view.leases.set(now, answer),
                );
                tokio::try_join!(leases, marks()).map(|(never, _)| never)
            }
        }
    };
    let shown = async {
        let ended =
            if has_terminal() { on_terminal(&shared).await } else { as_text(&shared).await };
        ended.map_err(|error| Failure::failed(format_args!("the terminal failed: {error}")))
    };
    tokio::select! {
        ended = shown => ended,
        wrong = sources => wrong.map(|never: Infallible| match never {}),
    }
}

fn set<T>(part: &mut Option<Part<T>>, now: Moment, answer: Result<T, String>) {
    part.get_or_insert_default().set(now, answer);
}

/// Returns whether there is a terminal to read from and to draw on.
fn has_terminal() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stdin().is_terminal() && stdout().is_terminal() && !dumb
}

/// Prints the picture as text each time, until the reader has gone away.
async fn as_text(shared: &SharedView) -> io::Result<u8> {
    let every = shared.view.borrow().every;
    loop {
        sleep(every).await;
        let lines = picture(&mut shared.view.borrow_mut(), Moment::now());
        if writeln!(stdout(), "{}\n", lines.join("\n")).is_err() {
            return Ok(0);
        }
    }
}

/// The lines of the picture, all of them, without the keys and the spaces at their ends.
fn picture(view: &mut View, now: Moment) -> Vec<String> {
    let leases = view.leases.answer().map_or(0, |leases| leases.all.len() + leases.faults.len());
    let nodes = view.nodes.as_ref().and_then(Part::answer).map_or(0, |nodes| nodes.nodes.len());
    let height = u16::try_from(leases + 2 * nodes + 12).unwrap_or(u16::MAX);
    let mut buffer = Buffer::empty(Rect::new(0, 0, WIDTH, height));
    draw::draw(&mut buffer, view, now);
    let rows = buffer.content().chunks(usize::from(WIDTH));
    let text = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
    let mut lines: Vec<String> = text.map(|line| line.trim_end().to_owned()).collect();
    lines.pop();
    lines.retain(|line| !line.is_empty());
    lines
}

/// Draws and follows the keys, until one of them or a signal ends it.
async fn on_terminal(shared: &SharedView) -> io::Result<u8> {
    let mut stop = stop()?;
    let mut screen = Screen::enter()?;
    let (mut keys, mut ticks) = (EventStream::new(), interval(TICK));
    loop {
        let draw = |frame: &mut Frame<'_>| {
            draw::draw(frame.buffer_mut(), &mut shared.view.borrow_mut(), Moment::now());
        };
        screen.0.draw(draw)?;
        tokio::select! {
            biased;
            Ok(signal) = &mut stop => return Ok(exit::by_signal(signal.as_raw())),
            event = keys.next() => match event.transpose()? {
                Some(Event::Key(key)) if key.kind == KeyEventKind::Press => {
                    if press(key, shared, &mut screen)? {
                        return Ok(0);
                    }
                }
                Some(_) => {}
                None => return Err(gone()),
            },
            () = shared.changed.notified() => {}
            _ = ticks.tick() => is_there()?,
        }
    }
}

/// Follows a key, and returns whether it quits.
fn press(key: KeyEvent, shared: &SharedView, screen: &mut Screen) -> io::Result<bool> {
    let view = &mut *shared.view.borrow_mut();
    let (first, page) = (view.first, view.page.saturating_sub(1).max(1));
    match (key.code, key.modifiers) {
        (KeyCode::Char('q') | KeyCode::Esc, _) => return Ok(true),
        (KeyCode::Char('c'), KeyModifiers::CONTROL) => return Ok(true),
        (KeyCode::Char('l'), KeyModifiers::CONTROL) => screen.redraw()?,
        (KeyCode::Char('z'), KeyModifiers::CONTROL) => {
            give_back();
            kill_current_process_group(Signal::TSTP)?;
            enable_raw_mode()?;
            execute!(stdout(), EnterAlternateScreen)?;
            screen.redraw()?;
        }
        (KeyCode::Char('p'), _) => {
            view.paused = if view.paused.is_none() { Some(Moment::now()) } else { None };
            shared.resumed.notify_waiters();
        }
        (KeyCode::Up, _) => view.first = first.saturating_sub(1),
        (KeyCode::Down, _) => view.first = first.saturating_add(1),
        (KeyCode::PageUp, _) => view.first = first.saturating_sub(page),
        (KeyCode::PageDown, _) => view.first = first.saturating_add(page),
        (KeyCode::Home, _) => view.first = 0,
        // Drawing takes what there is.
        (KeyCode::End, _) => view.first = usize::MAX,
        _ => {}
    }
    Ok(false)
}

/// The terminal while it is the view's. Dropped, it is given back.
struct Screen(DefaultTerminal);

impl Screen {
    fn enter() -> io::Result<Screen> {
        Ok(Screen(ratatui::try_init()?))
    }

    /// Draws every character again. (`Terminal::clear` asks the terminal for its cursor, and fails if no answer comes.)
    fn redraw(&mut self) -> io::Result<()> {
        let size = self.0.size()?;
        self.0.resize(size.into())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back. The settings come first: a terminal that takes no more text takes these.
fn give_back() {
    let _ = ratatui::try_restore();
    let _ = execute!(stdout(), Show);
}

/// Fails if the terminal is gone. crossterm does not notice, and would read from it for ever
/// (crossterm#793).
fn is_there() -> io::Result<()> {
    let stdin = stdin();
    let mut ends = [PollFd::new(&stdin, PollFlags::empty())];
    poll(&mut ends, Some(&Timespec::default()))?;
    if ends.iter().all(|end| end.revents().is_empty()) { Ok(()) } else { Err(gone()) }
}

fn gone() -> io::Error {
    io::Error::other("it is gone")
}

/// Waits for the signal that ends the view. If the terminal takes nothing any more, the view cannot follow: then it
/// is ended.
fn stop() -> io::Result<oneshot::Receiver<Signal>> {
    let mut signals = Signals::listen().map_err(|Failure(_, why)| io::Error::other(why))?;
    let (sent, received) = oneshot::channel();
    tokio::spawn(async move {
        let signal = signals.next().await;
        let _ = sent.send(signal);
        sleep(GRACE).await;
        let _ = timeout(TICK, spawn_blocking(give_back)).await;
        std::process::exit(exit::by_signal(signal.as_raw()).into());
    });
    Ok(received)
}

const NO_MARKS: &str = "--marks: the URL begins with sqlite:, postgres:, mysql:, redis: or valkey:";
