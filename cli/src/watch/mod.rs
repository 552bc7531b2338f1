//! `sources` asks, `view` is what is known, and `draw` the picture of it.

mod draw;
mod sources;
mod view;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::future::pending;
use std::io::{self, IsTerminal, stdin, stdout};
use std::time::Duration;

use crossterm::cursor::Show;
use crossterm::event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};
use futures_util::StreamExt as _;
use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, kill_current_process_group};
use scopeguard::{ScopeGuard, guard};
use tokio::sync::oneshot;
use tokio::sync::watch::Sender;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use wildmatch::WildMatch;

use crate::exit::{Failure, Status};
use crate::findings::{self, NodeBudget};
use crate::lock_service::{LockService, LockUrl};
use crate::marks::MarksUrl;
use crate::signals::Signals;
use crate::{duration, say};
use sources::refresh;
use view::{Moment, Part, View};

/// Shows nodes, leases and marks, and refreshes until you quit. Takes no lock.
///
/// Keys: q, Esc or Ctrl-C quit. The arrows, PgUp, PgDn, Home and End scroll the leases. p pauses, and p again resumes.
/// Ctrl-L redraws, Ctrl-Z suspends. With NO_COLOR in the environment it shows no colours. Without a terminal it prints
/// each refresh as text. A node may take ten times its time limit to list its locks, a database 10s.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    lock: LockUrl,
    /// Shows only leases of resources that match: * is any text, ? any character.
    #[arg(long, value_name = "GLOB", default_value = "*")]
    resource: String,
    /// Refresh interval, from 500ms to 1h.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = every)]
    every: Duration,
    #[command(flatten)]
    budget: NodeBudget,
    #[command(flatten)]
    marks: MarksUrl,
}

fn every(text: &str) -> Result<Duration, String> {
    let every = duration::parse(text)?;
    let allowed = Duration::from_millis(500)..=Duration::from_secs(3600);
    allowed.contains(&every).then_some(every).ok_or_else(|| "give 500ms to 1h".to_owned())
}

/// Time limit for a database.
const DATABASE: Duration = Duration::from_secs(10);
/// How often the picture is drawn at least: the ages in it grow.
const TICK: Duration = Duration::from_secs(1);
/// Time limit of the end after a signal, if the terminal is blocked.
const GRACE: Duration = Duration::from_secs(2);
const GONE: &str = "the terminal is closed";
/// The columns of a picture that no terminal shows.
const WIDTH: u16 = 120;

pub(crate) async fn main(args: WatchArgs) -> Result<Status, Failure> {
    let (wanted, budget) = (WildMatch::new(&args.resource), args.budget.within(Duration::MAX));
    let (service, marks_at) = args.marks.beside(&args.lock)?;
    let mut view = View::new(args.every, budget);
    view.place = match &service {
        LockService::Redis(redis) => {
            view.nodes = Part::Asking;
            format!("namespace {}", redis.namespace)
        }
        LockService::Database(url) | LockService::Engine { url, .. } => say::without_passwords(url),
    };
    if args.resource != "*" {
        view.place = format!("{}  {}", view.place, args.resource);
    }
    if marks_at.is_some() {
        view.marks = Part::Asking;
    }
    let view = &Sender::new(view);
    let nodes = async {
        let LockService::Redis(redis) = &service else { return pending().await };
        let ask = async || Ok(findings::ask(redis, budget).await?);
        refresh(view, Duration::MAX, ask, View::set_nodes).await
    };
    let leases = async {
        let mut kept = None;
        let ask = async || sources::leases(&service, &wanted, budget, &mut kept).await;
        let bound = if let LockService::Redis(_) = &service { Duration::MAX } else { DATABASE };
        refresh(view, bound, ask, |view, now, answer| view.leases.set(now, answer)).await
    };
    let marks = async {
        let Some(store) = &marks_at else { return pending().await };
        let mut kept = None;
        let ask = async || sources::marks(store, budget, view, &mut kept).await;
        refresh(view, DATABASE, ask, |view, now, answer| view.marks.set(now, answer)).await
    };
    let shown = async {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let ended = match stdin().is_terminal() && stdout().is_terminal() && !dumb {
            true => on_terminal(view).await,
            false => Ok(as_text(view).await),
        };
        ended.map_err(|error| Failure::failed(format_args!("the terminal failed: {error}")))
    };
    tokio::select! {
        // The terminal first: what is wrong may be found at once, and is said when it was given back.
        biased;
        ended = shown => ended,
        wrong = async { tokio::try_join!(nodes, leases, marks) } => {
            wrong.map(|(never, ..): (Infallible, Infallible, Infallible)| match never {})
        }
    }
}

