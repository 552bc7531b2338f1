//! One list of nodes, and clients that lock.

use fencing_protocol::{Nonce, Reply, Request};
use protocol::model::node::{ask, count_once, owner, resource};
use protocol::model::pool::Id;
use protocol::model::state::{Node, Slot, State, Vote};
use protocol::model::world::{Action, World};

use super::scene::{About, Breach, Card, Kind, Scene, letter};
use super::words;

/// A world in one of its states.
#[derive(Clone, Copy)]
pub struct LockScene<'a, const N: usize, const C: usize, const R: usize> {
    pub world: &'a World<N, C, R>,
    pub state: State<N, C, R>,
}

impl<const N: usize, const C: usize, const R: usize> Scene for LockScene<'_, N, C, R> {
    type Move = Action;

    fn candidates(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        self.world.candidates(&self.state, &mut actions);
        actions
    }

    fn after(&self, action: Action) -> Option<Self> {
        self.world.step(&self.state, action).map(|state| LockScene { state, ..*self })
    }

    fn about(&self, action: Action) -> About {
        use Action::*;
        let begins = |verb, label| About::new(Kind::Client, verb, label);
        let fault = |verb, label| About::new(Kind::Fault, verb, label);
        let sends = |verb, who: String, node, request, otherwise| {
            let label = format!("{who} to {}: {}", letter(node), self.asked(request, otherwise));
            About::message(verb, label, request).by(who).at(node)
        };
        match action {
            Acquire { client, node } => {
                let label = format!("{} to {}: acquire", attempt(client), letter(node));
                let about = match self.state.clients[client as usize].machine {
                    0 => begins("acquire", label),
                    _ => {
                        let (_, request) = self.world.seam.attempt(client);
                        About { awake: false, ..About::message("acquire", label, request) }
                    }
                };
                about.by(attempt(client)).at(node)
            }
            AcquireAgain { client, node, expired, lost } => {
                let (verb, how) = match (expired, lost) {
                    (true, true) => (
                        "acquire-again-unheard",
                        ", its lock having run out, and the answer is lost",
                    ),
                    (true, false) => ("acquire-again-expired", ", its lock having run out"),
                    (false, _) => ("acquire-again", ""),
                };
                let label =
                    format!("repeat {}'s acquire at {}{how}", attempt(client), letter(node));
                fault(verb, label).by(attempt(client)).at(node)
            }
            Deliver { client, node } => {
                let reply = self.slot(client, node).reply;
                let what = if reply == 0 { "grant".into() } else { self.reply(reply) };
                let label = format!("{} to {}: {what}", letter(node), attempt(client));
                About::message("deliver", label, reply).by(attempt(client)).at(node)
            }
            Publish { client, node } => {
                sends("publish", attempt(client), node, self.slot(client, node).publish, "publish")
            }
            Renew { client, node } => {
                let label = format!("{} renews at {}", attempt(client), letter(node));
                begins("renew", label).by(attempt(client)).at(node)
            }
            Leave { client, node } => {
                let label = format!("the part of {} at {} runs out", attempt(client), letter(node));
                fault("leave", label).by(attempt(client)).at(node)
            }
            Crash { node } => fault("crash", format!("crash {}", letter(node))).at(node),
            Flush { node } => fault("flush", format!("flush {}", letter(node))).at(node),
            Save { node } => fault("save", format!("{} saves to its disk", letter(node))).at(node),
            Restore { node } => {
                let label = format!("{} restarts with its older copy", letter(node));
                fault("restore", label).at(node)
            }
            Prepare { who, node, collect } => {
                let (verb, what) = match collect {
                    false => ("prepare", "of"),
                    true => ("collect", "collects the counts of"),
                };
                let label = format!("{} {what} {}", readmission(who), letter(node));
                begins(verb, label).by(readmission(who)).at(node)
            }
            PrepareAgain { who } => {
                let label = format!("repeat the prepare of {}", readmission(who));
                fault("prepare-again", label).by(readmission(who))
            }
            Readmit { who, node } => {
                let request = self.waits(who, node);
                sends("readmit", readmission(who), node, request, "a request")
            }
            ActivateAgain { who, node } => {
                let asked = self.asked(self.waits(who, node), "a request");
                let label = format!("repeat {} at {}: {asked}", readmission(who), letter(node));
                fault("activate-again", label).by(readmission(who)).at(node)
            }
            Second => fault("second", "a second passes on the nodes' clocks".into()),
        }
    }

    fn tell(&self, action: Action) -> String {
        self.told(action)
    }

    fn nodes(&self) -> Vec<Card> {
        (0..N).map(|node| self.node(node)).collect()
    }

    fn clients(&self) -> Vec<Card> {
        let attempts = (0..C).map(|client| self.attempt(client));
        attempts.chain((0..R).filter_map(|who| self.readmission(who))).collect()
    }

    fn promises(&self) -> Vec<(bool, Breach)> {
        const EQUAL: Breach =
            ("I1: two leases have the same token", "two clients can get the same number");
        const SMALLER: Breach = (
            "I2: a later lease has no larger token",
            "a later client can get a number that is not larger than the one before",
        );
        const FOLLOWED: Breach = (
            "a lease was renewed although another client had followed",
            "a client can renew a lease that another client has followed",
        );
        let (world, state) = (self.world, &self.state);
        let followed = world.prompt && world.revived(state);
        vec![(state.unique(&world.seam), EQUAL), (state.ordered(), SMALLER), (!followed, FOLLOWED)]
    }
}

