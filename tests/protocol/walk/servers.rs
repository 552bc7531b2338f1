//! The nodes, and the two lists that they are in.

use fencing_protocol::{Fleet, Membership, Nonce, Reply, Request, Resource, Store, majority};

use crate::model::node::{activate, ask_as, incarnation, run_out};

/// Far above the eras in use, so that counts may be collected.
const CLOCK: u32 = 1_000_000;

struct Server {
    store: Store,
    life: u64,
    /// An older state that a crash may bring back.
    disk: Option<Store>,
    /// It has forgotten, and is not re-admitted.
    lost: bool,
}

pub struct Servers {
    servers: Vec<Server>,
    /// The old list and the new one, by number. The first is started.
    lists: [Vec<usize>; 2],
    pub fleets: [Fleet; 2],
}

impl Servers {
    pub fn new(lists: [Vec<usize>; 2]) -> Servers {
        let last = lists.iter().flatten().max().copied().unwrap_or(0);
        let fresh = |_| Server { store: Store::default(), life: 0, disk: None, lost: false };
        // Called so that they stand in a fleet in the order of their numbers.
        let fleet = |list: &Vec<usize>| Fleet::new(list.iter().map(|n| format!("n{n:02}"))).unwrap();
        let fleets = [fleet(&lists[0]), fleet(&lists[1])];
        let servers = (0..=last).map(fresh).collect();
        let mut all = Servers { servers, lists, fleets };
        for node in 0..all.nodes(0) {
            let nonce = Nonce(1);
            all.ask(0, node, &Request::Prepare { nonce, from: None });
            assert_eq!(all.ask(0, node, &activate(nonce, 1)), Reply::Activated);
        }
        all
    }

    pub fn nodes(&self, list: usize) -> usize {
        self.lists[list].len()
    }

    pub fn number(&self) -> usize {
        self.servers.len()
    }

    pub fn ask(&mut self, list: usize, node: usize, request: &Request) -> Reply {
        let number = self.lists[list][node];
        let Server { store, life, lost, .. } = &mut self.servers[number];
        let fleet = self.fleets[list].clone();
        let me = Membership { incarnation: incarnation(format!("{number}-{life}")), fleet };
        let reply = ask_as(&me, store, CLOCK, request);
        *lost &= !matches!((request, &reply), (Request::Activate { .. }, Reply::Activated));
        reply
    }

    /// Locks vanish: this stands for every clock.
    pub fn vanish(&mut self, resource: &Resource, on: impl Fn(usize) -> bool) {
        let servers = self.servers.iter_mut().enumerate();
        servers.filter(|(n, _)| on(*n)).for_each(|(_, s)| s.store.expire_lock(resource));
    }

    /// A flush, or a crash that loses everything or brings back an older state. Never more than a
    /// minority of either list has forgotten: whether it may.
    pub fn lose(&mut self, server: usize, flush: bool) -> bool {
        let few = |list: &Vec<usize>| {
            let others = list.iter().filter(|other| **other != server);
            let lost = others.filter(|other| self.servers[**other].lost).count();
            !list.contains(&server) || lost < list.len() - majority(list.len())
        };
        if !self.lists.iter().all(few) {
            return false;
        }
        let Server { store, life, disk, lost } = &mut self.servers[server];
        *lost = true;
        if flush {
            store.forget();
        } else {
            *life += 1;
            *store = disk.take().unwrap_or_default();
        }
        true
    }

    pub fn save(&mut self, server: usize) {
        self.servers[server].disk = Some(self.servers[server].store.clone());
    }

    /// Another resource's count runs out: the counts are to be collected.
    pub fn run_out(&mut self, list: usize, node: usize) {
        run_out(|request| self.ask(list, node, request));
    }
}
