//! Every state of small worlds in which clients acquire two resources with one request, in different
//! orders: see docs/reliability.md. Any lock may expire before somebody asks for it.

use fencing_protocol::{Acquire, Mode, NonEmpty, Owner, Reply, Request, Store, Time, Token, Won};
use stateright::{Model, Property};

use crate::model::check::search;
use crate::model::node::{acquire, ask, attempt, named, owner, started};
use crate::model::runs::long;

const NODES: usize = 3;

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// Nodes say that they have published, and have not.
    NoPublish,
    /// A node grants those that are free, and the client takes each grant for itself.
    GrantsSome,
}

struct World {
    /// Which resources each client asks for.
    lists: Vec<Vec<&'static str>>,
    mutant: Option<Mutant>,
    /// Locks may expire at any moment.
    expiry: bool,
    /// How many nodes may forget.
    losses: u8,
    /// Nodes whose count of the first resource is one ahead.
    ahead: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    nodes: Vec<Store>,
    clients: Vec<Client>,
    /// Whether a node may still forget.
    losses: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Client {
    machine: Option<Acquire>,
    /// The largest tokens that had been returned when it began, by resource.
    floor: Vec<u64>,
    /// Its own, once all are won, by resource; zero for none.
    tokens: Vec<u64>,
    /// What is on its way to each node, and back.
    asked: Vec<Option<Request>>,
    answered: Vec<Option<Reply>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// A client asks for its list.
    Begin { client: usize },
    /// A node executes a request. What others hold in its way has expired, or not.
    Run { client: usize, node: usize, expired: bool },
    /// An answer reaches the client.
    Deliver { client: usize, node: usize },
    /// A server loses its data and goes on.
    Flush { node: usize },
}

const NAMES: [&str; 3] = ["a", "b", "c"];

impl World {
    fn new(lists: &[&[&'static str]]) -> World {
        let lists = lists.iter().map(|list| list.to_vec()).collect();
        World { lists, mutant: None, expiry: true, losses: 0, ahead: Vec::new() }
    }

    fn machine(&self, client: usize) -> Acquire {
        let owner = owner(client as u8);
        let attempt = |name: &&str| attempt(named(name), owner, Mode::Exclusive);
        let attempts = NonEmpty::collect(self.lists[client].iter().map(attempt)).unwrap();
        Acquire::new(NODES, attempts, Time::default())
    }

    /// A node executes a request, with a rule left out perhaps.
    fn answer(&self, store: &mut Store, request: &Request) -> Reply {
        let parts = request.parts();
        match (self.mutant, &parts[0]) {
            (Some(Mutant::NoPublish), Request::Publish { .. }) => match parts.len() {
                1 => Reply::Published,
                several => Reply::Several(vec![Reply::Published; several]),
            },
            (Some(Mutant::GrantsSome), Request::Acquire { .. }) if parts.len() > 1 => {
                Reply::Several(parts.iter().map(|part| ask(store, 0, 0, part)).collect())
            }
            _ => ask(store, 0, 0, request),
        }
    }

    fn send(client: &mut Client) {
        let Some(machine) = &mut client.machine else { return };
        while let Some((node, request)) = machine.next_request() {
            client.asked[node] = Some(request);
        }
    }

    fn note(&self, state: &mut State, client: usize) {
        let names = &self.lists[client];
        let client = &mut state.clients[client];
        let Some(machine) = &client.machine else { return };
        let now = Time::default();
        if let Some(Ok(Won { locks, .. })) = machine.outcome(now)
            && client.tokens.iter().all(|token| *token == 0)
        {
            for (name, (_, token)) in names.iter().zip(locks) {
                client.tokens[place(name)] = Token::get(token);
            }
        }
    }
}

fn place(name: &str) -> usize {
    NAMES.iter().position(|known| *known == name).unwrap()
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut nodes = vec![started(1); NODES];
        for node in &self.ahead {
            let (resource, owner) = (named("a"), Owner(77));
            ask(&mut nodes[*node], 0, 0, &acquire(resource.clone(), owner));
            ask(&mut nodes[*node], 0, 0, &Request::Release { resource, owner });
        }
        let client = Client {
            machine: None,
            floor: vec![0; NAMES.len()],
            tokens: vec![0; NAMES.len()],
            asked: vec![None; NODES],
            answered: vec![None; NODES],
        };
        vec![State { nodes, clients: vec![client; self.lists.len()], losses: self.losses }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (number, client) in state.clients.iter().enumerate() {
            if client.machine.is_none() {
                actions.push(Action::Begin { client: number });
            }
            for node in 0..NODES {
                if client.asked[node].is_some() {
                    actions.push(Action::Run { client: number, node, expired: false });
                    if self.expiry {
                        actions.push(Action::Run { client: number, node, expired: true });
                    }
                }
                if client.answered[node].is_some() {
                    actions.push(Action::Deliver { client: number, node });
                }
            }
        }
        if state.losses > 0 {
            actions.extend((0..NODES).map(|node| Action::Flush { node }));
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Begin { client } => {
                // All attempts are alike where they ask for the same.
                let highest = |place| state.clients.iter().map(|c: &Client| c.tokens[place]).max();
                let floor = (0..NAMES.len()).map(|place| highest(place).unwrap_or(0)).collect();
                state.clients[client].floor = floor;
                state.clients[client].machine = Some(self.machine(client));
                World::send(&mut state.clients[client]);
            }
            Action::Run { client, node, expired } => {
                let request = state.clients[client].asked[node].take()?;
                if expired {
                    let before = state.nodes[node].clone();
                    self.lists[client]
                        .iter()
                        .for_each(|name| state.nodes[node].expire_lock(&named(name)));
                    if before == state.nodes[node] {
                        return None;
                    }
                }
                let reply = self.answer(&mut state.nodes[node], &request);
                state.clients[client].answered[node] = Some(reply);
            }
            Action::Deliver { client, node } => {
                let reply = state.clients[client].answered[node].take()?;
                let one = &mut state.clients[client];
                one.machine.as_mut()?.on_reply(node, Ok(reply));
                World::send(one);
                self.note(&mut state, client);
            }
            Action::Flush { node } => {
                state.nodes[node].forget();
                state.losses -= 1;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<World>> {
        let mut properties = vec![
            Property::<World>::always("I1: no token twice", |_, state| {
                (0..NAMES.len()).all(|place| {
                    let tokens = state.clients.iter().map(|client| client.tokens[place]);
                    let mut tokens: Vec<u64> = tokens.filter(|token| *token > 0).collect();
                    tokens.sort_unstable();
                    tokens.windows(2).all(|pair| pair[0] != pair[1])
                })
            }),
            Property::<World>::always("I2: larger than what was returned", |_, state| {
                state.clients.iter().all(|client| {
                    let mut pairs = client.tokens.iter().zip(&client.floor);
                    pairs.all(|(token, floor)| *token == 0 || token > floor)
                })
            }),
            Property::<World>::sometimes("each client gets all of its list", |world, state| {
                let mut lists = state.clients.iter().zip(&world.lists);
                let has = |client: &Client, name: &&str| client.tokens[place(name)] > 0;
                !world.expiry || lists.all(|(client, list)| list.iter().all(|it| has(client, it)))
            }),
        ];
        if !self.expiry {
            properties.push(Property::<World>::always("one holds a lock at a time", |_, state| {
                let held =
                    |place: usize| state.clients.iter().filter(move |it| it.tokens[place] > 0);
                (0..NAMES.len()).all(|place| held(place).count() <= 1)
            }));
        }
        if !self.ahead.is_empty() {
            properties.push(Property::<World>::sometimes("a publish was needed", |_, state| {
                let mut asked =
                    state.clients.iter().flat_map(|client| client.asked.iter().flatten());
                asked.any(|request| matches!(request.parts()[0], Request::Publish { .. }))
            }));
        }
        properties
    }
}

const REVERSED: &[&[&str]] = &[&["a", "b"], &["b", "a"]];

#[test]
fn two_clients_with_reversed_lists() {
    search("reversed lists", World::new(REVERSED), None);
    let ahead = World { ahead: vec![0], ..World::new(REVERSED) };
    search("reversed lists, counts apart", ahead, None);
}

#[test]
fn lists_that_overlap() {
    let one = World { ahead: vec![0], ..World::new(&[&["a", "b"], &["a"]]) };
    search("a list and one of its resources", one, None);
}

/// Deeper with `FENCING_MODEL_STATES`.
#[test]
fn two_clients_and_a_node_that_forgets() {
    let states = long().unwrap_or(150_000);
    let world = World { ahead: vec![0], losses: 1, ..World::new(REVERSED) };
    search("reversed lists and a loss", world, Some(states));
    let world = World { ahead: vec![1], losses: 1, ..World::new(&[&["a", "b"], &["b", "c"]]) };
    search("overlapping lists and a loss", world, Some(states));
}

/// Without an expiry and a loss nobody gets what another has.
#[test]
fn no_two_hold_one_lock() {
    search("no expiry", World { expiry: false, ..World::new(REVERSED) }, None);
}

/// The control: a search that could not find this would show nothing.
#[test]
fn a_rule_that_is_left_out_is_found() {
    let mutant = Some(Mutant::NoPublish);
    let world = World { ahead: vec![0], mutant, ..World::new(REVERSED) };
    let found = std::panic::catch_unwind(|| search("without the publish", world, None));
    assert!(found.is_err());
}

/// That a node grants all or none costs fewer attempts, and no order depends on it.
#[test]
fn a_node_that_grants_some_breaks_no_order() {
    let mutant = Some(Mutant::GrantsSome);
    let world = World { ahead: vec![0], mutant, ..World::new(&[&["a", "b"], &["a"]]) };
    search("a node that grants some", world, None);
}
