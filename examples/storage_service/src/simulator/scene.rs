use serde::Serialize;

/// A world that can be played, step by step.
pub trait Scene {
    type State: Copy;
    type Move: Copy + PartialEq;

    fn first(&self) -> Self::State;

    /// Returns what may be tried next. Some of it may come to nothing.
    fn candidates(&self, state: &Self::State) -> Vec<Self::Move>;

    /// Returns the state after a candidate; `None` where it comes to nothing.
    fn step(&self, state: &Self::State, step: Self::Move) -> Option<Self::State>;

    /// Returns the name of a move, which no other move has.
    fn name(&self, step: Self::Move) -> String;

    fn about(&self, state: &Self::State, step: Self::Move) -> About;

    /// Says in a sentence or two what a candidate came to.
    fn tell(&self, before: &Self::State, step: Self::Move) -> String;

    fn nodes(&self, state: &Self::State) -> Vec<Card>;

    fn clients(&self, state: &Self::State) -> Vec<Card>;

    /// Returns the promises that are broken.
    fn broken(&self, state: &Self::State) -> Vec<&'static str>;
}

/// What kind of move it is, and whom it needs.
pub struct About {
    pub kind: Kind,
    /// What the button says.
    pub label: String,
    /// Whose it is.
    pub client: Option<String>,
    pub node: Option<u8>,
    /// Whether the client itself must act, and not only the network.
    pub awake: bool,
    /// The number of the message, if it is one.
    pub message: u32,
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

/// A node or a client, as it stands.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Card {
    pub name: String,
    /// A word for the look of the card.
    pub look: &'static str,
    /// The same in words.
    pub text: String,
    pub facts: Vec<(&'static str, String)>,
}

/// Returns the letter of a node.
pub fn letter(node: u8) -> char {
    char::from(b'a' + node)
}
