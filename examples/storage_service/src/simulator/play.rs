//! A play: the moves that are named, and then some that a seed chooses.

use std::collections::BTreeSet;

use protocol::model::cases::Visitor;
use protocol::model::lists::Lists;
use protocol::model::world::World;
use serde::Serialize;

use super::scene::{About, Card, Kind, Scene, letter};

/// What to play.
#[derive(Default)]
pub struct Script {
    pub moves: Vec<String>,
    /// How many moves the seed chooses after those. Fewer, if a promise breaks or nothing is left.
    pub random: usize,
    pub seed: u64,
    /// How late messages are among the moves that the seed chooses, from 0 to 9.
    pub delay: u64,
}

#[derive(Serialize)]
pub struct Played {
    pub steps: Vec<PlayedStep>,
    pub nodes: Vec<Card>,
    pub clients: Vec<Card>,
    /// What can happen next.
    pub open: Vec<Choice>,
    pub paused: Vec<String>,
    pub cut: Vec<char>,
    /// The promises that were broken first.
    pub broken: Vec<&'static str>,
    /// How many steps that took.
    pub broke: Option<usize>,
    /// What was so after each step.
    #[serde(skip)]
    pub trail: Vec<(Vec<Card>, Vec<Card>)>,
}

/// A move, and its outcome.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct PlayedStep {
    #[serde(rename = "move")]
    pub name: String,
    pub text: String,
    /// Whether anything has changed.
    pub done: bool,
}

#[derive(Serialize)]
pub struct Choice {
    name: String,
    label: String,
    kind: Kind,
    client: Option<String>,
    node: Option<char>,
}

impl Played {
    /// Reports whether a node has forgotten after some step.
    pub fn forgets(&self) -> bool {
        self.trail.iter().any(|(nodes, _)| nodes.iter().any(|node| node.look == "forgot"))
    }

    /// Returns the first step that is not the same in another play of the same moves.
    pub fn parts(&self, other: &Played) -> Option<usize> {
        let here = self.steps.iter().zip(&self.trail);
        let there = other.steps.iter().zip(&other.trail);
        here.zip(there).position(|(here, there)| here != there)
    }
}

/// Plays in whatever world it is given.
pub struct Player<'a>(pub &'a Script);

impl Visitor for Player<'_> {
    type Out = Played;

    fn locks<const N: usize, const C: usize, const R: usize>(
        self,
        world: World<N, C, R>,
    ) -> Played {
        play(&world, self.0)
    }

    fn lists<const Z: usize, const M: usize>(self, world: Lists<Z, M>) -> Played {
        play(&world, self.0)
    }
}

fn play<S: Scene>(scene: &S, script: &Script) -> Played {
    let mut game = Game { scene, state: scene.first(), hand: Hand::default() };
    let (mut steps, mut trail) = (Vec::new(), Vec::new());
    let mut broken = scene.broken(&game.state);
    let mut broke = (!broken.is_empty()).then_some(0);
    while let Some(name) = match script.moves.get(steps.len()) {
        Some(name) => Some(name.clone()),
        None if steps.len() < script.moves.len() + script.random && broke.is_none() => {
            game.drawn(script, steps.len())
        }
        None => None,
    } {
        steps.push(game.take(&name));
        trail.push((scene.nodes(&game.state), scene.clients(&game.state)));
        if broke.is_none() {
            broken = scene.broken(&game.state);
            broke = (!broken.is_empty()).then_some(steps.len());
        }
    }
    let open = game.open().into_iter().map(|(step, about)| Choice {
        name: scene.name(step),
        label: about.label,
        kind: about.kind,
        client: about.client,
        node: about.node.map(letter),
    });
    Played {
        nodes: scene.nodes(&game.state),
        clients: scene.clients(&game.state),
        open: open.collect(),
        paused: game.hand.paused.iter().cloned().collect(),
        cut: game.hand.cut.iter().map(|node| letter(*node)).collect(),
        steps,
        broken,
        broke,
        trail,
    }
}

/// What the hand of the player holds back. The world allows it at any time.
#[derive(Default)]
struct Hand {
    /// Clients that act on nothing.
    paused: BTreeSet<String>,
    /// Nodes that no message reaches or leaves.
    cut: BTreeSet<u8>,
    /// Messages that never arrive.
    lost: BTreeSet<(String, u32)>,
}

