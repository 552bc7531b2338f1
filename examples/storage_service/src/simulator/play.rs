//! A play: the moves that are named, and then some that a seed chooses.

use std::collections::BTreeSet;

use protocol::model::cases::Visitor;
use protocol::model::lists::Lists;
use protocol::model::world::World;
use serde::{Deserialize, Serialize};

use super::lists::ListScene;
use super::locks::LockScene;
use super::scene::{About, Breach, Card, Kind, Scene, letter};

#[derive(Default, Deserialize)]
#[serde(default)]
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
    nodes: Vec<Card>,
    clients: Vec<Card>,
    /// What can happen next.
    open: Vec<About>,
    /// The clients that are paused, and the nodes that are cut off.
    held: BTreeSet<String>,
    /// The promises that were broken first.
    pub broken: Vec<Breach>,
    /// How many steps that took.
    broke: Option<usize>,
    /// What was so after each step.
    #[serde(skip)]
    trail: Vec<(Vec<Card>, Vec<Card>)>,
}

#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct PlayedStep {
    #[serde(rename = "move")]
    pub name: String,
    text: String,
    /// Whether anything has changed.
    done: bool,
    /// Where it happened, as in [`About::lanes`], and in a few words what.
    lanes: Vec<String>,
    said: String,
    /// The nodes on which a lock expired before the move, and whose it was.
    expired: Vec<(String, String)>,
    /// Whose look has changed: the name, the look, and the same in words.
    turns: Vec<(String, &'static str, String)>,
}

impl Played {
    /// Returns the first step that is not the same in another play of the same moves.
    pub fn parts(&self, other: &Played) -> Option<usize> {
        let here = self.steps.iter().zip(&self.trail);
        let there = other.steps.iter().zip(&other.trail);
        here.zip(there).position(|(here, there)| here != there)
    }
}

pub struct Player<'a>(pub &'a Script);

impl Visitor for Player<'_> {
    type Out = Played;

    fn locks<const N: usize, const C: usize, const R: usize>(self, world: World<N, C, R>) -> Played {
        let state = world.first();
        play(LockScene { world: &world, state }, self.0)
    }

    fn lists<const Z: usize, const M: usize>(self, world: Lists<Z, M>) -> Played {
        let state = world.first();
        play(ListScene { world: &world, state }, self.0)
    }
}

fn play(scene: impl Scene, script: &Script) -> Played {
    let (held, lost) = Default::default();
    let mut game = Game { scene, held, lost };
    let (mut steps, mut trail) = (Vec::new(), Vec::new());
    let mut broken = game.broken();
    let mut broke = (!broken.is_empty()).then_some(0);
    while let Some(name) = match script.moves.get(steps.len()) {
        Some(name) => Some(name.clone()),
        None if steps.len() < script.moves.len() + script.random && broke.is_none() => game.drawn(script, steps.len()),
        None => None,
    } {
        let (before, step) = (game.cards(), game.take(&name));
        let turned = |card: &Card| !before.iter().any(|was| was.name == card.name && was.look == card.look);
        let turns = game.cards().into_iter().filter(turned).map(|card| (card.name, card.look, card.text)).collect();
        steps.push(PlayedStep { turns, ..step });
        trail.push((game.scene.nodes(), game.scene.clients()));
        if broke.is_none() {
            broken = game.broken();
            broke = (!broken.is_empty()).then_some(steps.len());
        }
    }
    let (nodes, clients) = (game.scene.nodes(), game.scene.clients());
    Played { nodes, clients, open: game.open(), held: game.held, steps, broken, broke, trail }
}

struct Game<S> {
    scene: S,
    /// Clients that act on nothing, and nodes that no message reaches or leaves.
    held: BTreeSet<String>,
    /// Messages that never arrive: the name of the move, and the number.
    lost: BTreeSet<(String, u32)>,
}

impl<S: Scene> Game<S> {
    fn broken(&self) -> Vec<Breach> {
        let promises = self.scene.promises().into_iter();
        promises.filter(|(kept, _)| !kept).map(|(_, broken)| broken).collect()
    }

