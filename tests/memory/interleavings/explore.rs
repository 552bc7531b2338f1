use std::cell::Cell;
use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::interleavings::guard::{Guard, Outcome, Request, Service, Storage};

pub struct Scenario {
    pub name: &'static str,
    pub requests: &'static [Request],
}

/// One step of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The request goes on until it has to wait.
    Run(usize),
    /// The request's client has gone away, and its future is dropped.
    Vanish(usize),
}

#[derive(Default)]
pub struct Found {
    pub schedules: u64,
    pub longest: usize,
    pub outcomes: HashSet<Outcome>,
    /// What went wrong, and the shortest way to it.
    pub violation: Option<(String, Vec<Step>)>,
}

pub fn explore(guard: Guard, scenario: &Scenario) -> Found {
    // The fence sets timers. No time passes here.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let _entered = runtime.enter();
    let mut found = Found::default();
    // Of each step of the last schedule: which one was taken, and of how many.
    let mut taken: Vec<(usize, usize)> = Vec::new();
    loop {
        run(guard, scenario, &mut taken, &mut found);
        found.schedules += 1;
        while taken.last().is_some_and(|(choice, of)| choice + 1 == *of) {
            taken.pop();
        }
        let Some((choice, _)) = taken.last_mut() else { return found };
        *choice += 1;
    }
}

/// One schedule: the choices that are given, and then the first of those there are.
fn run(guard: Guard, scenario: &Scenario, taken: &mut Vec<(usize, usize)>, found: &mut Found) {
    let storage = Storage::default();
    let service = Service::new(guard, storage.clone());
    let begin = |request: &Request| Running::new(service.clone(), *request, &storage, scenario.requests);
    let mut requests: Vec<Running> = scenario.requests.iter().map(begin).collect();
    let mut steps = Vec::new();
    let what = loop {
        let choices: Vec<Step> = (0..requests.len()).flat_map(|n| requests[n].steps(n)).collect();
        if choices.is_empty() {
            let stuck = requests.iter().any(|request| request.work.is_some());
            break stuck.then(|| "nobody can go on".to_owned());
        }
        if taken.len() == steps.len() {
            taken.push((0, choices.len()));
        }
        let (choice, of) = taken[steps.len()];
        assert_eq!(of, choices.len(), "the same steps have led elsewhere");
        let step = choices[choice];
        steps.push(step);
        match step {
            Step::Run(request) => requests[request].run(),
            Step::Vanish(request) => requests[request].work = None,
        }
        if let Some(what) = storage.violation() {
            // What follows tells nothing more.
            taken.truncate(steps.len());
            break Some(what);
        }
    };
    found.longest = found.longest.max(steps.len());
    found.outcomes.extend(requests.iter().filter_map(|request| request.outcome.get()));
    let shortest = found.violation.as_ref().map_or(usize::MAX, |(_, steps)| steps.len());
    if let Some(what) = what
        && steps.len() < shortest
    {
        found.violation = Some((what, steps));
    }
}

struct Running {
    may_vanish: bool,
    work: Option<Pin<Box<dyn Future<Output = ()>>>>,
    outcome: Rc<Cell<Option<Outcome>>>,
    woken: Arc<Woken>,
}

impl Running {
    fn new(service: Service, request: Request, storage: &Storage, all: &'static [Request]) -> Running {
        let (storage, outcome) = (storage.clone(), Rc::new(Cell::new(None)));
        let ended = Rc::clone(&outcome);
        let work = async move {
            let outcome = service.handle(request).await;
            storage.told(all, request, outcome);
            ended.set(Some(outcome));
        };
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        Running { may_vanish: request.may_vanish, work: Some(Box::pin(work)), outcome, woken }
    }

    fn steps(&self, number: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.work.is_some() {
            steps.extend(self.woken.0.load(Ordering::SeqCst).then_some(Step::Run(number)));
            steps.extend(self.may_vanish.then_some(Step::Vanish(number)));
        }
        steps
    }

    fn run(&mut self) {
        self.woken.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.woken));
        let Some(work) = &mut self.work else { return };
        if let Poll::Ready(()) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.work = None;
        }
    }
}

/// Whether somebody has called for it to go on.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Woken>) {
        self.0.store(true, Ordering::SeqCst);
    }
}
