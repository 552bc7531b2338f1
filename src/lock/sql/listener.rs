use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fencing_protocol::{Fault, Resource};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use sqlx::Pool;

use super::fault;
use crate::database::Database;
use crate::lock::wait::release_notifications::{Notice, ReleaseListener};

/// Opens a connection that receives notifications of releases. The caller bounds the time.
pub(super) fn open<DB: Database>(pool: Pool<DB>) -> BoxFuture<'static, Result<Box<dyn ReleaseListener>, Fault>> {
    async move {
        let released = DB::listen(pool).await.map_err(fault::of_statement)?;
        let (registrations, answers) = Default::default();
        Ok(Box::new(DatabaseListener { released, registrations, answers }) as Box<dyn ReleaseListener>)
    }
    .boxed()
}

/// A connection that hears of every release in the database.
struct DatabaseListener {
    released: BoxStream<'static, sqlx::Result<String>>,
    registrations: BTreeMap<Resource, u64>,
    answers: VecDeque<Notice>,
}

impl ReleaseListener for DatabaseListener {
    fn wait(&mut self, resource: &Resource, registration: u64, _: Duration) {
        let known = self.registrations.insert(resource.clone(), registration);
        // It may have been released before it was registered here.
        let free = known != Some(registration);
        self.answers.push_back(Notice::Registered { resource: resource.clone(), registration, free });
    }

    fn leave(&mut self, resource: &Resource, registration: u64) {
        if self.registrations.get(resource) == Some(&registration) {
            self.registrations.remove(resource);
        }
        self.answers.push_back(Notice::Left);
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Notice, Fault>> {
        async {
            if let Some(answer) = self.answers.pop_front() {
                return Ok(answer);
            }
            while let Some(name) = self.released.next().await {
                let Ok(resource) = Resource::new(name.map_err(fault::of_statement)?) else { continue };
                if let Some(&registration) = self.registrations.get(&resource) {
                    return Ok(Notice::Released { resource, registration });
                }
            }
            Err(Fault::Disconnected("the database sends no more notifications".into()))
        }
        .boxed()
    }
}
