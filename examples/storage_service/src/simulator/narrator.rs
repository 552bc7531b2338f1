//! What the steps of clients that lock come to, in words.

use fencing_protocol::{Mode, Request};
use protocol::model::pool::Id;
use protocol::model::state::{Client, State};
use protocol::model::world::Action;

use super::locks::{LockScene, attempt};
use super::scene::letter;
use super::words;

impl<const N: usize, const C: usize, const R: usize> LockScene<'_, N, C, R> {
    /// Says what a candidate came to.
    pub fn told(&self, action: Action) -> String {
        use Action::*;
        let seam = &self.world.seam;
        let after = self.world.step(&self.state, action);
        let told = match action {
            Acquire { client, node } => self.granted(client, node, after.is_some()),
            AcquireAgain { client, node, .. } => {
                format!("Again: {}", self.granted(client, node, after.is_some()))
            }
            Deliver { client, node } => {
                let reply = self.reply(self.slot(client, node).reply);
                format!("Client {} hears node {}: {reply}.", client + 1, letter(node))
            }
            Publish { client, node } => {
                let answered = self.answered(node, self.slot(client, node).publish);
                format!("Client {}: {answered}", client + 1)
            }
            Renew { client, node } => {
                let request = seam.renewal(client, self.state.clients[client as usize].token);
                let others = self.expired(client, node, after.is_some());
                format!("{others}Client {}: {}", client + 1, self.answered(node, request))
            }
            Leave { client, node } => {
                let (client, node) = (client + 1, letter(node));
                format!("The part of client {client} in the lock on node {node} has run out.")
            }
            Crash { node } => {
                format!("The server of node {} dies, and comes back empty.", letter(node))
            }
            Flush { node } => format!("Node {} loses its data, and goes on.", letter(node)),
            Save { node } => format!("What node {} knows now reaches its disk.", letter(node)),
            Restore { node } => {
                let node = letter(node);
                format!("The server of node {node} dies, and comes back with what was on its disk.")
            }
            Second => "The nodes' clocks show the next second.".into(),
            Prepare { who, node, collect } => {
                let (_, request) = seam.order(who, node, collect);
                let why = if collect { "A count has run out. " } else { "" };
                format!("{why}Re-admission {} begins: {}", who + 1, self.answered(node, request))
            }
            PrepareAgain { who } => {
                let target = self.state.orders[who as usize].target;
                let (_, request) = seam.order(who, target, false);
                format!("Again: {}", self.answered(target, request))
            }
            Readmit { who, node } => {
                let answered = self.answered(node, self.waits(who, node));
                format!("Re-admission {}: {answered}", who + 1)
            }
            ActivateAgain { who, node } => {
                let answered = self.answered(node, self.waits(who, node));
                format!("Re-admission {}, again: {answered}", who + 1)
            }
        };
        match after {
            Some(after) => format!("{told}{}", self.follows(&after)),
            None => format!("{told} Nothing has changed."),
        }
    }

    /// What a node says to a request as it stands.
    fn answered(&self, node: u8, request: Id) -> String {
        let (asked, said) = (self.request(request), self.said(node, request));
        format!("“{asked}” at node {}: {said}.", letter(node))
    }

    fn said(&self, node: u8, request: Id) -> String {
        let at = self.state.nodes[node as usize];
        let second = self.world.clock + self.state.second;
        let (_, reply) = self.world.seam.answer(at.store, at.life, second, request);
        self.reply(reply)
    }

    /// Whose locks have run out before the client locks.
    fn expired(&self, client: u8, node: u8, done: bool) -> String {
        let shares = |client: u8| self.world.seam.shares(client.into());
        let holders = self.holders(self.state.nodes[node as usize]).into_iter();
        let others = holders
            .filter(|holder| *holder != client && done && !(shares(*holder) && shares(client)));
        let told = |holder| {
            format!("On node {} the lock of {} has run out. ", letter(node), attempt(holder))
        };
        others.map(told).collect()
    }

    fn granted(&self, client: u8, node: u8, done: bool) -> String {
        let (_, request) = self.world.seam.attempt(client);
        let (who, at) = (attempt(client), letter(node));
        if !done {
            let reply = self.said(node, request);
            return format!("Node {at} does not grant anything to {who}: {reply}.");
        }
        let others = self.expired(client, node, done);
        let mode = match self.world.seam.requests.get(request) {
            Request::Acquire { mode: Mode::Shared, .. } => "shares",
            _ => "locks",
        };
        format!("{others}Node {at} {mode} the resource for {who}, and sends a grant.")
    }

    /// What clients have and send after the step that they did not have before.
    fn follows(&self, after: &State<N, C, R>) -> String {
        let mut told = String::new();
        for (number, (was, is)) in (1..).zip(self.state.clients.iter().zip(&after.clients)) {
            if let Some(sent) = self.publishes(was, is) {
                told += &format!(" Client {number} has a majority, and sends {sent}.");
            }
            if was.token == 0 && is.token != 0 {
                let token = words::token(is.token);
                told += &format!(" Client {number} has its lease: the token is {token}.");
            }
            for (node, (was, is)) in (0..).zip(was.slots.iter().zip(&is.slots)) {
                if is.reply != 0 && was.reply != is.reply {
                    let reply = self.reply(is.reply);
                    told += &format!(" On its way from node {}: {reply}.", letter(node));
                }
            }
        }
        for (number, (was, is)) in (1..).zip(self.state.orders.iter().zip(&after.orders)) {
            if !was.done && is.done {
                told += &format!(" Re-admission {number} is done.");
            }
        }
        told
    }

    fn publishes(&self, was: &Client<N>, is: &Client<N>) -> Option<String> {
        let slots = (0..).zip(was.slots.iter().zip(&is.slots));
        let new = slots.filter(|(_, (was, is))| was.publish == 0 && is.publish != 0);
        let (nodes, requests): (Vec<_>, Vec<_>) =
            new.map(|(node, (_, is))| (letter(node).to_string(), is.publish)).unzip();
        let request = self.request(*requests.first()?);
        Some(format!("“{request}” to node {}", nodes.join(" and ")))
    }
}
