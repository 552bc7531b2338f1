use std::collections::HashMap;
use std::iter::once;
use std::sync::Arc;

use bytes::Bytes;
use fencing_protocol::{Resource, Token};
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt, TryStreamExt};
use object_store::path::{Path, PathPart};
use object_store::{
    Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload, UpdateVersion,
    WriteMultipart, collect_bytes,
};
use parking_lot::Mutex;

use super::head::{self, FOLDER, Head, Location, MAX_HEAD};
use super::write::{Halt, Next, ObjectState, Write, probe, put_if};
use super::{ObjectError, PathCause};
use crate::fence::Stale;
use crate::log_throttle::LogThrottle;
use crate::random;

/// How many objects' versions are remembered, at most.
const REMEMBERED: usize = 10_000;

/// How much of an object is read: its head, or all of it.
const HEAD: Option<GetRange> = Some(GetRange::Bounded(0..MAX_HEAD as u64));
const WHOLE: Option<GetRange> = None;

/// How many heads are read at one time to list objects.
const READ_AT_ONCE: usize = 16;

/// The size of a part of a stream, in bytes, and how many are sent at one time.
const PART: usize = 8 << 20;
const PARTS_AT_ONCE: usize = 4;

type Known = ObjectState<UpdateVersion>;

/// Objects of one store, each of which accepts no write with a token lower than the highest it has seen.
///
/// A clone shares the store and the remembered versions. All clients of an object must write through a fence, and by the
/// same path: the contents of streams are found from the root of the store, so that a `PrefixStore` has objects of its
/// own, which a fence without the prefix cannot read.
///
/// **Cost.** A put is one request if this fence wrote the object last, and two otherwise: a read of the head comes
/// first. Each object is some 60 bytes longer.
///
/// **Time limits** are those of the store's client: see `ClientOptions` and `RetryConfig` of `object_store`.
///
/// **Cancellation.** Drop a future at any time: a write whose request was sent may still be applied, as with
/// [`ObjectError::InDoubt`]. No newer write is ever undone by it.
#[derive(Clone, derive_more::Debug)]
pub struct ObjectFence {
    store: Arc<dyn ObjectStore>,
    #[debug(skip)]
    known: Arc<Mutex<HashMap<Path, Known>>>,
    #[debug(skip)]
    stale: Arc<Mutex<LogThrottle>>,
}

/// What a write makes of an object.
enum Edit {
    /// New contents behind the head, none, or contents elsewhere.
    To(Location, PutPayload),
    /// The contents stay.
    Claim,
}

impl ObjectFence {
    /// Opens a fence on a store, and tests by five requests on an object below `.fencing` that the store keeps to
    /// conditions. Some stores take the headers and ignore them.
    ///
    /// # Errors
    /// [`ObjectError::Unconditional`] if the store ignores conditions, [`ObjectError::Store`] if it fails or has none.
    pub async fn open(store: Arc<dyn ObjectStore>) -> Result<ObjectFence, ObjectError> {
        probe(&*store).await?;
        Ok(ObjectFence { store, known: Arc::default(), stale: Arc::default() })
    }

    /// Raises the mark of an object to this token, and leaves the contents as they are. Make it the first act of a new
    /// holder, before it reads: until then a late older write is accepted. An object that does not exist gets a mark.
    ///
    /// It writes the contents once more, except those of a stream. If this fence has written under this token before, it
    /// sends nothing, and finds no newer token either.
    ///
    /// # Errors
    /// [`ObjectError::Stale`] if the object has a newer token.
    pub async fn claim(&self, path: &Path, token: Token) -> Result<(), ObjectError> {
        self.write(path, token, Edit::Claim).await
    }

    /// Writes an object. A holder may write it many times with one token; which of two concurrent writes wins is open.
    ///
    /// # Errors
    /// [`ObjectError::Stale`] if the object has a newer token; [`ObjectError::InDoubt`] if it may have been applied.
    pub async fn put(&self, path: &Path, token: Token, contents: PutPayload) -> Result<(), ObjectError> {
        self.write(path, token, Edit::To(Location::Here, contents)).await
    }

