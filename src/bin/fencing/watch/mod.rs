//! `fencing watch`: how nodes, leases, marks and processes stand, again and again.
//!
//! `view` is what is known and `draw` the picture of it: they ask nobody, and read no clock. `sources`, `marks` and
//! `scrape` ask, and `screen` has the terminal.

mod ansi;
mod draw;
mod exposition;
mod keys;
mod look;
mod marks;
mod moment;
mod parts;
mod plain;
mod scrape;
mod screen;
mod sources;
mod table;
mod told;
mod view;

#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

use fencing::Resource;
use fencing::redis::RedisMarks;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::{interval, sleep, timeout};

use crate::args::{Chosen, Watch, trimmed};
use crate::glob::Glob;
use crate::pool::{self, Failure, usage};
use crate::signals::Signals;
use crate::{exit, opening, say};
use draw::{Shown, draw};
use keys::Key;
use look::Look;
use marks::{MarksInDatabase, MarksInRedis};
use moment::Moment;
use scrape::Metrics;
use screen::Screen;
use sources::{Database, InDatabase, LocksOnNodes, OnNodes, OnScreen, Wishes};
use told::Told;
use view::{Asked, View};

/// How often the picture is drawn at least: the ages in it grow.
const TICK: Duration = Duration::from_secs(1);
/// How long the end may take after a signal, when the terminal takes nothing any more.
const GRACE: Duration = Duration::from_secs(2);

/// Draws until somebody quits, and returns the exit status.
pub(crate) async fn main(args: Watch) -> u8 {
    match run(&args).await {
        Ok(status) => status,
        Err(Failure(status, text)) => {
            say::error(say::without_passwords(&text));
            status
        }
    }
}

async fn run(args: &Watch) -> Result<u8, Failure> {
    let place = args.place.chosen().map_err(usage)?;
    if !screen::is_there() {
        return Err(usage(NO_TERMINAL));
    }
    let (paused, hears) = watch::channel(false);
    let (on_screen, shown) = watch::channel(Vec::new());
    let (tells, told) = mpsc::channel(16);
    let wishes = Wishes { every: args.every, paused: hears, told: tells };
    let has_marks = ask(args, &place, &wishes, shown)?;
    drop(wishes);
    let asked = Asked {
        place: described(args, &place),
        resource: args.resource.clone(),
        every: args.every,
        budget: args.node_budget,
    };
    let (has_nodes, names) =
        (matches!(place, Chosen::Redis(_)), args.metrics.iter().map(scrape::name));
    let view = View::new(asked, Moment::now(), has_nodes, has_marks, names);
    let failed = |error: io::Error| Failure(exit::FAILED, format!("the terminal failed: {error}"));
    let stop = stop().map_err(failed)?;
    let screen = Screen::enter().map_err(failed)?;
    let mut watching = Watching { view, screen, look: Look::of_environment(), paused, on_screen };
    let ended = watching.watch(told, stop).await;
    // The terminal is given back before anything is said.
    drop(watching);
    ended.unwrap_or_else(|error| Err(failed(error)))
}

/// Asks everybody from now on, and returns whether marks are asked for.
fn ask(args: &Watch, place: &Chosen, wishes: &Wishes, shown: OnScreen) -> Result<bool, Failure> {
    let form = Glob::new(&args.resource);
    let mut marks = args.marks.clone().filter(|url| !url.is_empty());
    match place {
        Chosen::Redis(urls) => {
            let nodes = OnNodes {
                urls: trimmed(urls).map(str::to_owned).collect(),
                namespace: args.place.namespace.clone(),
                budget: args.node_budget,
            };
            wishes.ask(nodes.clone());
            wishes.ask(LocksOnNodes { nodes, form });
        }
        // What is wrong with its URL is said of --database.
        Chosen::Database(url) => {
            pool::kind(url.trim())?;
            let database = Database::new(url.trim());
            wishes.ask(InDatabase { database, form });
            marks.get_or_insert_with(|| url.trim().to_owned());
        }
    }
    match &marks {
        Some(url) if opening::is_redis(url) => {
            let marks = RedisMarks::new(url, &args.place.namespace);
            let marks = marks.map_err(|error| usage(format_args!("--marks: {error}")))?;
            let longest = args.node_budget;
            wishes.ask(MarksInRedis { marks: marks.budget(longest), shown, longest });
        }
        Some(url) if pool::kind(url).is_err() => return Err(usage(NO_MARKS)),
        Some(url) => wishes.ask(MarksInDatabase { database: Database::new(url), shown }),
        None => {}
    }
    for (place, uri) in args.metrics.iter().enumerate() {
        wishes.ask(Metrics::new(place, uri.clone(), args.node_budget));
    }
    Ok(marks.is_some())
}

