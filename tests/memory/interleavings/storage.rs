use std::cell::RefCell;
use std::rc::Rc;

/// What a client asks the storage for.
#[derive(Clone, Copy)]
pub struct Request {
    pub token: u64,
    pub reads: bool,
    /// Its client may go away at any point.
    pub may_vanish: bool,
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    Acted,
    /// For a request with this token.
    Refused(u64),
    /// Told to stop after it was let in.
    Superseded,
}

/// What has happened at the storage, and what must not have.
#[derive(Clone, Default)]
pub struct Storage(Rc<RefCell<Log>>);

#[derive(Default)]
struct Log {
    highest: u64,
    violation: Option<String>,
}

impl Storage {
    /// Reads or writes, in one step.
    pub fn act(&self, token: u64) {
        let mut log = self.0.borrow_mut();
        if token < log.highest {
            let what = format!("token {token} acted behind token {}", log.highest);
            log.violation.get_or_insert(what);
        }
        log.highest = log.highest.max(token);
    }

    /// What was told must be so.
    pub fn told(&self, requests: &[Request], request: Request, outcome: Outcome) {
        let mut tokens = requests.iter().map(|request| request.token);
        let right = match outcome {
            Outcome::Acted => true,
            Outcome::Refused(highest) => highest > request.token && tokens.any(|it| it == highest),
            Outcome::Superseded => tokens.any(|token| token > request.token),
        };
        if !right {
            let what = format!("token {} was told {outcome:?}", request.token);
            self.0.borrow_mut().violation.get_or_insert(what);
        }
    }

    pub fn violation(&self) -> Option<String> {
        self.0.borrow().violation.clone()
    }
}
