use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencing::Resource;
use fencing::lock::redlock::{Group, MemoryNode, Node, Notice, ReleaseListener, Session};
use fencing_protocol::{ClientId, Fault, Fleet, Reply, Request};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use crate::simulation::gate::Gate;
use crate::simulation::trace::Trace;
use support::clock::TokioClock;
use support::requests::ask_alone;

type Answer = Result<Reply, Fault>;

/// The network, and the nodes at its ends.
pub struct Wire {
    pub trace: Trace,
    fleet: Fleet,
    pub nodes: Vec<Machine>,
    pub clients: Vec<Gate>,
    links: Vec<Vec<Link>>,
    pub weather: Mutex<Weather>,
    /// Those who wait for what was lost wait on.
    lost: Mutex<Vec<oneshot::Sender<Answer>>>,
}

pub struct Machine {
    pub node: MemoryNode,
    pub clock: TokioClock,
    pub gate: Gate,
    /// No process there: connections are refused.
    pub down: AtomicBool,
}

/// What the network does to messages; in percent and milliseconds.
#[derive(Clone, Copy)]
pub struct Weather {
    pub lose: u8,
    pub repeat: u8,
    pub slowest: u64,
}

impl Default for Weather {
    fn default() -> Weather {
        Weather { lose: 0, repeat: 0, slowest: 5 }
    }
}

struct Link {
    rng: Mutex<fastrand::Rng>,
    /// So many faults lose everything on this way.
    requests_lost: AtomicUsize,
    replies_lost: AtomicUsize,
    session: Mutex<Option<Arc<Cut>>>,
}

impl Link {
    fn loses_requests(&self) -> bool {
        self.requests_lost.load(Ordering::SeqCst) > 0
    }

    fn loses_replies(&self) -> bool {
        self.replies_lost.load(Ordering::SeqCst) > 0
    }
}

#[derive(Default)]
struct Cut {
    done: AtomicBool,
    notified: Notify,
}

/// The way of one message there and back, drawn when it sets out.
struct Way {
    there: Duration,
    back: Duration,
    request_lost: bool,
    reply_lost: bool,
    again: Option<Duration>,
}

