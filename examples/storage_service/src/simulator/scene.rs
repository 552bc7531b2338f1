use serde::Serialize;

/// A world in one of its states. It can be played, step by step.
pub trait Scene: Copy {
    type Move: Copy;

    /// Returns what may be tried next. Some of it may come to nothing.
    fn candidates(&self) -> Vec<Self::Move>;

    /// Returns the scene after a candidate; `None` where it comes to nothing.
    fn after(&self, step: Self::Move) -> Option<Self>;

    fn about(&self, step: Self::Move) -> About;

    /// Says in a sentence or two what a candidate comes to.
    fn tell(&self, step: Self::Move) -> String;

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
    pub client: Option<String>,
    pub node: Option<char>,
    /// Whether the client itself must act, and not only the network.
    #[serde(skip)]
    pub awake: bool,
    /// The number of the message, if it is one.
    #[serde(skip)]
    pub message: u32,
}

impl About {
    pub fn new(kind: Kind, verb: &str, label: String) -> About {
        let (name, awake) = (verb.to_owned(), kind != Kind::Fault);
        About { name, kind, label, client: None, node: None, awake, message: 0 }
    }

    pub fn message(verb: &str, label: String, message: u32) -> About {
        About { message, ..About::new(Kind::Message, verb, label) }
    }

    /// Makes it a move of this client, whose number becomes part of the name.
    pub fn by(mut self, client: String) -> About {
        let number = client.rsplit(' ').next().unwrap_or_default();
        self.name = format!("{}-{number}", self.name);
        About { client: Some(client), ..self }
    }

    pub fn at(mut self, node: u8) -> About {
        self.name = format!("{}-{}", self.name, letter(node));
        About { node: Some(letter(node)), ..self }
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
