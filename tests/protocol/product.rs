//! To acquire several resources is an attempt for each: docs/assurance/proof.md, "Several at once". Random walks run it
//! beside single attempts with the same answers, and nodes beside nodes that run each part of a request by itself.

use std::collections::BTreeMap;

use fencing_protocol::{Acquire, Machine, Mode, NonEmpty, Owner, Reply, Request, Resource, Stamp, Store, Time, Won};

use crate::model::node::{acquire, ask, attempt, named, owner, started};

const NODES: usize = 3;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// A node, and the same node where each part came by itself.
struct Node {
    together: Store,
    apart: Store,
}

/// An attempt, and an attempt for each of its resources.
struct Client {
    all: Acquire,
    each: Vec<Acquire>,
    asked: Vec<Option<Request>>,
    answered: Vec<Option<Reply>>,
}

#[derive(Default)]
struct Seen {
    won: usize,
    lost: usize,
    refused: usize,
    larger_eras: usize,
}

/// The resource that one part of a request speaks of.
fn of(part: &Request) -> &Resource {
    match part {
        Request::Acquire { resource, .. } | Request::Publish { resource, .. } => resource,
        other => panic!("{other:?}"),
    }
}

/// A node in this era, with some counts.
fn node(era: u64, counts: [u8; 3]) -> Node {
    let mut store = started(era);
    for (name, count) in NAMES.iter().zip(counts) {
        for _ in 0..count {
            next_grant(&mut store, name);
        }
        store.expire_lock(&named(name));
    }
    Node { together: store.clone(), apart: store }
}

fn next_grant(store: &mut Store, name: &str) -> Stamp {
    let resource = named(name);
    store.expire_lock(&resource);
    let acquire = acquire(resource, Owner(77));
    let Reply::Granted { stamp, .. } = ask(store, 0, 0, &acquire) else { panic!("no grant") };
    stamp
}

impl Node {
    /// Executes the request, and each part by itself: all of them, or none.
    fn answer(&mut self, request: &Request, seen: &mut Seen) -> Reply {
        let reply = ask(&mut self.together, 0, 0, request);
        let replies = reply.parts();
        let refused = |reply: &Reply| matches!(reply, Reply::Held { .. } | Reply::Free);
        if replies.iter().any(refused) {
            assert!(replies.iter().all(refused), "{replies:?}");
            seen.refused += 1;
        } else {
            let one = |part: &Request| self.one(part, seen);
            assert_eq!(request.parts().iter().map(one).collect::<Vec<_>>(), replies);
        }
        assert_eq!(self.together, self.apart, "after {request:?}");
        reply
    }

    /// Executes one part. To the other resources it does nothing, or it raises the era.
    fn one(&mut self, part: &Request, seen: &mut Seen) -> Reply {
        let other = |name: &&&str| *of(part) != named(name);
        let before: Vec<_> = NAMES.iter().filter(other).map(|name| self.look(name)).collect();
        let reply = ask(&mut self.apart, 0, 0, part);
        for (name, (locked, next)) in NAMES.iter().filter(other).zip(before) {
            let (still, now) = self.look(name);
            assert_eq!(still, locked);
            if now.era > next.era {
                assert_eq!(now.count, 1);
                seen.larger_eras += 1;
            } else {
                assert_eq!(now, next);
            }
        }
        reply
    }

    fn look(&self, name: &str) -> (bool, Stamp) {
        let locked = self.apart.is_locked(&named(name), Time::default());
        (locked, next_grant(&mut self.apart.clone(), name))
    }
}

impl Client {
    fn new(number: u8, names: &[&str]) -> Client {
        let attempt = attempt(owner(number), Mode::Exclusive);
        let resources = NonEmpty::collect(names.iter().map(|name| named(name))).unwrap();
        let acquire = |resources| Acquire::new(NODES, attempt, resources, Time::default());
        let each = resources.iter().map(|it| acquire(NonEmpty::new(it.clone()))).collect();
        let (asked, answered) = (vec![None; NODES], vec![None; NODES]);
        let mut client = Client { all: acquire(resources), each, asked, answered };
        client.send();
        client
    }