    /// Writes an object from a stream, in parts of 8 MiB to a path of its own, at which the object then points. Until it
    /// ends, the object is as it was. S3 and Google Cloud take 10,000 parts, which are 78 GiB, and Azure 50,000.
    ///
    /// Parts that were sent before the future was dropped, or before one of the last parts failed, stay at the store,
    /// until its rule for incomplete uploads removes them.
    ///
    /// # Errors
    /// As [`put`](Self::put), and [`ObjectError::Contents`] if the stream fails.
    pub async fn put_stream<S, E>(&self, path: &Path, token: Token, contents: S) -> Result<(), ObjectError>
    where
        S: Stream<Item = Result<Bytes, E>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // The contents of a stale one must not be sent.
        let resource = resource(path)?;
        let state = self.read(path, HEAD).await?.map(|(state, _)| state);
        if let Err(stale) = Stale::check(&resource, token, state.as_ref().map(|state| state.token)) {
            return self.note(Err(stale.into()));
        }
        let body = head::body(path, token, random::u128());
        let mut upload = WriteMultipart::new_with_chunk_size(self.store.put_multipart(&body).await?, PART);
        if let Err(error) = send_parts(path, &mut upload, contents).await {
            if let Err(error) = upload.abort().await {
                tracing::debug!(%body, %error, "an incomplete upload could not be aborted");
            }
            return Err(error);
        }
        upload.finish().await?;
        self.remember(path, state);
        // If this fails, the contents must stay: a claim may have taken over a head that points at them.
        self.write(path, token, Edit::To(Location::At(body), PutPayload::new())).await
    }

    /// Reads an object. It needs no token; claim the object first if what you read decides what you write.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`] if there is no such object, or if it is deleted.
    pub async fn get(&self, path: &Path) -> Result<Bytes, ObjectError> {
        let (contents, length) = self.open_contents(path).await?;
        collect_bytes(contents, Some(length)).await
    }

    /// Reads an object piece by piece, such as one of [`put_stream`](Self::put_stream).
    ///
    /// # Errors
    /// As [`get`](Self::get). The stream ends with an error if the store fails.
    pub async fn get_stream(&self, path: &Path) -> Result<BoxStream<'static, Result<Bytes, ObjectError>>, ObjectError> {
        Ok(self.open_contents(path).await?.0)
    }

    /// Returns the contents of an object, and their length.
    async fn open_contents(
        &self,
        path: &Path,
    ) -> Result<(BoxStream<'static, Result<Bytes, ObjectError>>, u64), ObjectError> {
        resource(path)?;
        let absent = || ObjectError::NotFound { path: path.clone() };
        let mut last = None;
        loop {
            let (state, object) = self.read(path, WHOLE).await?.ok_or_else(absent)?;
            match object.location {
                Location::Here => {
                    let length = object.contents.len() as u64;
                    return Ok((stream::once(async { Ok(object.contents) }).boxed(), length));
                }
                Location::Gone => return Err(absent()),
                Location::At(body) => match self.store.get(&body).await {
                    // A newer write may have replaced it meanwhile.
                    Err(Error::NotFound { .. }) if last.replace(state.nonce) != Some(state.nonce) => {}
                    found => {
                        let found = found?;
                        let length = found.range.end - found.range.start;
                        return Ok((found.into_stream().map_err(ObjectError::from).boxed(), length));
                    }
                },
            }
        }
    }

    /// Deletes an object: what is left is its head, which keeps the token. It stays for good, since no store has a
    /// conditional deletion: whatever removed it could remove a newer object.
    ///
    /// # Errors
    /// As [`put`](Self::put). It is no error if there is no such object.
    pub async fn delete(&self, path: &Path, token: Token) -> Result<(), ObjectError> {
        self.write(path, token, Edit::To(Location::Gone, PutPayload::new())).await
    }

    /// Lists the objects below a prefix that are not deleted, in no order. It reads the head of each that has at most
    /// 1,024 bytes: a larger one is listed, also if it was written without the fence.
    ///
    /// # Errors
    /// [`ObjectError::NotFenced`] for each of at most 1,024 bytes that was written without the fence; the list goes on.
    pub fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<Path, ObjectError>> {
        let fence = self.clone();
        let found = self.store.list(prefix).map_err(ObjectError::from);
        let own = Path::from(FOLDER);
        let found = found.try_filter(move |found| std::future::ready(!found.location.prefix_matches(&own)));
        let read = found.map(move |found| {
            let fence = fence.clone();
            async move { fence.present(found?).await }
        });
        read.buffer_unordered(READ_AT_ONCE).filter_map(|found| std::future::ready(found.transpose())).boxed()
    }

    /// Deletes contents of streams at which no object points any more, below a prefix, and returns how many. Call it
    /// now and then; it takes a list of `.fencing`, and a read for each object that has contents there.
    ///
    /// It is safe at any time, beside any writer. It deletes contents whose token is *lower* than that of the object's
    /// head, unless the head points at them. No write under such a token can be applied any more, so no head will ever
    /// point at them. Leftovers of a failed write under the newest token stay until a later token has written.
    ///
    /// # Errors
    /// [`ObjectError::Store`] if the store fails. What was deleted stays deleted; call it again.
    pub async fn sweep(&self, prefix: Option<&Path>) -> Result<u64, ObjectError> {
        let below: Path = once(PathPart::from(FOLDER)).chain(prefix.into_iter().flat_map(Path::parts)).collect();
        let mut bodies = self.store.list(Some(&below));
        // Of the object whose contents came last: they mostly come one behind the other.
        let mut head: Option<(Path, Option<(Token, Location)>)> = None;
        let mut deleted = 0;
        while let Some(body) = bodies.try_next().await? {
            let Some((path, token)) = head::owner(&body.location) else { continue };
            if head.as_ref().is_none_or(|(last, _)| *last != path) {
                let read = match self.read(&path, HEAD).await {
                    Ok(read) => read.map(|(state, object)| (state.token, object.location)),
                    // Written without the fence: nothing is known of its token.
                    Err(ObjectError::NotFenced { .. }) => None,
                    Err(error) => return Err(error),
                };
                head = Some((path, read));
            }
            if let Some((_, Some((newest, location)))) = &head
                && token < *newest
                // The file name has its own nonce and is enough; the folder may differ, as a store may list another
                // path than it was given: Azure makes `a/b` of `a\b`.
                && !matches!(location, Location::At(path) if path.filename() == body.location.filename())
            {
                self.store.delete(&body.location).await?;
                deleted += 1;
            }
        }
        Ok(deleted)
    }

    /// Returns the path of a listed object, and none if it is deleted.
    async fn present(&self, found: ObjectMeta) -> Result<Option<Path>, ObjectError> {
        // Too long for a head alone.
        if found.size > MAX_HEAD as u64 {
            return Ok(Some(found.location));
        }
        let read = self.read(&found.location, HEAD).await?;
        Ok(read.is_some_and(|(_, object)| object.location != Location::Gone).then_some(found.location))
    }

    async fn write(&self, path: &Path, token: Token, edit: Edit) -> Result<(), ObjectError> {
        self.note(self.try_write(path, token, edit).await)
    }

    async fn try_write(&self, path: &Path, token: Token, edit: Edit) -> Result<(), ObjectError> {
        let claims = matches!(edit, Edit::Claim);
        let mut write = Write::new(resource(path)?, token, random::u128(), claims);
        // Forgotten until the answer is there: a write that is dropped in between is in doubt.
        let mut known = self.known.lock().remove(path);
        // Whether a request was refused: it may have been the repetition of one that was applied.
        let mut sent = false;
        loop {
            let (state, object) = match known.take() {
                Some(state) => (Some(state), None),
                None => match self.read(path, if claims { WHOLE } else { HEAD }).await {
                    Err(ObjectError::Store(source)) if sent => return Err(ObjectError::sent(path, source, sent)),
                    found => found?.unzip(),
                },
            };
            let next = write.judge(state.as_ref());
            if next != Ok(Next::Send) {
                // No request was sent, and a token never goes down: the version may still be the last.
                self.remember(path, state);
                return next.map(|_| ()).map_err(|halt| match halt {
                    Halt::Stale(stale) => stale.into(),
                    Halt::Contended => ObjectError::Contended { path: path.clone() },
                });
            }
            let (location, contents) = match (&edit, object) {
                (Edit::To(location, contents), _) => (location.clone(), contents.clone()),
                (Edit::Claim, Some(object)) => (object.location, object.contents.into()),
                // A version from memory: the contents that the claim keeps have to be read.
                (Edit::Claim, None) if state.is_some() => continue,
                (Edit::Claim, None) => (Location::Gone, PutPayload::new()),
            };
            let head = Head { token, nonce: write.nonce, location };
            let object = once(Bytes::from(head.line())).chain(contents).collect();
            let mode = state.map_or(PutMode::Create, |state| PutMode::Update(state.version));
            match put_if(&*self.store, path, object, mode).await {
                Ok(Some(version)) => {
                    self.remember(path, Some(ObjectState { version, token, nonce: write.nonce }));
                    return Ok(());
                }
                // Another write came before, or this one did and was repeated: the next read tells.
                Ok(None) => sent = true,
                Err(source) => return Err(ObjectError::sent(path, source, sent)),
            }
        }
    }

    /// Reads the state of an object, and none if it does not exist.
    async fn read(&self, path: &Path, range: Option<GetRange>) -> Result<Option<(Known, FoundObject)>, ObjectError> {
        let found = match self.store.get_opts(path, GetOptions { range, ..GetOptions::default() }).await {
            Err(Error::NotFound { .. }) => return Ok(None),
            // An empty object has no range that could be read.
            Err(error @ Error::Generic { .. }) => match self.store.head(path).await {
                Ok(meta) if meta.size == 0 => return Err(ObjectError::NotFenced { path: path.clone() }),
                _ => return Err(error.into()),
            },
            found => found?,
        };
        let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        let object = found.bytes().await?;
        let not_fenced = || ObjectError::NotFenced { path: path.clone() };
        let (head, length) = Head::parse(&object).ok_or_else(not_fenced)?;
        let Head { token, nonce, location } = head;
        Ok(Some((ObjectState { version, token, nonce }, FoundObject { location, contents: object.slice(length..) })))
    }

    fn remember(&self, path: &Path, state: Option<Known>) {
        let mut known = self.known.lock();
        // Each that is forgotten costs one read.
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.extend(state.map(|state| (path.clone(), state)));
    }

    /// Counts how a write ended, and logs stale ones, every ten seconds at most.
    fn note(&self, written: Result<(), ObjectError>) -> Result<(), ObjectError> {
        let outcome = written.as_ref().map_or_else(ObjectError::label, |()| "admitted");
        metrics::counter!("fencing_admissions_total", "layer" => "object", "outcome" => outcome).increment(1);
        if let Err(error @ ObjectError::Stale(_)) = &written {
            match self.stale.lock().next() {
                Some(suppressed) => tracing::warn!(%error, suppressed, "stale write of an object refused"),
                None => tracing::debug!(%error, "stale write of an object refused"),
            }
        }
        written
    }
}

/// What was read of an object behind its token and nonce.
struct FoundObject {
    location: Location,
    /// As far as they were read.
    contents: Bytes,
}

/// Returns the resource that a path names: its bytes are the name.
fn resource(path: &Path) -> Result<Resource, ObjectError> {
    let wrong = |cause| ObjectError::Path { path: path.clone(), cause };
    if path.prefix_matches(&Path::from(FOLDER)) {
        return Err(wrong(PathCause::Reserved));
    }
    Resource::new(path).map_err(|error| wrong(error.into()))
}

async fn send_parts<S, E>(path: &Path, upload: &mut WriteMultipart, contents: S) -> Result<(), ObjectError>
where
    S: Stream<Item = Result<Bytes, E>>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut contents = std::pin::pin!(contents);
    while let Some(chunk) = contents.next().await {
        let mut chunk = chunk.map_err(|source| ObjectError::Contents { path: path.clone(), source: source.into() })?;
        // No more than a part at one time: all that is full is sent at once.
        while !chunk.is_empty() {
            upload.wait_for_capacity(PARTS_AT_ONCE).await?;
            upload.put(chunk.split_to(chunk.len().min(PART)));
        }
    }
    Ok(())
}
