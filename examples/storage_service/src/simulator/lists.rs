//! Two lists of nodes, of which the new one is started or moved to.

use fencing_protocol::{Nonce, Reply, Request};
use protocol::model::desk::Open;
use protocol::model::lists::{Lists, State, Step};

use super::scene::{About, Breach, Card, Kind, Scene, letter};
use super::words;

const OF: [&str; 2] = ["old", "new"];

/// A world in one of its states.
#[derive(Clone, Copy)]
pub struct ListScene<'a, const Z: usize, const M: usize> {
    pub world: &'a Lists<Z, M>,
    pub state: State<Z, M>,
}

impl<const Z: usize, const M: usize> Scene for ListScene<'_, Z, M> {
    type Move = Step;

    fn candidates(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        self.world.candidates(&self.state, &mut steps);
        steps
    }

    fn after(&self, step: Step) -> Option<Self> {
        self.world.step(&self.state, step).map(|state| ListScene { state, ..*self })
    }

    fn about(&self, step: Step) -> About {
        let request = |verb, who, server, given_up| {
            let open = self.open(who, server, given_up);
            let asked = open.map_or("a request".into(), |open| self.asked(open));
            let label = format!("{} to {}: {asked}", self.title(who), letter(server));
            let message = open.map_or(0, |open| open.request);
            About::message(verb, label, message).by(self.title(who)).at(server)
        };
        let begins = |verb, who, server, label| {
            About::new(Kind::Client, verb, label).by(self.title(who)).at(server)
        };
        match step {
            Step::Run { who, server } => request("run", who, server, false),
            Step::Late { who, server } => request("late", who, server, true),
            Step::GiveUp { who, server } => {
                let label = format!("{} waits no longer for {}", self.title(who), letter(server));
                begins("give-up", who, server, label)
            }
            Step::Lose { server } => {
                let label = format!("{} loses its data", letter(server));
                About::new(Kind::Fault, "lose-all", label).at(server)
            }
            Step::Readmit { who, list, server } => {
                let list = OF[list as usize];
                let label = format!("{} of {} in the {list} list", self.title(who), letter(server));
                begins(&format!("readmit-{list}"), who, server, label)
            }
        }
    }

    fn tell(&self, step: Step) -> String {
        match step {
            Step::Run { who, server } => self.answered(step, who, self.open(who, server, false)),
            Step::Late { who, server } => self.answered(step, who, self.open(who, server, true)),
            Step::GiveUp { who, server } => format!(
                "{} waits no longer for node {}. The request may arrive later.",
                capital(&self.title(who)),
                letter(server)
            ),
            Step::Lose { server } => {
                format!("The server of node {} dies, and comes back empty.", letter(server))
            }
            Step::Readmit { who, list, server } => {
                let (who, list) = (capital(&self.title(who)), OF[list as usize]);
                format!("{who} of node {} begins, in the {list} list.", letter(server))
            }
        }
    }

    fn nodes(&self) -> Vec<Card> {
        (0..Z as u8).map(|server| self.node(server)).collect()
    }

    fn clients(&self) -> Vec<Card> {
        (0..M as u8).map(|who| self.client(who)).collect()
    }

    fn promises(&self) -> Vec<(bool, Breach)> {
        const TWICE: Breach =
            ("a node has been in one era twice", "a node can count through one era twice");
        const BOTH: Breach =
            ("both lists vote: each can grant a lease", "two lists of nodes can both grant leases");
        vec![(!self.state.again, TWICE), (!self.world.both_vote(&self.state), BOTH)]
    }
}

impl<const Z: usize, const M: usize> ListScene<'_, Z, M> {
    /// What a node says to a request, and which votes change with that.
    fn answered(&self, step: Step, who: u8, open: Option<Open>) -> String {
        let Some(open) = open else { return "Nothing is on its way there.".into() };
        let (who, asked, at) = (capital(&self.title(who)), self.asked(open), letter(open.server));
        let node = self.state.nodes[open.server as usize];
        let (_, reply) = self.world.desk.answer(node.store, node.life, open.list, open.request);
        let reply = words::reply(&self.world.desk.replies.get(reply));
        let mut told = format!("{who}: “{asked}” at node {at}: {reply}.");
        let after = self.after(step);
        for (list, name) in (0..).zip(OF) {
            let votes = |scene: &Self| self.world.votes(&scene.state, list);
            let after = after.as_ref().map_or(0, votes);
            if votes(self) != after {
                told += &format!(" {after} of the {name} list vote now.");
            }
        }
        told
    }

    /// The request that is on its way there.
    fn open(&self, who: u8, server: u8, given_up: bool) -> Option<Open> {
        let open = self.world.requests(self.state.clients[who as usize]).into_iter();
        open.into_iter().find(|open| open.server == server && open.given_up == given_up)
    }

    fn asked(&self, open: Open) -> String {
        words::request(&self.world.desk.requests.get(open.request))
    }

    fn title(&self, who: u8) -> String {
        let number = usize::from(who);
        let what = match number {
            number if number < self.world.starters => "starter",
            number if number < self.world.starters + self.world.movers => "mover",
            _ => "re-admission",
        };
        format!("{what} {}", number + 1)
    }

    /// A node, asked on a copy of its store as clients of each list would.
    fn node(&self, server: u8) -> Card {
        let (desk, node) = (&self.world.desk, self.state.nodes[server as usize]);
        let prepare = Request::Prepare { nonce: Nonce(0), from: None };
        let (mut facts, mut votes) = (Vec::new(), Vec::new());
        for (list, name) in (0..).zip(["to the old list", "to the new list"]) {
            if !desk.lists[list].contains(&server) {
                continue;
            }
            if desk.era(node.store, node.life, list as u8).is_some() {
                votes.push(OF[list]);
            }
            let mut copy = desk.stores.get(node.store);
            let text = match desk.ask(&mut copy, node.life, list as u8, &prepare) {
                Reply::Prepared(now) => {
                    let (era, reserved) = (now.state.era, now.state.reserved);
                    let nonce = words::nonce(now.state.nonce);
                    format!("era {era}, promised {reserved}, nonce {nonce}")
                }
                other => words::reply(&other),
            };
            facts.push((name, text));
        }
        let (look, text) = match (votes.as_slice(), node.lost) {
            ([], true) => ("forgot", "has forgotten: no vote".into()),
            ([], false) => ("away", "gives no vote".into()),
            (votes, _) => ("votes", format!("votes in the {} list", votes.join(" and the "))),
        };
        Card { name: letter(server).to_string(), look, text, facts }
    }

    fn client(&self, who: u8) -> Card {
        let client = self.state.clients[who as usize];
        let open = self.world.requests(client);
        let (look, text) = match (client.machine, open.is_empty()) {
            (0, _) => ("idle", "has not begun"),
            (_, false) => ("asks", "under way"),
            (_, true) => ("won", "is over"),
        };
        let waits =
            open.iter().map(|open| format!("{}: {}", letter(open.server), self.asked(*open)));
        let waits = waits.reduce(|waits, wait| format!("{waits}, {wait}"));
        let facts = waits.map(|waits| ("on its way", waits)).into_iter().collect();
        Card { name: self.title(who), look, text: text.into(), facts }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
