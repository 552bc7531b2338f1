//! What a step of clients that lock is called, and its outcome in words.

use fencing_protocol::{Mode, Reply, Request};
use protocol::model::pool::Id;
use protocol::model::state::{Client, State};
use protocol::model::world::{Action, World};

use super::locks::holders;
use super::scene::letter;
use super::words;

/// Describes the steps that begin in this state.
pub struct Narrator<'a, const N: usize, const C: usize, const R: usize> {
    pub world: &'a World<N, C, R>,
    pub state: &'a State<N, C, R>,
}

impl<const N: usize, const C: usize, const R: usize> Narrator<'_, N, C, R> {
    /// Returns what a button says.
    pub fn label(&self, action: Action) -> String {
        use Action::*;
        let slot = |client: u8, node: u8| self.state.clients[client as usize].slots[node as usize];
        let who = |client: u8| format!("client {}", client + 1);
        match action {
            Acquire { client, node } => format!("{} to {}: acquire", who(client), letter(node)),
            AcquireAgain { client, node, expired, lost } => {
                let how = match (expired, lost) {
                    (true, true) => ", its lock having run out, and the answer is lost",
                    (true, false) => ", its lock having run out",
                    (false, _) => "",
                };
                format!("repeat {}'s acquire at {}{how}", who(client), letter(node))
            }
            Deliver { client, node } => {
                let reply = slot(client, node).reply;
                let what = if reply == 0 {
                    "grant".into()
                } else {
                    words::reply(&self.world.seam.replies.get(reply))
                };
                format!("{} to {}: {what}", letter(node), who(client))
            }
            Publish { client, node } => {
                let request = slot(client, node).publish;
                format!("{} to {}: {}", who(client), letter(node), self.asked(request, "publish"))
            }
            Renew { client, node } => format!("{} renews at {}", who(client), letter(node)),
            Leave { client, node } => {
                format!("the part of {} at {} runs out", who(client), letter(node))
            }
            Crash { node } => format!("crash {}", letter(node)),
            Flush { node } => format!("flush {}", letter(node)),
            Save { node } => format!("{} saves to its disk", letter(node)),
            Restore { node } => format!("{} restarts with its older copy", letter(node)),
            Prepare { who, node, collect: false } => {
                format!("re-admission {} of {}", who + 1, letter(node))
            }
            Prepare { who, node, collect: true } => {
                format!("re-admission {} collects the counts of {}", who + 1, letter(node))
            }
            PrepareAgain { who } => format!("repeat the prepare of re-admission {}", who + 1),
            Readmit { who, node } => {
                let request = self.state.orders[who as usize].waits[node as usize].request;
                let asked = self.asked(request, "a request");
                format!("re-admission {} to {}: {asked}", who + 1, letter(node))
            }
            ActivateAgain { who, node } => {
                let request = self.state.orders[who as usize].waits[node as usize].request;
                let asked = self.asked(request, "a request");
                format!("repeat re-admission {} at {}: {asked}", who + 1, letter(node))
            }
            Second => "a second passes on the nodes' clocks".into(),
        }
    }

    fn asked(&self, request: Id, without: &str) -> String {
        match request {
            0 => without.into(),
            request => words::request(&self.world.seam.requests.get(request)),
        }
    }

    /// Says what a candidate came to.
    pub fn tell(&self, action: Action) -> String {
        use Action::*;
        let after = self.world.step(self.state, action);
        let told = match action {
            Acquire { client, node } => self.granted(client, node, after.is_some()),
            AcquireAgain { client, node, .. } => {
                format!("Again: {}", self.granted(client, node, after.is_some()))
            }
            Deliver { client, node } => {
                let reply = self.state.clients[client as usize].slots[node as usize].reply;
                let reply = words::reply(&self.world.seam.replies.get(reply));
                format!("Client {} hears node {}: {reply}.", client + 1, letter(node))
            }
            Publish { client, node } => {
                let request = self.state.clients[client as usize].slots[node as usize].publish;
                format!("Client {}: {}", client + 1, self.answered(node, request))
            }
            Renew { client, node } => {
                let request =
                    self.world.seam.renewal(client, self.state.clients[client as usize].token);
                let others = self.expired(client, node, after.is_some());
                format!("{others}Client {}: {}", client + 1, self.answered(node, request))
            }
            Leave { client, node } => {
                format!(
                    "The part of client {} in the lock on node {} has run out.",
                    client + 1,
                    letter(node)
                )
            }
            Crash { node } => {
                format!("The server of node {} dies, and comes back empty.", letter(node))
            }
            Flush { node } => format!("Node {} loses its data, and goes on.", letter(node)),
            Save { node } => format!("What node {} knows now reaches its disk.", letter(node)),
            Restore { node } => {
                format!(
                    "The server of node {} dies, and comes back with what was on its disk.",
                    letter(node)
                )
            }
            Second => "The nodes' clocks show the next second.".into(),
            Prepare { who, node, collect } => {
                let (_, request) = self.world.seam.order(who, node, collect);
                let why = if collect { "A count has run out. " } else { "" };
                format!("{why}Re-admission {} begins: {}", who + 1, self.answered(node, request))
            }
            PrepareAgain { who } => {
                let target = self.state.orders[who as usize].target;
                let (_, request) = self.world.seam.order(who, target, false);
                format!("Again: {}", self.answered(target, request))
            }
            Readmit { who, node } | ActivateAgain { who, node } => {
                let request = self.state.orders[who as usize].waits[node as usize].request;
                let again = if matches!(action, ActivateAgain { .. }) { ", again" } else { "" };
                format!("Re-admission {}{again}: {}", who + 1, self.answered(node, request))
            }
        };
        match after {
            Some(after) => format!("{told}{}", self.follows(&after)),
            None => format!("{told} Nothing has changed."),
        }
    }

    /// What a node says to a request as it stands.
    fn answered(&self, node: u8, request: Id) -> String {
        let reply = self.said(node, request);
        let asked = words::request(&self.world.seam.requests.get(request));
        format!("“{asked}” at node {}: {}.", letter(node), words::reply(&reply))
    }

    fn said(&self, node: u8, request: Id) -> Reply {
        let at = self.state.nodes[node as usize];
        let second = self.world.clock + self.state.second;
        let (_, reply) = self.world.seam.answer(at.store, at.life, second, request);
        self.world.seam.replies.get(reply)
    }

    /// Whose locks have run out before the client locks.
    fn expired(&self, client: u8, node: u8, done: bool) -> String {
        let alone = |holder: &u8| {
            !(self.world.seam.shares((*holder).into()) && self.world.seam.shares(client.into()))
        };
        let holders = holders(self.world, self.state.nodes[node as usize]).into_iter();
        let others = holders.filter(|holder| *holder != client && done && alone(holder));
        let others = others.map(|holder| {
            format!("On node {} the lock of client {} has run out. ", letter(node), holder + 1)
        });
        others.collect()
    }

    fn granted(&self, client: u8, node: u8, done: bool) -> String {
        let (_, request) = self.world.seam.attempt(client);
        let who = format!("client {}", client + 1);
        if !done {
            let reply = words::reply(&self.said(node, request));
            return format!("Node {} does not grant anything to {who}: {reply}.", letter(node));
        }
        let others = self.expired(client, node, done);
        let asked = self.world.seam.requests.get(request);
        let shared = matches!(asked, Request::Acquire { mode: Mode::Shared, .. });
        let mode = if shared { "shares" } else { "locks" };
        format!("{others}Node {} {mode} the resource for {who}, and sends a grant.", letter(node))
    }

    /// What clients have and send after the step that they did not have before.
    fn follows(&self, after: &State<N, C, R>) -> String {
        let mut told = String::new();
        for (number, (was, is)) in self.state.clients.iter().zip(&after.clients).enumerate() {
            let number = number + 1;
            if let Some(sent) = self.publishes(was, is) {
                told += &format!(" Client {number} has a majority, and sends {sent}.");
            }
            if was.token == 0 && is.token != 0 {
                let token = words::token(is.token);
                told += &format!(" Client {number} has its lease: the token is {token}.");
            }
            for (node, (was, is)) in was.slots.iter().zip(&is.slots).enumerate() {
                if is.reply != 0 && was.reply != is.reply {
                    let reply = words::reply(&self.world.seam.replies.get(is.reply));
                    told += &format!(" On its way from node {}: {reply}.", letter(node as u8));
                }
            }
        }
        for (number, (was, is)) in self.state.orders.iter().zip(&after.orders).enumerate() {
            if !was.done && is.done {
                told += &format!(" Re-admission {} is done.", number + 1);
            }
        }
        told
    }

    fn publishes(&self, was: &Client<N>, is: &Client<N>) -> Option<String> {
        let new =
            (0..N).filter(|node| is.slots[*node].publish != 0 && was.slots[*node].publish == 0);
        let new: Vec<_> = new.collect();
        let request = self.world.seam.requests.get(is.slots[*new.first()?].publish);
        let nodes: Vec<_> = new.iter().map(|node| letter(*node as u8).to_string()).collect();
        Some(format!("“{}” to node {}", words::request(&request), nodes.join(" and ")))
    }
}