impl<const N: usize, const C: usize, const R: usize> LockScene<'_, N, C, R> {
    pub fn slot(&self, client: u8, node: u8) -> Slot {
        self.state.clients[client as usize].slots[node as usize]
    }

    /// The request of a re-admission that a node has not answered for good.
    pub fn waits(&self, who: u8, node: u8) -> Id {
        self.state.orders[who as usize].waits[node as usize].request
    }

    fn asked(&self, request: Id, otherwise: &str) -> String {
        if request == 0 { otherwise.into() } else { self.request(request) }
    }

    pub fn request(&self, request: Id) -> String {
        words::request(&self.world.seam.requests.get(request))
    }

    pub fn reply(&self, reply: Id) -> String {
        words::reply(&self.world.seam.replies.get(reply))
    }

    /// Returns who holds the lock on a node.
    pub fn holders(&self, node: Node) -> Vec<u8> {
        let holds = |client: &u8| {
            let release = Request::Release { resource: resource(), owner: owner(*client) };
            let mut copy = self.world.seam.stores.get(node.store);
            ask(&mut copy, node.life, 0, &release) == Reply::Released
        };
        (0..C as u8).filter(holds).collect()
    }

    /// A node, asked on a copy of its store.
    fn node(&self, number: usize) -> Card {
        let node = self.state.nodes[number];
        let name = letter(number as u8).to_string();
        let prepare = Request::Prepare { nonce: Nonce(0), from: None };
        let copy = self.world.seam.stores.get(node.store);
        let Reply::Prepared(now) = ask(&mut copy.clone(), node.life, 0, &prepare) else {
            return Card { name, look: "away", text: "answers nothing".into(), facts: Vec::new() };
        };
        let start = self.world.first().nodes[number];
        let mut first = self.world.seam.stores.get(start.store);
        let renewed = match ask(&mut first, start.life, 0, &prepare) {
            Reply::Prepared(first) => first.admitted && first.state.era < now.state.era,
            _ => false,
        };
        let (look, text) = match (now.admitted, now.crowded) {
            (true, false) if renewed => ("votes", "admitted, in a new era: it votes"),
            (true, false) => ("votes", "admitted: it votes"),
            (true, true) => ("votes", "admitted: it votes, and a count has run out"),
            (false, _) => ("forgot", "has forgotten: no vote until it is re-admitted"),
        };
        let count = count_once(&mut copy.clone(), node.life).map_or(0, |stamp| stamp.count - 1);
        let names = self.holders(node).into_iter().map(attempt).collect::<Vec<_>>().join(", ");
        let mut facts = vec![
            ("era", now.state.era.to_string()),
            ("promised", now.state.reserved.to_string()),
            ("count", count.to_string()),
            ("lock", if names.is_empty() { "free".into() } else { names }),
            ("nonce", words::nonce(now.state.nonce)),
        ];
        if node.disk != 0 {
            facts.push(("disk", "an older copy".into()));
        }
        Card { name, look, text: text.into(), facts }
    }

    /// An attempt, with what it has heard.
    fn attempt(&self, number: usize) -> Card {
        let client = self.state.clients[number];
        let shares = if self.world.seam.shares(number) { ", would share the lock" } else { "" };
        let (look, text) = match (client.machine, client.token) {
            (0, _) => ("idle", format!("has not asked yet{shares}")),
            (_, 0) => ("asks", "asks for the lock".into()),
            (_, token) => ("won", format!("has a lease, token {}", words::token(token))),
        };
        let mut facts = Vec::new();
        if client.machine != 0 {
            let heard = self.world.seam.heard(client.machine).into_iter().rev();
            let heard = heard.map(|(node, reply)| {
                let what = match reply {
                    Reply::Granted { stamp, .. } => words::stamp(stamp),
                    Reply::Published => "published".into(),
                    other => words::reply(&other),
                };
                format!("{}: {what}", letter(node))
            });
            facts.push(("heard", heard.collect::<Vec<_>>().join(", ")));
            let floor = client.floor;
            let floor = if floor == 0 { "none".into() } else { words::token(floor) };
            facts.push(("token before", floor));
            facts.extend(self.renewal(number).map(|renewal| ("renewal", renewal)));
        }
        Card { name: attempt(number as u8), look, text, facts }
    }

    /// Where the lease was renewed, and what the client makes of that.
    fn renewal(&self, number: usize) -> Option<String> {
        let client = self.state.clients[number];
        let votes = client.slots.map(|slot| slot.renewal != Vote::None);
        let nodes = (0..N).filter(|node| votes[*node]).map(|node| letter(node as u8).to_string());
        let nodes = nodes.reduce(|nodes, node| format!("{nodes}, {node}"))?;
        let renewed = self.world.seam.renewed(number as u8, client.token, &votes);
        let outcome = if renewed { "its lease is renewed" } else { "no majority so far" };
        Some(format!("at {nodes}: {outcome}"))
    }

    /// A re-admission, if it has begun.
    fn readmission(&self, number: usize) -> Option<Card> {
        let order = &self.state.orders[number];
        if order.machine == 0 {
            return None;
        }
        let (look, end) = if order.done { ("won", "done") } else { ("asks", "under way") };
        let text = format!("of node {}: {end}", letter(order.target));
        let open = (0..).zip(&order.waits).filter(|(_, wait)| wait.request != 0);
        let open = open.map(|(node, wait)| {
            let answered = if wait.ran { " (answered)" } else { "" };
            format!("{}: {}{answered}", letter(node), self.request(wait.request))
        });
        let facts = vec![("asked last", open.collect::<Vec<_>>().join(", "))];
        Some(Card { name: readmission(number as u8), look, text, facts })
    }
}

pub fn attempt(number: u8) -> String {
    format!("client {}", number + 1)
}

pub fn readmission(number: u8) -> String {
    format!("re-admission {}", number + 1)
}
