use std::time::Duration;

use fencing_protocol::{Fault, Resource, Token};
use futures_util::future::{BoxFuture, join_all};
use zookeeper_client::{Client, CreateMode, Error};

use super::claim::base_of;
use super::contents::LockContents;
use super::fault;
use super::paths::{ALONE, SHARED, unescaped};
use super::session::Ensemble;
use crate::holder::Holder;
use crate::lock::engine::token_base::token;
use crate::lock::operator::{LeaseRecord, Operator};

/// Time limit to connect. Each call has a session of its own.
const BUDGET: Duration = Duration::from_secs(10);
/// Longer than any server permits: the server grants its own limit.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
const PAGE: usize = 64;

impl Operator for Ensemble {
    fn leases<'a>(&'a self, after: Option<&'a Resource>, limit: u32) -> BoxFuture<'a, Result<Vec<LeaseRecord>, Fault>> {
        Box::pin(async move {
            let client = self.connect(BUDGET, BUDGET).await?;
            let folders = self.paths.child("l");
            let (synced, listed) = (client.sync(&folders), client.list_children(&folders));
            synced.await.map_err(fault::of)?;
            let names = fault::found(listed.await).map_err(fault::of)?.unwrap_or_default();
            let named = names.iter().filter_map(|name| Resource::new(unescaped(name)?).ok());
            let mut resources: Vec<_> =
                named.filter(|name| after.is_none_or(|after| name.as_str() > after.as_str())).collect();
            resources.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
            let (mut leases, mut count) = (Vec::new(), 0);
            for page in resources.chunks(PAGE) {
                for found in join_all(page.iter().map(|resource| self.read(&client, resource))).await {
                    let found = found.map_err(fault::of)?;
                    if count == limit {
                        return Ok(leases);
                    }
                    count += u32::from(!found.is_empty());
                    leases.extend(found);
                }
            }
            Ok(leases)
        })
    }

    fn leases_of<'a>(&'a self, resource: &'a Resource) -> BoxFuture<'a, Result<Vec<LeaseRecord>, Fault>> {
        Box::pin(async move {
            let client = self.connect(BUDGET, BUDGET).await?;
            let (synced, found) = (client.sync(&self.paths.lock(resource)), self.read(&client, resource));
            let read = async { synced.await.and(found.await) };
            read.await.map_err(fault::of)
        })
    }

    fn force_release<'a>(&'a self, lease: &'a LeaseRecord) -> BoxFuture<'a, Result<bool, Fault>> {
        Box::pin(async move {
            let client = self.connect(BUDGET, BUDGET).await?;
            self.end(&client, lease).await.map_err(fault::of)
        })
    }

    fn raise(&self, above: Token) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            // No client's session is longer. This one is left to time out: its `closed` node outlasts all of them.
            let client = self.connect(LONGEST, BUDGET).await?;
            self.plant(&client).await?;
            self.raise_with(&client, above).await.map_err(fault::of)
        })
    }
}

impl Ensemble {
    async fn read(&self, client: &Client, name: &Resource) -> Result<Vec<LeaseRecord>, Error> {
        let (base, folder) = (self.paths.base(), self.paths.lock(name));
        let (base, children) = (client.get_data(&base), held(client, &folder));
        let (base, children) = (base_of(base.await), fault::found(children.await));
        let (base, Some(children)) = (base?.unwrap_or(0), children?) else { return Ok(Vec::new()) };
        let mut leases = Vec::new();
        for path in children {
            // It may have been released meanwhile.
            let Some((data, stat)) = fault::found(client.get_data(&path).await)? else { continue };
            let text = String::from_utf8_lossy(&data);
            let contents = LockContents::parse(&text);
            let Ok(token) = token(base, contents.first.unwrap_or(stat.czxid)) else { continue };
            leases.push(LeaseRecord {
                resource: name.clone(),
                token,
                holder: Holder::read(contents.signature),
                shared: !path.ends_with(ALONE),
                remaining: None,
                owner: contents.owner().to_owned(),
            });
        }
        Ok(leases)
    }

    /// Ends a lease that was seen. From the first change of the folder on, its holder can't release it; while its
    /// session is there, it is not freed otherwise.
    async fn end(&self, client: &Client, lease: &LeaseRecord) -> Result<bool, Error> {
        let folder = self.paths.lock(&lease.resource);
        let persistent = CreateMode::Persistent.with_acls(self.address.acls());
        // The folder must not begin again with its first version.
        match client.create(&format!("{folder}/f"), b"", &persistent).await {
            Ok(_) | Err(Error::NodeExists) => {}
            Err(Error::NoNode) => return Ok(false),
            Err(error) => return Err(error),
        }
        let version = client.set_data(&folder, b"", None).await?.version;
        let paths = held(client, &folder).await?;
        let mut write = client.new_multi_writer();
        write.add_set_data(&folder, b"", Some(version))?;
        let mut is_there = false;
        for path in &paths {
            let Some((data, _)) = fault::found(client.get_data(path).await)? else { continue };
            let text = String::from_utf8_lossy(&data);
            let contents = LockContents::parse(&text);
            is_there |= contents.owner() == lease.owner;
            if let Some(session) = contents.session {
                write.add_check_version(&format!("{}/{session}", self.paths.child("s")), -1)?;
            }
            write.add_delete(path, None)?;
        }
        if !is_there {
            return Ok(false);
        }
        match write.commit().await.map_err(fault::of_write) {
            Ok(_) => Ok(true),
            // It was released, or its session has ended.
            Err((_, Error::NoNode | Error::BadVersion)) => Ok(false),
            Err((_, error)) => Err(error),
        }
    }

    async fn raise_with(&self, client: &Client, above: Token) -> Result<(), Error> {
        let (paths, acls) = (&self.paths, self.address.acls());
        let (closed, base) = (paths.closed(), paths.base());
        let mut write = client.new_multi_writer();
        // Replaces the `closed` node of an earlier raise, whose session may end too early.
        if client.check_stat(&closed).await?.is_some() {
            write.add_delete(&closed, None)?;
        }
        write.add_create(&closed, b"", &CreateMode::Ephemeral.with_acls(acls))?;
        write.commit().await.map_err(|error| fault::of_write(error).1)?;
        let (data, stat) = client.get_data(&base).await?;
        let raised = base_of(Ok((data, stat)))?.unwrap_or(0).max(above.get()).to_string();
        client.set_data(&base, raised.as_bytes(), Some(stat.version)).await?;
        // First the sessions: without its node, none acquires or releases.
        for folder in ["s", "l", "q"] {
            let folder = paths.child(folder);
            for name in client.list_children(&folder).await? {
                let path = format!("{folder}/{name}");
                for child in client.list_children(&path).await.unwrap_or_default() {
                    gone(client.delete(&format!("{path}/{child}"), None).await)?;
                }
                gone(client.delete(&path, None).await)?;
            }
        }
        Ok(())
    }
}

/// Lists the nodes of those who hold a lock.
async fn held(client: &Client, folder: &str) -> Result<Vec<String>, Error> {
    let mut children = client.list_children(folder).await?;
    children.retain(|child| child == ALONE || child.starts_with(SHARED));
    Ok(children.iter().map(|child| format!("{folder}/{child}")).collect())
}

/// Somebody else may have removed it, or added to it.
fn gone(deleted: Result<(), Error>) -> Result<(), Error> {
    if let Err(Error::NoNode | Error::NotEmpty) = deleted { Ok(()) } else { deleted }
}