fn described(args: &Watch, place: &Chosen) -> String {
    match place {
        Chosen::Redis(_) => format!("namespace {}", args.place.namespace),
        Chosen::Database(url) => say::without_passwords(url.trim()),
    }
}

/// Hears the signal that ends the view. If the terminal takes nothing any more, the view cannot follow: then it
/// is ended.
fn stop() -> io::Result<oneshot::Receiver<Signal>> {
    let mut signals = Signals::listen()?;
    let (tell, hear) = oneshot::channel();
    tokio::spawn(async move {
        let signal = signals.next().await;
        let _ = tell.send(signal);
        sleep(GRACE).await;
        // It may never come back from writing.
        let _ = timeout(TICK, spawn_blocking(screen::give_back)).await;
        std::process::exit(exit::by_signal(signal.as_raw()).into());
    });
    Ok(hear)
}

/// The view on its screen.
struct Watching {
    view: View,
    screen: Screen,
    look: Look,
    paused: watch::Sender<bool>,
    on_screen: watch::Sender<Vec<Resource>>,
}

impl Watching {
    /// Draws what is told and follows the keys, until one of them or a signal ends it.
    async fn watch(
        &mut self,
        mut told: mpsc::Receiver<Told>,
        mut stop: oneshot::Receiver<Signal>,
    ) -> io::Result<Result<u8, Failure>> {
        let mut keys = screen::keys();
        let (mut resized, mut ticks) = (signal(SignalKind::window_change())?, interval(TICK));
        loop {
            let page = self.draw()?.page;
            tokio::select! {
                biased;
                Ok(signal) = &mut stop => return Ok(Ok(exit::by_signal(signal.as_raw()))),
                key = keys.recv() => match key {
                    Some(Key::Quit) => return Ok(Ok(0)),
                    Some(Key::Anew) => self.screen.anew()?,
                    Some(Key::Suspend) => self.screen.suspend()?,
                    Some(key) => self.press(key, page),
                    None => return Err(io::Error::other("it is gone")),
                },
                told = told.recv() => match told {
                    Some(Told::Wrong(text)) => return Ok(Err(usage(text))),
                    Some(told) => self.view.tell(Moment::now(), told),
                    None => return Err(io::Error::other("every source has stopped, which is a bug")),
                },
                _ = resized.recv() => {}
                _ = ticks.tick() => {}
            }
        }
    }

    fn draw(&mut self) -> io::Result<Shown> {
        let (view, look, now) = (&self.view, self.look, Moment::now());
        let shown = self.screen.draw(|buffer| draw(buffer, view, now, look))?;
        // What was pressed beyond the end does nothing.
        self.view.offset = shown.offset;
        let leases = self.view.leases.told().map_or(&[][..], |leases| &leases.all);
        let on_screen = leases.get(shown.leases.clone()).unwrap_or_default().iter();
        let on_screen: Vec<Resource> = on_screen.map(|lease| lease.resource.clone()).collect();
        self.on_screen.send_if_modified(|last| {
            let changed = *last != on_screen;
            *last = on_screen;
            changed
        });
        Ok(shown)
    }

    fn press(&mut self, key: Key, page: usize) {
        self.view.press(key, Moment::now(), page);
        self.paused.send_replace(self.view.paused.is_some());
    }
}

const NO_TERMINAL: &str = "\
no terminal: this view reads keys from stdin and draws on stdout. For scripts there are `fencing leases --json` and \
`fencing nodes --json`";
const NO_MARKS: &str = "--marks: the URL begins with sqlite:, postgres:, mysql:, redis: or valkey:";
