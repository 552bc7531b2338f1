//! Stores that take a condition and ignore it are refused when the fence is opened.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use fencing::object::{ObjectError, ObjectFence};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error, GetResult, ObjectStore, PutMode, PutOptions, PutResult, Result, UpdateVersion};

use super::stores::{Around, Wrapped, token};

/// What a store does wrong.
#[derive(Debug, Clone, Copy)]
enum Lie {
    IgnoresCreate,
    IgnoresUpdate,
    RefusesUpdates,
    RefusesAll,
    NoVersion,
}

#[async_trait]
impl Around for Lie {
    fn condition(&self, options: PutOptions) -> PutOptions {
        match (self, &options.mode) {
            (Lie::IgnoresCreate, PutMode::Create) | (Lie::IgnoresUpdate, PutMode::Update(_)) => PutOptions::default(),
            (Lie::RefusesUpdates, PutMode::Update(_)) => {
                PutMode::Update(UpdateVersion { e_tag: Some("another".into()), version: None }).into()
            }
            _ => options,
        }
    }

    fn after_put(&self, result: Result<PutResult>) -> Result<PutResult> {
        match self {
            Lie::NoVersion => result.map(|_| PutResult { e_tag: None, version: None }),
            Lie::RefusesAll => Err(Error::Precondition { path: "a".into(), source: "it never matches".into() }),
            _ => result,
        }
    }
}

async fn defect(lie: Lie) -> &'static str {
    let store: Arc<dyn ObjectStore> = Arc::new(Wrapped { store: Arc::new(InMemory::new()), around: lie });
    match ObjectFence::open(store).await {
        Err(ObjectError::Unconditional { defect, store }) => {
            assert_eq!(store, "wrapped InMemory");
            defect
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_lie_is_found() {
    assert_eq!(defect(Lie::IgnoresCreate).await, "it ignores the condition that an object must not exist");
    assert_eq!(defect(Lie::IgnoresUpdate).await, "it ignores the condition that an object must have a version");
    assert_eq!(defect(Lie::RefusesUpdates).await, "it refused an update of the version that it had given");
    assert_eq!(defect(Lie::RefusesAll).await, "it refused to create an object that does not exist");
    assert_eq!(defect(Lie::NoVersion).await, "it gives no version of what was written");
}

/// Refuses one write, as it seems when an answer was lost and the client has repeated the request.
#[derive(Debug, Default)]
struct RefusesOnce(AtomicBool);

#[async_trait]
impl Around for RefusesOnce {
    fn after_put(&self, result: Result<PutResult>) -> Result<PutResult> {
        match self.0.swap(true, Ordering::Relaxed) {
            true => result,
            false => Err(Error::AlreadyExists { path: "a".into(), source: "it was written before".into() }),
        }
    }
}

#[tokio::test]
async fn a_lost_answer_is_no_lie() {
    let store = Arc::new(Wrapped { store: Arc::new(InMemory::new()), around: RefusesOnce::default() });
    ObjectFence::open(store).await.expect("it keeps to conditions");
}

/// A local file system has no conditional update.
#[derive(Debug)]
struct NoUpdates;

#[async_trait]
impl Around for NoUpdates {
    fn after_put(&self, _: Result<PutResult>) -> Result<PutResult> {
        Err(Error::NotImplemented { operation: "put_opts".into(), implementer: "a file system".into() })
    }
}

#[tokio::test]
async fn a_store_without_conditional_writes_is_refused() {
    let store = Arc::new(Wrapped { store: Arc::new(InMemory::new()), around: NoUpdates });
    let opened = ObjectFence::open(store).await;
    assert!(matches!(opened, Err(ObjectError::Store(Error::NotImplemented { .. }))), "{opened:?}");
}

/// Answers all writes with this error, once it is set.
#[derive(Debug, Default)]
struct Answers(Mutex<Option<Error>>);

#[async_trait]
impl Around for Arc<Answers> {
    fn after_put(&self, result: Result<PutResult>) -> Result<PutResult> {
        self.0.lock().unwrap().take().map_or(result, Err)
    }
}

#[tokio::test]
async fn only_a_refusal_of_the_store_is_no_doubt() {
    let answers = Arc::new(Answers::default());
    let store = Arc::new(Wrapped { store: Arc::new(InMemory::new()), around: Arc::clone(&answers) });
    let fence = ObjectFence::open(store).await.expect("it keeps to conditions");
    let (path, because) = (String::from("a"), || "because".into());
    let sure = [
        Error::NotFound { path: path.clone(), source: because() },
        Error::PermissionDenied { path: path.clone(), source: because() },
        Error::Unauthenticated { path: path.clone(), source: because() },
    ];
    for error in sure {
        *answers.0.lock().unwrap() = Some(error);
        let put = fence.put(&Path::from("a"), token(33), "a".into()).await;
        assert!(matches!(put, Err(ObjectError::Store(_))), "{put:?}");
    }
    *answers.0.lock().unwrap() = Some(Error::Generic { store: "a store", source: because() });
    let put = fence.put(&Path::from("a"), token(33), "a".into()).await;
    assert!(matches!(put, Err(ObjectError::InDoubt { .. })), "{put:?}");
    fence.put(&Path::from("a"), token(33), "a".into()).await.expect("it may be repeated under the same token");
}

/// Applies a write and refuses its repetition, and then cannot be read.
#[derive(Debug, Default)]
struct LosesBoth {
    armed: AtomicBool,
    refused: AtomicBool,
}

#[async_trait]
impl Around for Arc<LosesBoth> {
    fn after_put(&self, result: Result<PutResult>) -> Result<PutResult> {
        match self.armed.swap(false, Ordering::Relaxed) {
            false => result,
            true => {
                self.refused.store(true, Ordering::Relaxed);
                Err(Error::Precondition { path: "a".into(), source: "it was written before".into() })
            }
        }
    }

    fn after_get(&self, result: Result<GetResult>) -> Result<GetResult> {
        match self.refused.swap(false, Ordering::Relaxed) {
            false => result,
            true => Err(Error::Generic { store: "a store", source: "the network is gone".into() }),
        }
    }
}

#[tokio::test]
async fn a_write_that_was_refused_and_cannot_be_read_back_is_in_doubt() {
    let around = Arc::new(LosesBoth::default());
    let store = Arc::new(Wrapped { store: Arc::new(InMemory::new()), around: Arc::clone(&around) });
    let fence = ObjectFence::open(store).await.expect("it keeps to conditions");
    let path = Path::from("a");
    around.armed.store(true, Ordering::Relaxed);
    let put = fence.put(&path, token(33), "written".into()).await;
    assert!(matches!(put, Err(ObjectError::InDoubt { .. })), "{put:?}");
    assert_eq!(fence.get(&path).await.expect("it is there"), "written");
}

/// The object that tests the store is gone afterwards.
#[tokio::test]
async fn the_test_leaves_nothing() {
    use futures_util::TryStreamExt;
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    ObjectFence::open(Arc::clone(&store)).await.expect("it keeps to conditions");
    let left: Vec<Path> = store.list(None).map_ok(|found| found.location).try_collect().await.expect("it answers");
    assert_eq!(left, []);
}
