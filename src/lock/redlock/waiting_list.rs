use std::collections::BTreeMap;
use std::time::Duration;

use fencing_protocol::{ClientId, Resource};
use tokio::sync::mpsc;

use crate::lock::wait::release_notifications::Notice;
use crate::time::Time;

/// Time for which only the notified client learns that the lock is free.
const HEAD_START: Duration = Duration::from_millis(50);

/// The waiters at a node in this process, by resource: what `wait.lua`, `leave.lua` and `notify.lua` do in Redis.
#[derive(Default)]
pub(super) struct WaitingList {
    /// The channel of each client that listens.
    listeners: BTreeMap<ClientId, mpsc::UnboundedSender<Notice>>,
    waiting: BTreeMap<Resource, Vec<Waiter>>,
    /// The client that was notified last, and the end of its head start.
    notified: BTreeMap<Resource, (ClientId, Time)>,
}

pub(super) struct Waiter {
    pub(super) client: ClientId,
    pub(super) ticket: u64,
    pub(super) since: Time,
}

impl WaitingList {
    /// Returns the notices to a client, until the list is gone.
    pub(super) fn listen(&mut self, client: ClientId) -> mpsc::UnboundedReceiver<Notice> {
        let (sender, notices) = mpsc::unbounded_channel();
        self.listeners.retain(|_, listener| !listener.is_closed());
        self.listeners.insert(client, sender);
        notices
    }

    /// Tells a listening client whether it may take the lock: if the lock is free, and no other client was notified.
    /// If the client may not take the lock, registers it as a waiter.
    pub(super) fn wait(&mut self, resource: &Resource, locked: bool, now: Time, waiter: Waiter) {
        let Some(listener) = self.listeners.get(&waiter.client) else { return };
        let notified = self.notified.get(resource).filter(|(_, until)| now < *until);
        let free = !locked && notified.is_none_or(|(client, _)| *client == waiter.client);
        let _ = listener.send(Notice::Registered { resource: resource.clone(), registration: waiter.ticket, free });
        if !free {
            let waiting = self.waiting.entry(resource.clone()).or_default();
            waiting.retain(|other| (other.client, other.ticket) != (waiter.client, waiter.ticket));
            let place = waiting.partition_point(|other| other.since <= waiter.since);
            waiting.insert(place, waiter);
        }
    }

    /// Removes a waiter. If it was notified and does not take the lock, the next one is notified.
    pub(super) fn leave(&mut self, resource: &Resource, locked: bool, now: Time, (client, ticket): (ClientId, u64)) {
        let waiting = self.waiting.entry(resource.clone()).or_default();
        let before = waiting.len();
        waiting.retain(|other| (other.client, other.ticket) != (client, ticket));
        let was_waiting = waiting.len() < before;
        if waiting.is_empty() {
            self.waiting.remove(resource);
        }
        let was_notified = self.notified.get(resource).is_some_and(|(other, _)| *other == client);
        if !was_waiting && was_notified && !locked {
            self.notified.remove(resource);
            self.notify(resource, now);
        }
        self.listeners.get(&client).into_iter().for_each(|it| drop(it.send(Notice::Left)));
    }

    /// Notifies the client that has waited longest, and returns it. If it is gone, the next one is notified.
    pub(super) fn notify(&mut self, resource: &Resource, now: Time) -> Option<ClientId> {
        self.notified.retain(|_, (_, until)| now < *until);
        let waiting = self.waiting.get_mut(resource)?;
        let notice = |it: &Waiter| Notice::Released { resource: resource.clone(), registration: it.ticket };
        let receives =
            |it: &Waiter| self.listeners.get(&it.client).is_some_and(|listener| listener.send(notice(it)).is_ok());
        let first = waiting.iter().position(receives);
        let client = first.and_then(|first| waiting.drain(..=first).next_back());
        if first.is_none() || waiting.is_empty() {
            self.waiting.remove(resource);
        }
        let Waiter { client, .. } = client?;
        self.notified.insert(resource.clone(), (client, now + HEAD_START));
        Some(client)
    }
}