    /// Sends what the attempt has for the nodes: all that the single attempts have, and nothing else.
    fn send(&mut self) {
        let mut wanted = BTreeMap::<usize, Vec<Request>>::new();
        for one in &mut self.each {
            while let Some((to, request)) = one.next_request() {
                wanted.entry(to.node).or_default().push(request);
            }
        }
        while let Some((to, request)) = self.all.next_request() {
            assert_eq!(wanted.remove(&to.node).map(Request::together).as_ref(), Some(&request));
            self.asked[to.node] = Some(request);
        }
        assert!(wanted.is_empty(), "{wanted:?}");
    }

    /// Each single attempt that has asked is given its part of the answer.
    fn take(&mut self, node: usize, reply: Reply, parts: &[usize]) {
        for (part, reply) in parts.iter().zip(reply.parts()) {
            self.each[*part].on_reply(node.into(), Ok(reply.clone()));
        }
        self.all.on_reply(node.into(), Ok(reply));
        self.send();
    }

    /// Won when each is won, with their tokens; lost when one is lost.
    fn outcome(&self) -> Option<bool> {
        let each: Vec<_> = self.each.iter().map(|one| one.outcome(Time::default())).collect();
        let token = |one: &Option<Result<Won, _>>| Some(one.as_ref()?.as_ref().ok()?.locks.head.1);
        let tokens: Option<Vec<_>> = each.iter().map(token).collect();
        let lost = |one: &Result<Won, _>| one.is_err();
        match self.all.outcome(Time::default()) {
            Some(Ok(Won { locks, .. })) => {
                let all = locks.into_iter().map(|(_, token)| token).collect();
                assert_eq!(tokens, Some(all));
            }
            Some(_) => assert!(each.iter().flatten().any(lost)),
            None => assert!(tokens.is_none() && !each.iter().flatten().any(lost)),
        }
        self.all.outcome(Time::default()).map(|_| tokens.is_some())
    }
}

/// The places of the resources that the parts of a request speak of.
fn places(request: &Request, names: &[&str]) -> Vec<usize> {
    let place = |part: &Request| names.iter().position(|name| *of(part) == named(name));
    request.parts().iter().map(|part| place(part).unwrap()).collect()
}

fn walk(seed: u64, seen: &mut Seen) {
    let mut random = fastrand::Rng::with_seed(seed);
    let counts = |random: &mut fastrand::Rng| [0; 3].map(|_: u8| random.u8(0..3));
    let mut nodes: Vec<Node> = (0..NODES).map(|_| node(random.u64(1..4), counts(&mut random))).collect();
    let lists = [&["a", "b"][..], &["b", "c"], &["a", "b", "c"], &["c"]];
    let mut clients: Vec<Client> = (0..).zip(lists).map(|(number, names)| Client::new(number, names)).collect();
    let mut parts = vec![vec![Vec::new(); NODES]; clients.len()];
    for _ in 0..80 {
        let (number, at) = (random.usize(0..clients.len()), random.usize(0..NODES));
        let client = &mut clients[number];
        if random.u8(0..10) == 0 {
            let gone = named(NAMES[random.usize(0..NAMES.len())]);
            nodes[at].together.expire_lock(&gone);
            nodes[at].apart.expire_lock(&gone);
        } else if let Some(reply) = client.answered[at].take() {
            client.take(at, reply, &parts[number][at]);
            client.outcome();
        } else if let Some(request) = client.asked[at].take() {
            parts[number][at] = places(&request, lists[number]);
            client.answered[at] = Some(nodes[at].answer(&request, seen));
        }
    }
    for client in &clients {
        match client.outcome() {
            Some(true) => seen.won += 1,
            Some(false) => seen.lost += 1,
            None => {}
        }
    }
}

#[test]
fn several_are_acquired_as_each_would_be() {
    let mut seen = Seen::default();
    (0..2000).for_each(|seed| walk(seed, &mut seen));
    let Seen { won, lost, refused, larger_eras } = seen;
    println!("{won} won, {lost} lost, {refused} requests refused, {larger_eras} larger eras");
    assert!(won.min(lost).min(refused).min(larger_eras) > 0);
}