impl Wire {
    pub fn new(seed: u64, trace: Trace, nodes: usize, clients: usize) -> Arc<Wire> {
        let clock = TokioClock::new();
        let machine = |number| {
            let clock = clock.apart();
            let node = MemoryNode::with_clock(format!("node-{number}"), clock.clone());
            Machine { node, clock, gate: Gate::default(), down: AtomicBool::new(false) }
        };
        let link = |client: usize, node: usize| {
            let stream = seed ^ ((client * 100 + node + 1) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            Link {
                rng: Mutex::new(fastrand::Rng::with_seed(stream)),
                requests_lost: AtomicUsize::new(0),
                replies_lost: AtomicUsize::new(0),
                session: Mutex::default(),
            }
        };
        let fleet = Fleet::new((0..nodes).map(|number| format!("node-{number}"))).unwrap();
        Arc::new(Wire {
            trace,
            fleet,
            nodes: (0..nodes).map(machine).collect(),
            clients: (0..clients).map(|_| Gate::default()).collect(),
            links: (0..clients).map(|client| (0..nodes).map(|node| link(client, node)).collect()).collect(),
            weather: Mutex::default(),
            lost: Mutex::default(),
        })
    }

    pub fn nodes_of(self: &Arc<Wire>, client: usize) -> Vec<SimNode> {
        let node = |node: usize| SimNode { wire: Arc::clone(self), name: format!("node-{node}"), client, node };
        (0..self.nodes.len()).map(node).collect()
    }

    /// Loses everything on the way there, or back, until as often as not it shall not.
    pub fn part(&self, client: usize, node: usize, there: bool, lose: bool) {
        let link = &self.links[client][node];
        let way = if there { &link.requests_lost } else { &link.replies_lost };
        match lose {
            true => way.fetch_add(1, Ordering::SeqCst),
            false => way.fetch_sub(1, Ordering::SeqCst),
        };
    }

    pub fn is_whole(&self) -> bool {
        self.links.iter().flatten().all(|link| !link.loses_requests() && !link.loses_replies())
    }

    /// Breaks the connection between the two, if there is one. What was sent still arrives.
    pub fn cut(&self, client: usize, node: usize) {
        if let Some(cut) = self.links[client][node].session.lock().unwrap().take() {
            cut.done.store(true, Ordering::SeqCst);
            cut.notified.notify_waiters();
        }
    }

    /// The nodes that have forgotten and are not admitted again, or are not there.
    pub fn forgotten(&self) -> usize {
        let forgot = |machine: &&Machine| {
            let session = machine.node.open(&self.fleet, "me").now_or_never().unwrap().unwrap();
            let answer = ask_alone(&*session, Request::Read).now_or_never().unwrap();
            machine.down.load(Ordering::SeqCst) || !matches!(answer, Ok(Reply::State(_)))
        };
        self.nodes.iter().filter(forgot).count()
    }

    fn way(&self, client: usize, node: usize) -> Way {
        let weather = *self.weather.lock().unwrap();
        let mut rng = self.links[client][node].rng.lock().unwrap();
        let mut chance = |percent: u8| rng.u8(0..100) < percent;
        let (request_lost, reply_lost) = (chance(weather.lose), chance(weather.lose));
        let (repeat, far) = (chance(weather.repeat), chance(30));
        let mut delay = || Duration::from_millis(rng.u64(0..weather.slowest));
        let (there, back) = (delay(), delay());
        let later = delay() * if far { 200 } else { 1 };
        Way { there, back, request_lost, reply_lost, again: repeat.then_some(later) }
    }
}

#[derive(Clone)]
pub struct SimNode {
    wire: Arc<Wire>,
    name: String,
    client: usize,
    node: usize,
}

impl Node for SimNode {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, fleet: &Fleet, holder: &str) -> BoxFuture<'static, Result<Box<dyn Session>, Fault>> {
        let (here, fleet, holder) = (self.clone(), fleet.clone(), holder.to_owned());
        Box::pin(async move {
            let (wire, machine) = (&here.wire, &here.wire.nodes[here.node]);
            let way = wire.way(here.client, here.node);
            wire.clients[here.client].pass().await;
            sleep(way.there).await;
            let link = &wire.links[here.client][here.node];
            if link.loses_requests() || link.loses_replies() {
                return std::future::pending().await;
            }
            if machine.down.load(Ordering::SeqCst) {
                return Err(Fault::Unreachable("refused".into()));
            }
            machine.gate.pass().await;
            let session = machine.node.open(&fleet, &holder).await?;
            wire.trace.note(("open", here.client, here.node));
            sleep(way.back).await;
            wire.clients[here.client].pass().await;
            let cut = Arc::new(Cut::default());
            *link.session.lock().unwrap() = Some(Arc::clone(&cut));
            let last = Arc::new(Mutex::new(Instant::now()));
            let session = SimSession { at: here.clone(), session: session.into(), cut, last };
            Ok(Box::new(session) as Box<dyn Session>)
        })
    }

    fn listen(&self, client: ClientId) -> BoxFuture<'static, Result<Box<dyn ReleaseListener>, Fault>> {
        let here = self.clone();
        Box::pin(async move {
            if SimListener::pass(here.clone()).await {
                return Err(Fault::Unreachable("lost".into()));
            }
            let listener = here.wire.nodes[here.node].node.listen(client).await?;
            Ok(Box::new(SimListener { at: here, listener, notice: None }) as Box<dyn ReleaseListener>)
        })
    }
}

/// What a node tells, over the same network: late, or not at all.
struct SimListener {
    at: SimNode,
    listener: Box<dyn ReleaseListener>,
    /// What is on its way.
    notice: Option<(Notice, BoxFuture<'static, bool>)>,
}

impl SimListener {
    /// Returns whether a message of a moment ago is lost, when its way is over.
    async fn pass(at: SimNode) -> bool {
        let (wire, machine) = (&at.wire, &at.wire.nodes[at.node]);
        machine.gate.pass().await;
        let way = wire.way(at.client, at.node);
        sleep(way.there).await;
        wire.clients[at.client].pass().await;
        let link = &wire.links[at.client][at.node];
        let down = machine.down.load(Ordering::SeqCst);
        down || way.request_lost || link.loses_requests() || link.loses_replies()
    }
}

impl ReleaseListener for SimListener {
    fn wait(&mut self, resource: &Resource, registration: u64, waited: Duration) {
        self.listener.wait(resource, registration, waited);
    }

