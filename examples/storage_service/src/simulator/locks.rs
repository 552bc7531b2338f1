//! One list of nodes, and clients that lock.

use fencing_protocol::{Nonce, Reply, Request};
use protocol::model::node::{ask, count_once, owner, resource};
use protocol::model::state::{Node, State, Vote};
use protocol::model::world::{Action, World};

use super::narrator::Narrator;
use super::scene::{About, Card, Kind, Scene, letter};
use super::words;

impl<const N: usize, const C: usize, const R: usize> Scene for World<N, C, R> {
    type State = State<N, C, R>;
    type Move = Action;

    fn first(&self) -> State<N, C, R> {
        World::first(self)
    }

    fn candidates(&self, state: &State<N, C, R>) -> Vec<Action> {
        let mut actions = Vec::new();
        World::candidates(self, state, &mut actions);
        actions
    }

    fn step(&self, state: &State<N, C, R>, action: Action) -> Option<State<N, C, R>> {
        World::step(self, state, action)
    }

    fn name(&self, action: Action) -> String {
        use Action::*;
        let named = |what: &str, who: u8, node: u8| format!("{what}-{}-{}", who + 1, letter(node));
        match action {
            Acquire { client, node } => named("acquire", client, node),
            AcquireAgain { client, node, expired, lost } => {
                let how = match (expired, lost) {
                    (true, true) => "acquire-again-unheard",
                    (true, false) => "acquire-again-expired",
                    (false, _) => "acquire-again",
                };
                named(how, client, node)
            }
            Deliver { client, node } => named("deliver", client, node),
            Publish { client, node } => named("publish", client, node),
            Renew { client, node } => named("renew", client, node),
            Leave { client, node } => named("leave", client, node),
            Crash { node } => format!("crash-{}", letter(node)),
            Flush { node } => format!("flush-{}", letter(node)),
            Save { node } => format!("save-{}", letter(node)),
            Restore { node } => format!("restore-{}", letter(node)),
            Prepare { who, node, collect: false } => named("prepare", who, node),
            Prepare { who, node, collect: true } => named("collect", who, node),
            PrepareAgain { who } => format!("prepare-again-{}", who + 1),
            Readmit { who, node } => named("readmit", who, node),
            ActivateAgain { who, node } => named("activate-again", who, node),
            Second => "second".into(),
        }
    }

    fn about(&self, state: &State<N, C, R>, action: Action) -> About {
        use Action::*;
        let attempt = |client: u8| Some(format!("client {}", client + 1));
        let order = |who: u8| Some(format!("re-admission {}", who + 1));
        let slot = |client: u8, node: u8| state.clients[client as usize].slots[node as usize];
        let wait = |who: u8, node: u8| state.orders[who as usize].waits[node as usize].request;
        let begun = |client: u8| state.clients[client as usize].machine != 0;
        let (kind, client, node, awake, message) = match action {
            Acquire { client, node } if begun(client) => {
                (Kind::Message, attempt(client), Some(node), false, self.seam.attempt(client).1)
            }
            Acquire { client, node } => (Kind::Client, attempt(client), Some(node), true, 0),
            Deliver { client, node } => {
                (Kind::Message, attempt(client), Some(node), true, slot(client, node).reply)
            }
            Publish { client, node } => {
                (Kind::Message, attempt(client), Some(node), true, slot(client, node).publish)
            }
            Renew { client, node } => (Kind::Client, attempt(client), Some(node), true, 0),
            Prepare { who, node, .. } => (Kind::Client, order(who), Some(node), true, 0),
            Readmit { who, node } => (Kind::Message, order(who), Some(node), true, wait(who, node)),
            AcquireAgain { client, node, .. } | Leave { client, node } => {
                (Kind::Fault, attempt(client), Some(node), false, 0)
            }
            ActivateAgain { who, node } => (Kind::Fault, order(who), Some(node), false, 0),
            PrepareAgain { who } => (Kind::Fault, order(who), None, false, 0),
            Crash { node } | Flush { node } | Save { node } | Restore { node } => {
                (Kind::Fault, None, Some(node), false, 0)
            }
            Second => (Kind::Fault, None, None, false, 0),
        };
        About {
            kind,
            label: Narrator { world: self, state }.label(action),
            client,
            node,
            awake,
            message,
        }
    }

    fn tell(&self, before: &State<N, C, R>, action: Action) -> String {
        Narrator { world: self, state: before }.tell(action)
    }

    fn nodes(&self, state: &State<N, C, R>) -> Vec<Card> {
        (0..N).map(|node| card(self, state, node)).collect()
    }

    fn clients(&self, state: &State<N, C, R>) -> Vec<Card> {
        let attempts = (0..C).map(|client| attempt(self, state, client));
        attempts.chain((0..R).filter_map(|who| order(self, state, who))).collect()
    }

    fn broken(&self, state: &State<N, C, R>) -> Vec<&'static str> {
        let promises = [
            (state.unique(&self.seam), "I1: two leases have the same token"),
            (state.ordered(), "I2: a later lease has no larger token"),
            (
                !self.prompt || !self.revived(state),
                "a lease was renewed although another client had followed",
            ),
        ];
        promises.into_iter().filter(|(kept, _)| !kept).map(|(_, broken)| broken).collect()
    }
}

