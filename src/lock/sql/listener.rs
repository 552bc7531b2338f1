use std::collections::BTreeMap;
use std::time::Duration;

use fencing_protocol::{Fault, Resource};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::Pool;
use tokio::sync::{mpsc, oneshot};

use super::fault;
use crate::database::{Channels, Database};
use crate::lock::wait::listener::ReleaseListener;

/// Returns the channel on which releases of the resource are told: a hash of its name (FNV-1a), as
/// channels have short names. Two that share one cost each other a look at the row.
pub(super) fn channel(resource: &Resource) -> String {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = resource.as_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, mix);
    format!("fencing_{hash:016x}")
}

/// Opens the way on which the database tells of releases. The caller bounds the time.
pub(super) fn open<DB: Database>(
    pool: Pool<DB>,
) -> BoxFuture<'static, Result<Box<dyn ReleaseListener>, Fault>> {
    async move {
        let channels = DB::listen(pool).await.map_err(|error| fault::of_statement(&error))?;
        let (notes, orders) = mpsc::unbounded_channel();
        let (sender, told) = mpsc::unbounded_channel();
        tokio::spawn(serve(channels, orders, sender));
        let listener: Box<dyn ReleaseListener> = Box::new(ChannelListener { notes, told });
        Ok(listener)
    }
    .boxed()
}

/// The way to the task that has the connection. The task ends with it.
struct ChannelListener {
    notes: mpsc::UnboundedSender<Note>,
    told: mpsc::UnboundedReceiver<(Resource, u64)>,
}

/// An order to note that somebody waits under a ticket, or to forget it.
struct Note {
    resource: Resource,
    ticket: u64,
    waits: bool,
    done: oneshot::Sender<bool>,
}

impl ChannelListener {
    fn note(
        &self,
        resource: &Resource,
        ticket: u64,
        waits: bool,
    ) -> BoxFuture<'static, Result<bool, Fault>> {
        let (done, answer) = oneshot::channel();
        let note = Note { resource: resource.clone(), ticket, waits, done };
        let sent = self.notes.send(note);
        async move {
            let gone = || Fault::Disconnected("it is not listened to any more".into());
            sent.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())
        }
        .boxed()
    }
}

impl ReleaseListener for ChannelListener {
    fn wait(
        &mut self,
        resource: &Resource,
        ticket: u64,
        _: Duration,
    ) -> BoxFuture<'static, Result<bool, Fault>> {
        self.note(resource, ticket, true)
    }

    fn leave(&mut self, resource: &Resource, ticket: u64) -> BoxFuture<'static, Result<(), Fault>> {
        let left = self.note(resource, ticket, false);
        async move { left.await.map(drop) }.boxed()
    }

    fn notified(&mut self) -> BoxFuture<'_, Result<(Resource, u64), Fault>> {
        let gone = || Fault::Disconnected("the connection that listens broke".into());
        async move { self.told.recv().await.ok_or_else(gone) }.boxed()
    }
}

/// The tickets of those who wait, by channel and resource.
type Tickets = BTreeMap<String, BTreeMap<Resource, u64>>;

async fn serve(
    mut channels: Box<dyn Channels>,
    mut notes: mpsc::UnboundedReceiver<Note>,
    told: mpsc::UnboundedSender<(Resource, u64)>,
) {
    let mut tickets = Tickets::new();
    loop {
        let served = tokio::select! {
            biased;
            note = notes.recv() => match note {
                Some(note) => take(&mut tickets, &mut *channels, note).await,
                None => return,
            },
            channel = channels.told() => channel.map(|channel| {
                for (resource, ticket) in tickets.get(&channel).into_iter().flatten() {
                    let _ = told.send((resource.clone(), *ticket));
                }
            }),
        };
        if let Err(error) = served {
            tracing::debug!(%error, "releases are not heard");
            return;
        }
    }
}

/// Takes a note. The answer to one who waits is that the lock may be free where nobody has listened
/// before: it may have been released in between.
async fn take(tickets: &mut Tickets, channels: &mut dyn Channels, note: Note) -> sqlx::Result<()> {
    let channel = channel(&note.resource);
    let waiting = tickets.entry(channel.clone()).or_default();
    let (before, known) = (waiting.len(), waiting.get(&note.resource).copied());
    if note.waits {
        waiting.insert(note.resource, note.ticket);
    } else if known == Some(note.ticket) {
        waiting.remove(&note.resource);
    }
    let after = waiting.len();
    if after == 0 {
        tickets.remove(&channel);
    }
    if (before == 0) != (after == 0) {
        channels.listen(&channel, after > 0).await?;
    }
    let _ = note.done.send(note.waits && known != Some(note.ticket));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_stays_what_it_was() {
        // Processes of other versions tell each other.
        let of = |name| channel(&Resource::new(name).unwrap());
        assert_eq!(of("a"), "fencing_af63dc4c8601ec8c");
        assert_eq!(of("foobar"), "fencing_85944171f73967e8");
    }
}
