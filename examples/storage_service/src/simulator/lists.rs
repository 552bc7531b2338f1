//! Two lists of nodes, of which the new one is started or moved to.

use fencing_protocol::{Nonce, Reply, Request};
use protocol::model::desk::Open;
use protocol::model::lists::{Lists, State, Step};

use super::scene::{About, Card, Kind, Scene, letter};
use super::words;

const OF: [&str; 2] = ["old", "new"];

impl<const Z: usize, const M: usize> Scene for Lists<Z, M> {
    type State = State<Z, M>;
    type Move = Step;

    fn first(&self) -> State<Z, M> {
        Lists::first(self)
    }

    fn candidates(&self, state: &State<Z, M>) -> Vec<Step> {
        let mut steps = Vec::new();
        Lists::candidates(self, state, &mut steps);
        steps
    }

    fn step(&self, state: &State<Z, M>, step: Step) -> Option<State<Z, M>> {
        Lists::step(self, state, step)
    }

    fn name(&self, step: Step) -> String {
        match step {
            Step::Run { who, server } => format!("run-{}-{}", who + 1, letter(server)),
            Step::GiveUp { who, server } => format!("give-up-{}-{}", who + 1, letter(server)),
            Step::Late { who, server } => format!("late-{}-{}", who + 1, letter(server)),
            Step::Lose { server } => format!("lose-all-{}", letter(server)),
            Step::Readmit { who, list, server } => {
                format!("readmit-{}-{}-{}", who + 1, OF[list as usize], letter(server))
            }
        }
    }

    fn about(&self, state: &State<Z, M>, step: Step) -> About {
        let (kind, client, server, label, message) = match step {
            Step::Run { who, server } | Step::Late { who, server } => {
                let open = open(self, state, step);
                let asked = open.map_or("a request".into(), |open| asked(self, open));
                let label = format!("{} to {}: {asked}", title(self, who), letter(server));
                (Kind::Message, Some(who), server, label, open.map_or(0, |open| open.request))
            }
            Step::GiveUp { who, server } => {
                let label = format!("{} waits no longer for {}", title(self, who), letter(server));
                (Kind::Client, Some(who), server, label, 0)
            }
            Step::Lose { server } => {
                (Kind::Fault, None, server, format!("{} loses its data", letter(server)), 0)
            }
            Step::Readmit { who, list, server } => {
                let list = OF[list as usize];
                let who_is = title(self, who);
                let label = format!("{who_is} of {} in the {list} list", letter(server));
                (Kind::Client, Some(who), server, label, 0)
            }
        };
        let client = client.map(|who| title(self, who));
        About { kind, label, client, node: Some(server), awake: kind != Kind::Fault, message }
    }

    fn tell(&self, before: &State<Z, M>, step: Step) -> String {
        match step {
            Step::Run { who, server } | Step::Late { who, server } => {
                let Some(open) = open(self, before, step) else {
                    return "Nothing is on its way there.".into();
                };
                let node = before.nodes[server as usize];
                let (_, reply) = self.desk.answer(node.store, node.life, open.list, open.request);
                let reply = words::reply(&self.desk.replies.get(reply));
                let told = format!(
                    "{}: “{}” at node {}: {reply}.",
                    capital(&title(self, who)),
                    asked(self, open),
                    letter(server)
                );
                let after = Lists::step(self, before, step);
                let votes = |list| {
                    let count = |state: &State<Z, M>| self.votes(state, list);
                    let after = after.as_ref().map_or(0, count);
                    (count(before) != after)
                        .then(|| format!(" {after} of the {} list vote now.", OF[list as usize]))
                };
                [Some(told), votes(0), votes(1)].into_iter().flatten().collect()
            }
            Step::GiveUp { who, server } => format!(
                "{} waits no longer for node {}. The request may arrive later.",
                capital(&title(self, who)),
                letter(server)
            ),
            Step::Lose { server } => {
                format!("The server of node {} dies, and comes back empty.", letter(server))
            }
            Step::Readmit { who, list, server } => format!(
                "{} of node {} begins, in the {} list.",
                capital(&title(self, who)),
                letter(server),
                OF[list as usize]
            ),
        }
    }

