//! Two lists of nodes, of which the new one is started or moved to.

use fencing_protocol::{Nonce, Reply, Request};
use protocol::model::lists::{CLOCK, Lists, State, Step};
use protocol::model::seam::Open;

use super::scene::{About, Breach, Card, Kind, Scene, letter};
use super::words;

const OF: [&str; 2] = ["old", "new"];

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
        let (kind, who, server, message) = match step {
            Step::Run { who, server } | Step::Late { who, server } => {
                let message = self.open(step).map_or(0, |open| open.request);
                (Kind::Message, Some(who), server, message)
            }
            Step::GiveUp { who, server } | Step::Readmit { who, server, .. } => (Kind::Client, Some(who), server, 0),
            Step::Lose { server } => (Kind::Fault, None, server, 0),
        };
        let (client, node) = (who.map(|who| self.title(who)), letter(server));
        let who = client.as_deref().unwrap_or_default();
        let label = match step {
            Step::Run { .. } | Step::Late { .. } => {
                let asked = self.open(step).map_or("a request".into(), |open| self.asked(open));
                format!("{who} to {node}: {asked}")
            }
            Step::GiveUp { .. } => format!("{who} waits no longer for {node}"),
            Step::Lose { .. } => format!("{node} loses its data"),
            Step::Readmit { list, .. } => {
                format!("{who} of {node} in the {} list", OF[list as usize])
            }
        };
        About { client, node: Some(server), message, ..About::new(step, kind, label) }
    }

    fn reply(&self, step: Step) -> Option<String> {
        let open = self.open(step)?;
        let (_, reply) = self.world.answer(self.state.nodes[open.server as usize], open);
        Some(words::reply(&self.world.seam.replies.get(reply)))
    }

    fn follows(&self, _: Step, after: &Self) -> String {
        let votes = |scene: &Self, list| scene.world.votes(&scene.state, list);
        let changed = (0..).zip(OF).filter(|(list, _)| votes(self, *list) != votes(after, *list));
        let sentence = |(list, name)| format!(" {} of the {name} list vote now.", votes(after, list));
        changed.map(sentence).collect()
    }

    fn nodes(&self) -> Vec<Card> {
        (0..Z as u8).map(|server| self.node(server)).collect()
    }

    fn clients(&self) -> Vec<Card> {
        (0..M as u8).map(|who| self.client(who)).collect()
    }

    fn promises(&self) -> Vec<(bool, Breach)> {
        const TWICE: Breach = ("a node has been in one era twice", "a node can count through one era twice");
        const BOTH: Breach = ("both lists vote: each can grant a lease", "two lists of nodes can both grant leases");
        vec![(!self.state.again, TWICE), (!self.world.both_vote(&self.state), BOTH)]
    }
}

impl<const Z: usize, const M: usize> ListScene<'_, Z, M> {
    /// The request that is on its way in this step.
    fn open(&self, step: Step) -> Option<Open> {
        let (who, server, given_up) = match step {
            Step::Run { who, server } => (who, server, false),
            Step::Late { who, server } => (who, server, true),
            _ => return None,
        };
        let open = self.world.requests(self.state.clients[who as usize]);
        open.into_iter().find(|open| open.server == server && open.given_up == given_up)
    }

    fn asked(&self, open: Open) -> String {
        words::request(&self.world.seam.requests.get(open.request))
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
        let (seam, node) = (&self.world.seam, self.state.nodes[server as usize]);
        let prepare = Request::Prepare { nonce: Nonce(0), from: None };
        let (mut facts, mut votes) = (Vec::new(), Vec::new());
        for (list, name) in (0..).zip(["to the old list", "to the new list"]) {
            if !seam.lists[list].contains(&server) {
                continue;
            }
            if seam.known(node.store, node.life, list as u8).is_some() {
                votes.push(OF[list]);
            }
            let mut copy = seam.stores.get(node.store);
            let text = match seam.ask(&mut copy, node.life, list as u8, CLOCK, &prepare) {
                Reply::Prepared(now) => {
                    format!("era {}, promised {}", now.state.era, now.state.reserved)
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
        let waits = open.iter().map(|open| format!("{}: {}", letter(open.server), self.asked(*open)));
        let waits = waits.reduce(|waits, wait| format!("{waits}, {wait}"));
        let facts = waits.map(|waits| ("on its way", waits)).into_iter().collect();
        Card { name: self.title(who), look, text: text.into(), facts }
    }
}
