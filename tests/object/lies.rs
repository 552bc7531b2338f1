//! Stores that take a condition and ignore it are refused when the fence is opened.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use fencing::object::{ObjectError, ObjectFence};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error, GetResult, ObjectStore, PutMode, PutOptions, PutResult, Result, UpdateVersion};

use super::stores::{Around, Wrapped, token};

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
    let opened = ObjectFence::open(store).await;
    let Err(ObjectError::Unconditional { defect, store }) = opened else { panic!("{opened:?}") };
    assert_eq!(store, "wrapped InMemory");
    defect
}

#[tokio::test]
async fn each_lie_is_found() {
    assert_eq!(defect(Lie::IgnoresCreate).await, "it ignores the condition that an object must not exist");
    assert_eq!(defect(Lie::IgnoresUpdate).await, "it ignores the condition that an object must have a version");
    assert_eq!(defect(Lie::RefusesUpdates).await, "it refused an update of the version that it had given");
    assert_eq!(defect(Lie::RefusesAll).await, "it refused to create an object that does not exist");
    assert_eq!(defect(Lie::NoVersion).await, "it gives no version of what was written");
}

/// Answers the next write, and the next read, with these errors.
#[derive(Debug, Default)]
struct Answers {
    put: Mutex<Option<Error>>,
    get: Mutex<Option<Error>>,
}

#[async_trait]
impl Around for Arc<Answers> {
    fn after_put(&self, result: Result<PutResult>) -> Result<PutResult> {
        self.put.lock().unwrap().take().map_or(result, Err)
    }

    fn after_get(&self, result: Result<GetResult>) -> Result<GetResult> {
        self.get.lock().unwrap().take().map_or(result, Err)
    }
}

/// A store that answers its first write so.
fn answering(put: Option<Error>) -> (Arc<Answers>, Arc<dyn ObjectStore>) {
    let answers = Arc::new(Answers { put: put.into(), ..Answers::default() });
    let store = Arc::new(Wrapped { store: Arc::new(InMemory::new()), around: Arc::clone(&answers) });
    (answers, store)
}

#[tokio::test]
async fn a_lost_answer_is_no_lie_and_a_store_without_conditional_writes_is_refused() {
    // It looks so when the client has repeated the request.
    let error = Error::AlreadyExists { path: "a".into(), source: "it was written before".into() };
    ObjectFence::open(answering(Some(error)).1).await.expect("it keeps to conditions");
    // A local file system has no conditional update.
    let error = Error::NotImplemented { operation: "put_opts".into(), implementer: "a file system".into() };
    let opened = ObjectFence::open(answering(Some(error)).1).await;
    assert!(matches!(opened, Err(ObjectError::Store(Error::NotImplemented { .. }))), "{opened:?}");
}

#[tokio::test]
async fn only_a_refusal_of_the_store_is_no_doubt() {
    let (answers, store) = answering(None);
    let fence = ObjectFence::open(store).await.expect("it keeps to conditions");
    let (path, because) = (String::from("a"), || "because".into());
    let sure = [
        Error::NotFound { path: path.clone(), source: because() },
        Error::PermissionDenied { path: path.clone(), source: because() },
        Error::Unauthenticated { path: path.clone(), source: because() },
    ];
    for error in sure {
        *answers.put.lock().unwrap() = Some(error);
        let put = fence.put(&Path::from("a"), token(33), "a".into()).await;
        assert!(matches!(put, Err(ObjectError::Store(_))), "{put:?}");
    }
    *answers.put.lock().unwrap() = Some(Error::Generic { store: "a store", source: because() });
    let put = fence.put(&Path::from("a"), token(33), "a".into()).await;
    assert!(matches!(put, Err(ObjectError::InDoubt { .. })), "{put:?}");
    fence.put(&Path::from("a"), token(33), "a".into()).await.expect("it may be repeated under the same token");
}

#[tokio::test]
async fn a_write_that_was_refused_and_cannot_be_read_back_is_in_doubt() {
    let (answers, store) = answering(None);
    let fence = ObjectFence::open(store).await.expect("it keeps to conditions");
    let path = Path::from("a");
    // The next one reads nothing before it writes.
    fence.put(&path, token(33), "first".into()).await.expect("it is the newest");
    let refused = Error::Precondition { path: "a".into(), source: "it was written before".into() };
    *answers.put.lock().unwrap() = Some(refused);
    *answers.get.lock().unwrap() = Some(Error::Generic { store: "a store", source: "the network is gone".into() });
    let put = fence.put(&path, token(33), "written".into()).await;
    assert!(matches!(put, Err(ObjectError::InDoubt { .. })), "{put:?}");
    assert_eq!(fence.get(&path).await.expect("it is there"), "written");
}

#[tokio::test]
async fn the_test_leaves_nothing() {
    use futures_util::TryStreamExt;
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    ObjectFence::open(Arc::clone(&store)).await.expect("it keeps to conditions");
    let left: Vec<Path> = store.list(None).map_ok(|found| found.location).try_collect().await.expect("it answers");
    assert_eq!(left, []);
}