    fn nodes(&self, state: &State<Z, M>) -> Vec<Card> {
        (0..Z as u8).map(|server| card(self, state, server)).collect()
    }

    fn clients(&self, state: &State<Z, M>) -> Vec<Card> {
        (0..M).map(|who| client(self, state, who)).collect()
    }

    fn broken(&self, state: &State<Z, M>) -> Vec<&'static str> {
        let promises = [
            (!state.again, "a node has been in one era twice"),
            (!self.both_vote(state), "both lists vote: each can grant a lease"),
        ];
        promises.into_iter().filter(|(kept, _)| !kept).map(|(_, broken)| broken).collect()
    }
}

/// The request that the step executes.
fn open<const Z: usize, const M: usize>(
    world: &Lists<Z, M>,
    state: &State<Z, M>,
    step: Step,
) -> Option<Open> {
    let (who, server, late) = match step {
        Step::Run { who, server } => (who, server, false),
        Step::Late { who, server } => (who, server, true),
        _ => return None,
    };
    let open = world.requests(state.clients[who as usize]).into_iter();
    open.into_iter().find(|open| open.server == server && open.given_up == late)
}

fn asked<const Z: usize, const M: usize>(world: &Lists<Z, M>, open: Open) -> String {
    words::request(&world.desk.requests.get(open.request))
}

fn title<const Z: usize, const M: usize>(world: &Lists<Z, M>, who: u8) -> String {
    let number = usize::from(who);
    let what = match number {
        number if number < world.starters => "starter",
        number if number < world.starters + world.movers => "mover",
        _ => "re-admission",
    };
    format!("{what} {}", number + 1)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// A node, asked on a copy of its store as clients of each list would.
fn card<const Z: usize, const M: usize>(
    world: &Lists<Z, M>,
    state: &State<Z, M>,
    server: u8,
) -> Card {
    let node = state.nodes[server as usize];
    let prepare = Request::Prepare { nonce: Nonce(0), from: None };
    let mut facts = Vec::new();
    let mut votes = Vec::new();
    for list in [0, 1] {
        if !world.desk.lists[list].contains(&server) {
            continue;
        }
        let mut copy = world.desk.stores.get(node.store);
        if world.desk.era(node.store, node.life, list as u8).is_some() {
            votes.push(OF[list]);
        }
        let text = match world.desk.ask(&mut copy, node.life, list as u8, &prepare) {
            Reply::Prepared(now) => {
                let nonce = now.state.nonce.0;
                let nonce = if nonce == 0 { "none".into() } else { nonce.to_string() };
                let (era, reserved) = (now.state.era, now.state.reserved);
                format!("era {era}, promised {reserved}, nonce {nonce}")
            }
            other => words::reply(&other),
        };
        facts.push((["to the old list", "to the new list"][list], text));
    }
    let (look, text) = match (votes.as_slice(), node.lost) {
        ([], true) => ("forgot", "has forgotten: no vote".into()),
        ([], false) => ("away", "gives no vote".into()),
        (votes, _) => ("votes", format!("votes in the {} list", votes.join(" and the "))),
    };
    Card { name: letter(server).to_string(), look, text, facts }
}

fn client<const Z: usize, const M: usize>(
    world: &Lists<Z, M>,
    state: &State<Z, M>,
    who: usize,
) -> Card {
    let client = state.clients[who];
    let open = world.requests(client);
    let (look, text) = match (client.machine, open.is_empty()) {
        (0, _) => ("idle", "has not begun"),
        (_, false) => ("asks", "under way"),
        (_, true) => ("won", "is over"),
    };
    let waits = open.iter().map(|open| format!("{}: {}", letter(open.server), asked(world, *open)));
    let waits = waits.collect::<Vec<_>>().join(", ");
    let facts = if waits.is_empty() { Vec::new() } else { vec![("on its way", waits)] };
    Card { name: title(world, who as u8), look, text: text.into(), facts }
}