    fn candidates(&self) -> impl Iterator<Item = (S::Move, About)> {
        let candidates = self.scene.candidates().into_iter();
        candidates.map(|step| (step, self.scene.about(step)))
    }

    fn cards(&self) -> Vec<Card> {
        [self.scene.clients(), self.scene.nodes()].concat()
    }

    /// Returns all that can happen next, and changes something.
    fn open(&self) -> Vec<About> {
        let able = self.candidates().filter(|(step, _)| self.scene.after(*step).is_some());
        able.map(|(_, about)| about).filter(|about| !self.holds(about)).collect()
    }

    /// Reports whether the player holds the move back. The world allows that at any time.
    fn holds(&self, about: &About) -> bool {
        let asleep = about.client.as_ref().is_some_and(|client| self.held.contains(client));
        let cut = about.node.is_some_and(|node| self.held.contains(&letter(node).to_string()));
        let between = about.kind != Kind::Fault || about.client.is_some();
        (about.awake && asleep) || (between && cut) || self.lost.contains(&(about.name.clone(), about.message))
    }

    /// Does what is named, be it in the world or by the player's hand.
    fn take(&mut self, name: &str) -> PlayedStep {
        let played = |text: String, done, lanes, said: &str| {
            let (name, said) = (name.to_owned(), said.to_owned());
            PlayedStep { name, text, done, lanes, said, expired: Vec::new(), turns: Vec::new() }
        };
        if let Some((text, lanes, said)) = self.hold(name) {
            return played(text, true, lanes, &said);
        }
        let Some((step, about)) = self.candidates().find(|(_, about)| about.name == name) else {
            let text = format!("Not possible here: nothing of “{name}” is on its way.");
            return played(text, false, Vec::new(), "not possible here");
        };
        let (text, after) = (self.scene.outcome(step), self.scene.after(step));
        let expired = if after.is_some() { self.scene.expired(step) } else { Vec::new() };
        self.scene = after.unwrap_or(self.scene);
        PlayedStep { expired, ..played(text, after.is_some(), about.lanes(), about.said()) }
    }

    /// Holds something back, or no longer, if that is what is named. Returns it in words, where, and in few words.
    fn hold(&mut self, name: &str) -> Option<(String, Vec<String>, String)> {
        let (verb, what) = name.split_once('-')?;
        let cards = match verb {
            "pause" | "wake" => self.scene.clients(),
            "cut" | "join" => self.scene.nodes(),
            "drop" => {
                let (_, about) = self.candidates().find(|(_, about)| about.name == what)?;
                let (lanes, said) = (about.lanes(), format!("lost: {}", about.said()));
                self.lost.insert((about.name, about.message));
                return Some((format!("Lost: “{}” never arrives.", about.label), lanes, said));
            }
            _ => return None,
        };
        let who = cards.into_iter().map(|card| card.name).find(|n| n.replace(' ', "-") == what)?;
        let (text, said) = match verb {
            "pause" => (format!("The process of {who} stops. What it has sent may arrive."), "paused"),
            "wake" => (format!("The process of {who} goes on, and knows of no pause."), "goes on"),
            "cut" => (format!("No message reaches or leaves node {who}."), "cut off"),
            _ => (format!("Messages reach and leave node {who} again."), "connected"),
        };
        match verb {
            "pause" | "cut" => self.held.insert(who.clone()),
            _ => self.held.remove(&who),
        };
        Some((text, vec![who], said.into()))
    }

    /// Returns the move that the seed chooses as the one of this number.
    fn drawn(&self, script: &Script, number: usize) -> Option<String> {
        let weight = |about: &About| match about.kind {
            Kind::Message => 1 + 2 * (9 - script.delay.min(9)),
            Kind::Client => 6,
            Kind::Fault => 1,
        };
        let open = self.open();
        let all: u64 = open.iter().map(weight).sum();
        let mut left = random(script.seed, number as u64).checked_rem(all)?;
        let chosen = open.into_iter().find(|about| {
            let here = left < weight(about);
            left = left.saturating_sub(weight(about));
            here
        });
        chosen.map(|about| about.name)
    }
}

/// Returns the random number of this place: SplitMix64.
fn random(seed: u64, number: u64) -> u64 {
    let mut z = seed.wrapping_add((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
