use std::fmt::Debug;

use serde::Serialize;

/// A world in one of its states. It can be played, step by step.
pub trait Scene: Copy {
    type Move: Copy + Debug;

    /// Returns what may be tried next. Some of it may come to nothing.
    fn candidates(&self) -> Vec<Self::Move>;

    /// Returns the scene after a candidate; `None` where it comes to nothing.
    fn after(&self, step: Self::Move) -> Option<Self>;

    fn about(&self, step: Self::Move) -> About;

    /// Returns what a node says to a candidate, if it is a request that says more than what follows.
    fn reply(&self, step: Self::Move) -> Option<String>;

    /// Says what has come of a candidate, in sentences.
    fn follows(&self, step: Self::Move, after: &Self) -> String;

    /// Returns the nodes on which a lock must have expired before a candidate, and whose it was.
    fn expired(&self, _: Self::Move) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Says what a candidate comes to.
    fn outcome(&self, step: Self::Move) -> String {
        let label = self.about(step).label;
        let mut letters = label.chars();
        let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
        let reply = self.reply(step).map_or(String::new(), |reply| format!(": {reply}"));
        let follows = match self.after(step) {
            Some(after) => self.follows(step, &after),
            None => " Nothing has changed.".into(),
        };
        format!("{first}{}{reply}.{follows}", letters.as_str())
    }

    fn nodes(&self) -> Vec<Card>;

    fn clients(&self) -> Vec<Card>;

    /// Returns what breaks a promise, and whether the state keeps it.
    fn promises(&self) -> Vec<(bool, Breach)>;
}

/// How a promise is broken, and what that means for those who lock.
pub type Breach = (&'static str, &'static str);

/// What a move is called, and whom it needs.
#[derive(Serialize)]
pub struct About {
    /// No other move has this name.
    pub name: String,
    pub kind: Kind,
    /// What the button says.
    pub label: String,
    /// Whose it is.
    #[serde(skip)]
    pub client: Option<String>,
    #[serde(skip)]
    pub node: Option<u8>,
    /// Whether the client itself must act, and not only the network.
    #[serde(skip)]
    pub awake: bool,
    /// The number of the message, if it is one.
    #[serde(skip)]
    pub message: u32,
    /// Whether the node sends it.
    #[serde(skip)]
    pub back: bool,
}

impl About {
    pub fn new(step: impl Debug, kind: Kind, label: String) -> About {
        let (name, awake) = (format!("{step:?}"), kind != Kind::Fault);
        About { name, kind, label, client: None, node: None, awake, message: 0, back: false }
    }

    /// Returns where it happens. A message goes from the first to the second.
    pub fn lanes(&self) -> Vec<String> {
        let (client, node) = (self.client.clone(), self.node.map(|node| letter(node).to_string()));
        let ends = if self.back { [node, client] } else { [client, node] };
        let lanes = ends.into_iter().flatten();
        lanes.take(if self.message == 0 { 1 } else { 2 }).collect()
    }

    /// Returns what the message says, or what happens.
    pub fn said(&self) -> &str {
        self.label.rsplit_once(": ").map_or(&self.label, |(_, said)| said)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A message on its way.
    Message,
    /// Something that a client begins.
    Client,
    /// Something that goes wrong.
    Fault,
}

#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Card {
    pub name: String,
    /// A word for the look of the card.
    pub look: &'static str,
    /// The same in words.
    pub text: String,
    pub facts: Vec<(&'static str, String)>,
}

pub fn letter(node: u8) -> char {
    char::from(b'a' + node)
}