    fn leave(&mut self, resource: &Resource, registration: u64) {
        self.listener.leave(resource, registration);
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Notice, Fault>> {
        Box::pin(async {
            loop {
                if self.notice.is_none() {
                    let notice = self.listener.next().await?;
                    self.notice = Some((notice, SimListener::pass(self.at.clone()).boxed()));
                }
                let Some((notice, way)) = &mut self.notice else { continue };
                let (notice, lost) = (notice.clone(), way.await);
                self.notice = None;
                match (notice, lost) {
                    (Notice::Released { .. }, true) => {}
                    (_, true) => return Err(Fault::Disconnected("lost".into())),
                    (notice, false) => {
                        self.at.wire.trace.note(("notified of", self.at.client, self.at.node, &notice));
                        return Ok(notice);
                    }
                }
            }
        })
    }
}

#[derive(Clone)]
struct SimSession {
    at: SimNode,
    session: Arc<dyn Session>,
    cut: Arc<Cut>,
    /// When its last request arrives: a connection keeps the order.
    last: Arc<Mutex<Instant>>,
}

impl Session for SimSession {
    fn call(&self, requests: Group<Request>) -> BoxFuture<'static, Group<Answer>> {
        let calls = join_all(requests.into_iter().map(|request| self.call_one(request)));
        calls.map(Group::from_vec).boxed()
    }
}

impl SimSession {
    fn call_one(&self, request: Request) -> BoxFuture<'static, Answer> {
        let here = self.clone();
        Box::pin(async move {
            let broken = || Err(Fault::Disconnected("cut".into()));
            let notified = here.cut.notified.notified();
            if here.cut.done.load(Ordering::SeqCst) {
                return broken();
            }
            let (reply, answer) = oneshot::channel();
            tokio::spawn(here.clone().deliver(request, reply));
            tokio::select! {
                biased;
                () = notified => broken(),
                answer = answer => answer.unwrap_or_else(|_| broken()),
            }
        })
    }

    /// Runs the request on the node, whoever still waits for it.
    async fn deliver(self, request: Request, reply: oneshot::Sender<Answer>) {
        let SimNode { wire, client, node, .. } = &self.at;
        let (link, machine) = (&wire.links[*client][*node], &wire.nodes[*node]);
        wire.clients[*client].pass().await;
        let way = wire.way(*client, *node);
        let arrival = {
            let mut last = self.last.lock().unwrap();
            *last = (Instant::now() + way.there).max(*last + Duration::from_millis(1));
            *last
        };
        sleep_until(arrival).await;
        machine.gate.pass().await;
        if way.request_lost || link.loses_requests() {
            wire.trace.note(("lost", client, node, &request));
            wire.lost.lock().unwrap().push(reply);
            return;
        }
        let answer = self.run(&request).await;
        let lost = way.reply_lost || link.loses_replies();
        if let Some(later) = way.again {
            let (here, request) = (self.clone(), request.clone());
            tokio::spawn(async move {
                sleep(later).await;
                here.at.wire.nodes[here.at.node].gate.pass().await;
                here.run(&request).await
            });
        }
        if lost {
            wire.lost.lock().unwrap().push(reply);
            return;
        }
        sleep(way.back).await;
        wire.clients[*client].pass().await;
        let _ = reply.send(answer);
    }

    async fn run(&self, request: &Request) -> Answer {
        let SimNode { wire, client, node, .. } = &self.at;
        let answer = if wire.nodes[*node].down.load(Ordering::SeqCst) {
            Err(Fault::Disconnected("the node is gone".into()))
        } else {
            ask_alone(&*self.session, request.clone()).await
        };
        wire.trace.note((client, node, request, answer.as_ref().ok()));
        answer
    }
}
