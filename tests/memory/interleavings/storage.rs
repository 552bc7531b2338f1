use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
}

/// What a client asks the storage for.
#[derive(Clone, Copy)]
pub struct Request {
    pub token: u64,
    pub kind: Kind,
    pub may_vanish: bool,
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Acted,
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
        let newest = requests.iter().map(|request| request.token).max().unwrap_or(0);
        let wrong = match outcome {
            Outcome::Acted => false,
            Outcome::Refused(highest) => {
                highest <= request.token || !requests.iter().any(|other| other.token == highest)
            }
            Outcome::Superseded => request.token == newest,
        };
        if wrong {
            let what = format!("token {} {outcome:?}", request.token);
            self.0.borrow_mut().violation.get_or_insert(what);
        }
    }

    pub fn violation(&self) -> Option<String> {
        self.0.borrow().violation.clone()
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Acted => write!(f, "acted"),
            Outcome::Refused(highest) => write!(f, "was refused for token {highest}"),
            Outcome::Superseded => write!(f, "was superseded by nothing"),
        }
    }
}
