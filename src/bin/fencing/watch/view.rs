//! What the view knows, and since when.

use std::collections::BTreeMap;
use std::time::Duration;

use super::exposition::{Cause, Process};
use super::keys::Key;
use super::moment::Moment;
use super::told::{Leases, Marks, Nodes, Told};

/// What was asked for.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// Where the locks are, in words.
    pub(super) place: String,
    /// The form of the resources.
    pub(super) resource: String,
    pub(super) every: Duration,
    pub(super) budget: Duration,
}

impl Asked {
    /// After this time there should have been a newer answer.
    fn fresh(&self) -> Duration {
        self.every + 2 * self.budget + Duration::from_secs(1)
    }
}

/// What one source has told last.
#[derive(Debug)]
pub(super) struct Part<T> {
    last: Option<(Moment, Result<T, String>)>,
    /// Since when it answers, or does not.
    since: Option<Moment>,
}

impl<T> Default for Part<T> {
    fn default() -> Part<T> {
        Part { last: None, since: None }
    }
}

impl<T> Part<T> {
    fn tell(&mut self, now: Moment, told: Result<T, String>) {
        let same = self.last.as_ref().is_some_and(|(_, last)| last.is_ok() == told.is_ok());
        self.since = self.since.filter(|_| same).or(Some(now));
        self.last = Some((now, told));
    }

    /// What it has told last, if that was an answer.
    pub(super) fn told(&self) -> Option<&T> {
        self.last.as_ref()?.1.as_ref().ok()
    }

    pub(super) fn last(&self) -> Option<&(Moment, Result<T, String>)> {
        self.last.as_ref()
    }

    pub(super) fn since(&self) -> Option<Moment> {
        self.since
    }
}

/// Since when a node stands as it does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Since {
    pub(super) moment: Moment,
    /// It may have stood so before: the view has seen nothing else.
    pub(super) or_before: bool,
}

/// A process whose metrics are read.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) name: String,
    pub(super) part: Part<Process>,
    /// What it had counted when the view began.
    first: Option<BTreeMap<Cause, f64>>,
}

impl Watched {
    /// How many more writes it has not let through since the view began.
    pub(super) fn more(&self, cause: &Cause) -> f64 {
        let now = self.part.told().and_then(|it| it.refused.get(cause)).copied().unwrap_or(0.0);
        let first = self.first.as_ref().and_then(|first| first.get(cause)).copied();
        now - first.unwrap_or(0.0)
    }

    fn tell(&mut self, now: Moment, told: Result<Process, String>) {
        if let Ok(process) = &told {
            let first = self.first.get_or_insert_with(|| process.refused.clone());
            for (cause, count) in first.iter_mut() {
                // A process that was started anew counts from zero.
                if process.refused.get(cause).copied().unwrap_or(0.0) < *count {
                    *count = 0.0;
                }
            }
        }
        self.part.tell(now, told);
    }
}

/// Everything that is drawn.
#[derive(Debug)]
pub(super) struct View {
    pub(super) asked: Asked,
    pub(super) began: Moment,
    /// `None` where there are none.
    pub(super) nodes: Option<Part<Nodes>>,
    states: BTreeMap<String, (&'static str, Since)>,
    pub(super) leases: Part<Leases>,
    pub(super) marks: Option<Part<Marks>>,
    pub(super) processes: Vec<Watched>,
    /// Since when it does not ask.
    pub(super) paused: Option<Moment>,
    /// How many lines stand above the screen.
    pub(super) offset: usize,
}

impl View {
    pub(super) fn new(
        asked: Asked,
        began: Moment,
        has_nodes: bool,
        has_marks: bool,
        processes: impl Iterator<Item = String>,
    ) -> View {
        let watched = |name| Watched { name, ..Watched::default() };
        View {
            asked,
            began,
            nodes: has_nodes.then(Part::default),
            states: BTreeMap::new(),
            leases: Part::default(),
            marks: has_marks.then(Part::default),
            processes: processes.map(watched).collect(),
            paused: None,
            offset: 0,
        }
    }

    /// Takes what was told now. What is wrong for good is no state, and is for the caller.
    pub(super) fn tell(&mut self, now: Moment, told: Told) {
        match told {
            Told::Nodes(nodes) => {
                self.stand(now, &nodes);
                if let Some(part) = &mut self.nodes {
                    part.tell(now, Ok(nodes));
                }
            }
            Told::Leases(leases) => self.leases.tell(now, leases),
            Told::Marks(marks) => {
                if let Some(part) = &mut self.marks {
                    part.tell(now, marks);
                }
            }
            Told::Process(place, told) => {
                if let Some(process) = self.processes.get_mut(place) {
                    process.tell(now, told);
                }
            }
            Told::Wrong(_) => {}
        }
    }

    fn stand(&mut self, now: Moment, nodes: &Nodes) {
        // Where nobody has looked for a while, it may have come about meanwhile.
        let or_before =
            self.nodes.as_ref().is_none_or(|part| part.last().is_none() || self.is_old(part, now));
        let mut states = BTreeMap::new();
        for node in &nodes.all {
            let last = self.states.get(&node.name);
            let last = last.filter(|(word, _)| *word == node.state.word());
            let since = last.map_or(Since { moment: now, or_before }, |(_, since)| *since);
            states.insert(node.name.clone(), (node.state.word(), since));
        }
        self.states = states;
    }

    /// Since when a node stands as it does.
    pub(super) fn since(&self, node: &str) -> Option<Since> {
        self.states.get(node).map(|(_, since)| *since)
    }

    /// Whether a part should have told something newer by now.
    pub(super) fn is_old<T>(&self, part: &Part<T>, now: Moment) -> bool {
        part.last().is_some_and(|(when, _)| when.age(now) > self.asked.fresh())
    }

    /// Follows a key that scrolls or pauses. `page` is how many lines the screen shows.
    pub(super) fn press(&mut self, key: Key, now: Moment, page: usize) {
        // Two lines are the heading, and one is seen again.
        let page = page.saturating_sub(3).max(1);
        let offset = self.offset;
        match key {
            Key::Pause => self.paused = if self.paused.is_none() { Some(now) } else { None },
            Key::Up => self.offset = offset.saturating_sub(1),
            Key::Down => self.offset = offset.saturating_add(1),
            Key::PageUp => self.offset = offset.saturating_sub(page),
            Key::PageDown => self.offset = offset.saturating_add(page),
            Key::Home => self.offset = 0,
            // Drawing takes what there is.
            Key::End => self.offset = usize::MAX,
            Key::Quit | Key::Anew | Key::Suspend => {}
        }
    }
}
