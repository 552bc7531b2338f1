//! One list of nodes, and clients that lock.

use fencing_protocol::{Nonce, Reply, Request};
use protocol::model::node::{ask, count_once, owner, resource};
use protocol::model::pool::Id;
use protocol::model::state::{Client, Node, Slot, State, Vote};
use protocol::model::world::{Action, World};

use super::scene::{About, Breach, Card, Kind, Scene, letter};
use super::words;

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
        let about = |kind, client, node, message, label| About {
            client,
            node: Some(node),
            message,
            ..About::new(action, kind, label)
        };
        let asks = |kind, who: String, node, again, how| {
            let request = self.request(action).unwrap_or(0);
            let label = format!("{again}{who} to node {}: {}{how}", letter(node), self.asked(request));
            about(kind, Some(who), node, request, label)
        };
        let fault = |client, node, label| about(Kind::Fault, client, node, 0, label);
        match action {
            Acquire { client, node } => match self.state.clients[client as usize].machine {
                0 => asks(Kind::Client, attempt(client), node, "", ""),
                // It was sent when the attempt began.
                _ => About { awake: false, ..asks(Kind::Message, attempt(client), node, "", "") },
            },
            AcquireAgain { client, node, expired, lost } => {
                let how = match (expired, lost) {
                    (true, true) => ", its lock having run out, and the answer is lost",
                    (true, false) => ", its lock having run out",
                    (false, _) => "",
                };
                asks(Kind::Fault, attempt(client), node, "again: ", how)
            }
            Publish { client, node } => asks(Kind::Message, attempt(client), node, "", ""),
            Renew { client, node } => asks(Kind::Client, attempt(client), node, "", ""),
            Deliver { client, node } => {
                let (who, reply) = (attempt(client), self.slot(client, node).reply);
                let label = format!("node {} to {who}: {}", letter(node), self.replied(reply));
                About { back: true, ..about(Kind::Message, Some(who), node, reply, label) }
            }
            Prepare { who, node, collect } => {
                let how = if collect { ", to collect its counts" } else { "" };
                asks(Kind::Client, readmission(who), node, "", how)
            }
            PrepareAgain { who } => {
                let node = self.state.orders[who as usize].target;
                asks(Kind::Fault, readmission(who), node, "again: ", "")
            }
            Readmit { who, node } => asks(Kind::Message, readmission(who), node, "", ""),
            GiveUp { who, node } => {
                let label = format!("{} does not wait for node {}", readmission(who), letter(node));
                fault(Some(readmission(who)), node, label)
            }
            ActivateAgain { who, node } => asks(Kind::Fault, readmission(who), node, "again: ", ""),
            Leave { client, node } => {
                let label = format!("the part of {} at node {} runs out", attempt(client), letter(node));
                fault(Some(attempt(client)), node, label)
            }
            Crash { node } => fault(None, node, format!("crash node {}", letter(node))),
            Flush { node } => fault(None, node, format!("flush node {}", letter(node))),
            Save { node } => fault(None, node, format!("node {} saves to its disk", letter(node))),
            Restore { node } => fault(None, node, format!("node {} restarts with its older copy", letter(node))),
            Second => About::new(action, Kind::Fault, "a second passes on the nodes' clocks".into()),
        }
    }

    /// A node that locks grants: the grant is on its way.
    fn reply(&self, action: Action) -> Option<String> {
        let request = self.request(action)?;
        let locks = matches!(action, Action::Acquire { .. } | Action::AcquireAgain { .. });
        if locks && self.after(action).is_some() {
            return None;
        }
        let node = self.state.nodes[self.about(action).node? as usize];
        let second = self.world.clock + self.state.second;
        let (_, reply) = self.world.seam.answer(node.store, node.life, 0, second, request);
        Some(self.replied(reply))
    }

    /// What clients have and send after the step that they did not have before.
    fn follows(&self, action: Action, after: &Self) -> String {
        let sentence = |(node, said)| format!(" On node {node} {said}.");
        let mut text: String = self.expired(action).into_iter().map(sentence).collect();
        let (clients, orders) = (&self.state.clients, &self.state.orders);
        for (number, (was, is)) in (1..).zip(clients.iter().zip(&after.state.clients)) {
            if let Some(sent) = self.publishes(was, is) {
                text += &format!(" Client {number} has a majority, and sends {sent}.");
            }
            if was.token == 0 && is.token != 0 {
                let token = words::token(is.token);
                text += &format!(" Client {number} has its lease: the token is {token}.");
            }
            for (node, (was, is)) in (0..).zip(was.slots.iter().zip(&is.slots)) {
                if is.reply != 0 && was.reply != is.reply {
                    let (node, reply) = (letter(node), self.replied(is.reply));
                    text += &format!(" On its way from node {node}: {reply}.");
                }
            }
        }
        for (number, (was, is)) in (1..).zip(orders.iter().zip(&after.state.orders)) {
            if !was.done && is.done {
                text += &format!(" Re-admission {number} is done.");
            }
        }
        text
    }

    fn expired(&self, action: Action) -> Vec<(String, String)> {
        use Action::*;
        let (Acquire { client, node } | AcquireAgain { client, node, .. } | Renew { client, node }) = action else {
            return Vec::new();
        };
        let shares = |client: u8| self.world.seam.shares(client.into());
        let holders = self.holders(self.state.nodes[node as usize]).into_iter();
        let others = holders.filter(|holder| *holder != client && !(shares(*holder) && shares(client)));
        let said = |holder| (letter(node).to_string(), format!("the lock of {} has expired", attempt(holder)));
        others.map(said).collect()
    }

    fn nodes(&self) -> Vec<Card> {
        (0..N).map(|node| self.node(node)).collect()
    }

    fn clients(&self) -> Vec<Card> {
        let attempts = (0..C).map(|client| self.attempt(client));
        attempts.chain((0..R).filter_map(|who| self.readmission(who))).collect()
    }

    fn promises(&self) -> Vec<(bool, Breach)> {
        const EQUAL: Breach = ("I1: two leases have the same token", "two clients can get the same number");
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
    fn slot(&self, client: u8, node: u8) -> Slot {
        self.state.clients[client as usize].slots[node as usize]
    }

    /// What a node is asked in a step, if it is.
    fn request(&self, action: Action) -> Option<Id> {
        use Action::*;
        let (seam, state) = (&self.world.seam, &self.state);
        Some(match action {
            Acquire { client, .. } | AcquireAgain { client, .. } => seam.attempt(client).1,
            Publish { client, node } => self.slot(client, node).publish,
            Renew { client, .. } => seam.renewal(client, state.clients[client as usize].token),
            Prepare { who, node, collect } => seam.order(who, node, collect).1,
            PrepareAgain { who } => seam.order(who, state.orders[who as usize].target, false).1,
            Readmit { who, node } | ActivateAgain { who, node } => {
                state.orders[who as usize].waits[node as usize].request
            }
            _ => return None,
        })
    }

    fn asked(&self, request: Id) -> String {
        words::request(&self.world.seam.requests.get(request))
    }

    fn replied(&self, reply: Id) -> String {
        words::reply(&self.world.seam.replies.get(reply))
    }

    fn publishes(&self, was: &Client<N>, is: &Client<N>) -> Option<String> {
        let slots = (0..).zip(was.slots.iter().zip(&is.slots));
        let new = slots.filter(|(_, (was, is))| was.publish == 0 && is.publish != 0);
        let (nodes, requests): (Vec<_>, Vec<_>) =
            new.map(|(node, (_, is))| (letter(node).to_string(), is.publish)).unzip();
        let request = self.asked(*requests.first()?);
        Some(format!("“{request}” to node {}", nodes.join(" and ")))
    }

    fn holders(&self, node: Node) -> Vec<u8> {
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
        let facts = vec![
            ("era", format!("{}, promised {}", now.state.era, now.state.reserved)),
            ("count", count.to_string()),
            ("lock", if names.is_empty() { "free".into() } else { names }),
        ];
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
            format!("{}: {}{answered}", letter(node), self.asked(wait.request))
        });
        let facts = vec![("asked last", open.collect::<Vec<_>>().join(", "))];
        Some(Card { name: readmission(number as u8), look, text, facts })
    }
}

fn attempt(number: u8) -> String {
    format!("client {}", number + 1)
}

fn readmission(number: u8) -> String {
    format!("re-admission {}", number + 1)
}