impl Hand {
    fn holds(&self, name: &str, about: &About) -> bool {
        let asleep = about.client.as_ref().is_some_and(|client| self.paused.contains(client));
        let cut = about.node.is_some_and(|node| self.cut.contains(&node));
        let between = about.kind != Kind::Fault || about.client.is_some();
        (about.awake && asleep)
            || (between && cut)
            || self.lost.contains(&(name.to_owned(), about.message))
    }
}

struct Game<'a, S: Scene> {
    scene: &'a S,
    state: S::State,
    hand: Hand,
}

impl<S: Scene> Game<'_, S> {
    /// Returns all that can happen next, and changes something.
    fn open(&self) -> Vec<(S::Move, About)> {
        let (scene, state) = (self.scene, &self.state);
        let candidates = scene.candidates(state).into_iter();
        let able = candidates.filter(|step| scene.step(state, *step).is_some());
        let described = able.map(|step| (step, scene.about(state, step)));
        described.filter(|(step, about)| !self.hand.holds(&scene.name(*step), about)).collect()
    }

    fn find(&self, name: &str) -> Option<S::Move> {
        self.scene.candidates(&self.state).into_iter().find(|step| self.scene.name(*step) == name)
    }

    /// Does what is named, be it in the world or by the player's hand.
    fn take(&mut self, name: &str) -> PlayedStep {
        let played = |text: String, done| PlayedStep { name: name.to_owned(), text, done };
        if let Some(text) = self.hold(name) {
            return played(text, true);
        }
        let Some(step) = self.find(name) else {
            return played(format!("Not possible here: nothing of “{name}” is on its way."), false);
        };
        let text = self.scene.tell(&self.state, step);
        match self.scene.step(&self.state, step) {
            Some(state) => {
                self.state = state;
                played(text, true)
            }
            None => played(text, false),
        }
    }

    /// Holds something back, or no longer, if that is what is named.
    fn hold(&mut self, name: &str) -> Option<String> {
        let (verb, what) = name.split_once('-')?;
        let client = || {
            let clients = self.scene.clients(&self.state).into_iter().map(|card| card.name);
            clients.into_iter().find(|client| client.replace(' ', "-") == what)
        };
        let node = || {
            (0..self.scene.nodes(&self.state).len() as u8).find(|n| what == letter(*n).to_string())
        };
        match verb {
            "pause" => {
                let client = client()?;
                let told = format!("The process of {client} stops. What it has sent may arrive.");
                self.hand.paused.insert(client);
                Some(told)
            }
            "wake" => {
                let client = client()?;
                self.hand.paused.remove(&client);
                Some(format!("The process of {client} goes on, and knows of no pause."))
            }
            "cut" => {
                let node = node()?;
                self.hand.cut.insert(node);
                Some(format!("No message reaches or leaves node {}.", letter(node)))
            }
            "join" => {
                let node = node()?;
                self.hand.cut.remove(&node);
                Some(format!("Messages reach and leave node {} again.", letter(node)))
            }
            "drop" => {
                let about = self.scene.about(&self.state, self.find(what)?);
                self.hand.lost.insert((what.to_owned(), about.message));
                Some(format!("Lost: “{}” never arrives.", about.label))
            }
            _ => None,
        }
    }

    /// Returns the move that the seed chooses as the one of this number.
    fn drawn(&self, script: &Script, number: usize) -> Option<String> {
        let open = self.open();
        let weight = |about: &About| match about.kind {
            Kind::Message => 1 + 2 * (9 - script.delay.min(9)),
            Kind::Client => 6,
            Kind::Fault => 1,
        };
        let all: u64 = open.iter().map(|(_, about)| weight(about)).sum();
        let mut left = random(script.seed, number as u64).checked_rem(all)?;
        let chosen = open.iter().find(|(_, about)| {
            let here = left < weight(about);
            left = left.saturating_sub(weight(about));
            here
        });
        chosen.map(|(step, _)| self.scene.name(*step))
    }
}

/// Returns the random number of this place: SplitMix64.
fn random(seed: u64, number: u64) -> u64 {
    let mut z = seed.wrapping_add((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
