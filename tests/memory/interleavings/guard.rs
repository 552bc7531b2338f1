use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use fencing::fence::{FenceError, Marks, MemoryMarks, Stale};
use fencing::{Fence, Resource, Sequencer, Token};
use futures_util::future::BoxFuture;

/// What stands before the storage: the fence as it is, or with one rule taken out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    Fence,
    DropOlder,
    AsksFirst,
    /// An admission is not held until the write is done.
    CheckOutsideTheWrite,
    LowerAccepted,
    EqualRefused,
    /// A newer token waits for no older requests in flight.
    NoGate,
    ReadsRaiseNothing,
    InFlightAfterTheMarks,
}

impl Guard {
    pub const MUTANTS: [Guard; 6] = [
        Guard::CheckOutsideTheWrite,
        Guard::LowerAccepted,
        Guard::EqualRefused,
        Guard::NoGate,
        Guard::ReadsRaiseNothing,
        Guard::InFlightAfterTheMarks,
    ];
}

#[derive(Clone)]
pub struct Service {
    guard: Guard,
    marks: SlowMarks,
    fence: Fence,
    storage: Storage,
}

impl Service {
    pub fn new(guard: Guard, storage: Storage) -> Service {
        let marks = SlowMarks { guard, marks: Arc::default(), last: Arc::default() };
        let fence = match guard {
            Guard::InFlightAfterTheMarks => Fence::new(NoMarks),
            _ => Fence::new(marks.clone()),
        };
        let fence = match guard {
            Guard::DropOlder => fence.drop_older_after(Duration::ZERO),
            Guard::AsksFirst => fence.drop_older_after(Duration::ZERO).check_sequencer(|_: Sequencer| async {
                pause().await;
                Ok::<_, Infallible>(true)
            }),
            _ => fence,
        };
        Service { guard, marks, fence, storage }
    }

    pub async fn handle(self, request: Request) -> Outcome {
        match self.answer(request).await {
            Ok(outcome) => outcome,
            Err(FenceError::Stale(stale)) => Outcome::Refused(stale.highest.get()),
            Err(error) => panic!("{error}"),
        }
    }

    async fn answer(self, request: Request) -> Result<Outcome, FenceError> {
        let (resource, token) = (Resource::new("files/a").unwrap(), request.token);
        let newer = Token::new(token).unwrap();
        let act = async {
            pause().await;
            self.storage.act(token);
            pause().await;
        };
        match self.guard {
            Guard::ReadsRaiseNothing if request.reads => act.await,
            Guard::NoGate => {
                self.marks.raise(&resource, newer).await?;
                act.await;
            }
            Guard::CheckOutsideTheWrite => {
                drop(self.fence.admit(&resource, newer).await?);
                act.await;
            }
            Guard::InFlightAfterTheMarks => {
                self.marks.raise(&resource, newer).await?;
                let _admission = self.fence.admit(&resource, newer).await?;
                act.await;
            }
            _ => {
                let admission = self.fence.admit(&resource, newer).await?;
                tokio::select! {
                    biased;
                    _ = admission.superseded() => return Ok(Outcome::Superseded),
                    () = act => {}
                }
            }
        }
        Ok(Outcome::Acted)
    }
}

/// Lets others go first, once.
async fn pause() {
    let mut paused = false;
    poll_fn(|context| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[derive(Clone)]
struct SlowMarks {
    guard: Guard,
    marks: Arc<MemoryMarks>,
    last: Arc<Mutex<Option<Token>>>,
}

impl Marks for SlowMarks {
    fn raise<'a>(&'a self, resource: &'a Resource, token: Token) -> BoxFuture<'a, Result<(), FenceError>> {
        Box::pin(async move {
            pause().await;
            let raised = self.marks.raise(resource, token).await;
            let last = self.last.lock().unwrap().replace(token);
            pause().await;
            match self.guard {
                Guard::LowerAccepted => Ok(()),
                Guard::EqualRefused if last == Some(token) => {
                    Ok(Stale::check(resource, token, Token::new(token.get() + 1).ok())?)
                }
                _ => raised,
            }
        })
    }

    fn highest<'a>(&'a self, resource: &'a Resource) -> BoxFuture<'a, Result<Option<Token>, FenceError>> {
        Box::pin(async move {
            let highest = self.marks.highest(resource).await;
            pause().await;
            highest
        })
    }
}

struct NoMarks;

impl Marks for NoMarks {
    fn raise<'a>(&'a self, _: &'a Resource, _: Token) -> BoxFuture<'a, Result<(), FenceError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[derive(Clone, Copy)]
pub struct Request {
    pub token: u64,
    pub reads: bool,
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