/// Returns who holds the lock on a node.
pub fn holders<const N: usize, const C: usize, const R: usize>(
    world: &World<N, C, R>,
    node: Node,
) -> Vec<u8> {
    let holds = |client: &u8| {
        let release = Request::Release { resource: resource(), owner: owner(*client) };
        let mut copy = world.seam.stores.get(node.store);
        ask(&mut copy, node.life, 0, &release) == Reply::Released
    };
    (0..C as u8).filter(holds).collect()
}

/// A node, asked on a copy of its store.
fn card<const N: usize, const C: usize, const R: usize>(
    world: &World<N, C, R>,
    state: &State<N, C, R>,
    number: usize,
) -> Card {
    let node = state.nodes[number];
    let name = letter(number as u8).to_string();
    let prepare = Request::Prepare { nonce: Nonce(0), from: None };
    let copy = world.seam.stores.get(node.store);
    let Reply::Prepared(now) = ask(&mut copy.clone(), node.life, 0, &prepare) else {
        return Card { name, look: "away", text: "answers nothing".into(), facts: Vec::new() };
    };
    let start = World::first(world).nodes[number];
    let renewed = match ask(&mut world.seam.stores.get(start.store), start.life, 0, &prepare) {
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
    let names = holders(world, node).into_iter().map(|client| format!("client {}", client + 1));
    let names = names.collect::<Vec<_>>().join(", ");
    let nonce = now.state.nonce.0;
    let mut facts = vec![
        ("era", now.state.era.to_string()),
        ("promised", now.state.reserved.to_string()),
        ("count", count.to_string()),
        ("lock", if names.is_empty() { "free".into() } else { names }),
        ("nonce", if nonce == 0 { "none".into() } else { nonce.to_string() }),
    ];
    if node.disk != 0 {
        facts.push(("disk", "an older copy".into()));
    }
    Card { name, look, text: text.into(), facts }
}

/// An attempt, with what it has heard.
fn attempt<const N: usize, const C: usize, const R: usize>(
    world: &World<N, C, R>,
    state: &State<N, C, R>,
    number: usize,
) -> Card {
    let client = state.clients[number];
    let shares = if world.seam.shares(number) { ", would share the lock" } else { "" };
    let (look, text) = match (client.machine, client.token) {
        (0, _) => ("idle", format!("has not asked yet{shares}")),
        (_, 0) => ("asks", "asks for the lock".into()),
        (_, token) => ("won", format!("has a lease, token {}", words::token(token))),
    };
    let mut facts = Vec::new();
    if client.machine != 0 {
        let mut heard = world.seam.heard(client.machine);
        heard.reverse();
        let heard = heard.iter().map(|(node, reply)| {
            let what = match reply {
                Reply::Granted { stamp, .. } => words::stamp(*stamp),
                Reply::Published => "published".into(),
                other => words::reply(other),
            };
            format!("{}: {what}", letter(*node))
        });
        facts.push(("heard", heard.collect::<Vec<_>>().join(", ")));
        let floor = client.floor;
        let floor = if floor == 0 { "none".into() } else { words::token(floor) };
        facts.push(("token before", floor));
        if let Some(renewal) = renewal(world, state, number) {
            facts.push(("renewal", renewal));
        }
    }
    Card { name: format!("client {}", number + 1), look, text, facts }
}

/// Where the lease was renewed, and what the client makes of that.
fn renewal<const N: usize, const C: usize, const R: usize>(
    world: &World<N, C, R>,
    state: &State<N, C, R>,
    number: usize,
) -> Option<String> {
    let client = state.clients[number];
    let votes = client.slots.map(|slot| slot.renewal != Vote::None);
    let nodes = (0..N).filter(|node| votes[*node]).map(|node| letter(node as u8).to_string());
    let nodes: Vec<_> = nodes.collect();
    if nodes.is_empty() {
        return None;
    }
    let renewed = world.seam.renewed(number as u8, client.token, &votes);
    let outcome = if renewed { "its lease is renewed" } else { "no majority so far" };
    Some(format!("at {}: {outcome}", nodes.join(", ")))
}

/// A re-admission that has begun.
fn order<const N: usize, const C: usize, const R: usize>(
    world: &World<N, C, R>,
    state: &State<N, C, R>,
    number: usize,
) -> Option<Card> {
    let order = &state.orders[number];
    if order.machine == 0 {
        return None;
    }
    let target = letter(order.target);
    let (look, text) = if order.done {
        ("won", format!("of node {target}: done"))
    } else {
        ("asks", format!("of node {target}: under way"))
    };
    let mut open = Vec::new();
    for (node, wait) in order.waits.iter().enumerate() {
        if wait.request != 0 {
            let asked = words::request(&world.seam.requests.get(wait.request));
            let answered = if wait.ran { " (answered)" } else { "" };
            open.push(format!("{}: {asked}{answered}", letter(node as u8)));
        }
    }
    let facts = vec![("asked last", open.join(", "))];
    Some(Card { name: format!("re-admission {}", number + 1), look, text, facts })
}