/// Prints the picture as text each time, until the reader has gone away.
async fn as_text(view: &Sender<View>) -> Status {
    let every = view.borrow().every;
    loop {
        sleep(every).await;
        let mut lines = Vec::new();
        view.send_modify(|view| lines = picture(view, Moment::now()));
        if !say::try_out(format_args!("{}\n\n", lines.join("\n"))) {
            return Status::DONE;
        }
    }
}

/// The lines of the picture, all of them, without the keys and the spaces at their ends.
fn picture(view: &mut View, now: Moment) -> Vec<String> {
    let leases = view.leases.answer().map_or(0, |leases| leases.all.len() + leases.faults.len());
    let nodes = view.nodes.answer().map_or(0, |nodes| nodes.nodes.len());
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
async fn on_terminal(view: &Sender<View>) -> io::Result<Status> {
    let mut stop = stop()?;
    let mut screen = screen()?;
    let (mut keys, mut changes) = (EventStream::new(), view.subscribe());
    loop {
        is_there()?;
        screen.draw(|frame| {
            view.send_if_modified(|view| {
                draw::draw(frame.buffer_mut(), view, Moment::now());
                // Its notes are no change.
                false
            });
        })?;
        tokio::select! {
            biased;
            Ok(signal) = &mut stop => return Ok(Status::by_signal(signal.as_raw())),
            event = keys.next() => match event.transpose()? {
                Some(Event::Key(key)) if key.kind == KeyEventKind::Press => {
                    let mut quits = Ok(false);
                    view.send_modify(|view| quits = press(key, view, &mut screen));
                    if quits? {
                        return Ok(Status::DONE);
                    }
                }
                Some(_) => {}
                None => return Err(io::Error::other(GONE)),
            },
            _ = changes.changed() => {}
            () = sleep(TICK) => {}
        }
    }
}

/// Follows a key, and returns whether it quits.
fn press(key: KeyEvent, view: &mut View, screen: &mut DefaultTerminal) -> io::Result<bool> {
    let (first, page) = (view.first, view.page.saturating_sub(1).max(1));
    match (key.code, key.modifiers) {
        (KeyCode::Char('q') | KeyCode::Esc, _) | (KeyCode::Char('c'), KeyModifiers::CONTROL) => return Ok(true),
        (KeyCode::Char(key @ ('l' | 'z')), KeyModifiers::CONTROL) => {
            if key == 'z' {
                give_back();
                kill_current_process_group(Signal::TSTP)?;
                enable_raw_mode()?;
                execute!(stdout(), EnterAlternateScreen)?;
            }
            // `Terminal::clear` asks the terminal for its cursor, and fails if no answer comes.
            let size = screen.size()?;
            screen.resize(size.into())?;
        }
        (KeyCode::Char('p'), _) => {
            view.paused = if view.paused.is_none() { Some(Moment::now()) } else { None };
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

/// Takes the terminal for the view. Dropped, it is given back.
fn screen() -> io::Result<ScopeGuard<DefaultTerminal, fn(DefaultTerminal)>> {
    Ok(guard(ratatui::try_init()?, |_| give_back()))
}

/// Restores the terminal. The settings come first: even a blocked terminal takes these.
fn give_back() {
    let _ = ratatui::try_restore();
    let _ = execute!(stdout(), Show);
}

/// Fails if the terminal is closed. crossterm does not notice, and would read from it for ever (crossterm#793).
fn is_there() -> io::Result<()> {
    let stdin = stdin();
    let mut ends = [PollFd::new(&stdin, PollFlags::empty())];
    poll(&mut ends, Some(&Timespec::default()))?;
    if ends.iter().all(|end| end.revents().is_empty()) { Ok(()) } else { Err(io::Error::other(GONE)) }
}

/// Waits for the signal that ends the view. If the terminal is blocked, the view cannot follow: then it is ended.
fn stop() -> io::Result<oneshot::Receiver<Signal>> {
    let mut signals = Signals::listen().map_err(|failure| io::Error::other(failure.message))?;
    let (sent, received) = oneshot::channel();
    tokio::spawn(async move {
        let signal = signals.next().await;
        let _ = sent.send(signal);
        sleep(GRACE).await;
        let _ = timeout(TICK, spawn_blocking(give_back)).await;
        std::process::exit(Status::by_signal(signal.as_raw()).0.into());
    });
    Ok(received)
}
