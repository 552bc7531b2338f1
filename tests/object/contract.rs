use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use fencing::object::{ObjectError, ObjectFence, PathCause};
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload, PutResult, UploadPart};

use super::stores::{Around, Kind, Wrapped, open, refused, token};

async fn a_late_write_of_an_older_holder_is_refused(kind: Kind) {
    let store = kind.store();
    let (old, new) = (open(&store).await, open(&store).await);
    let path = Path::from("reports/today");
    old.put(&path, token(33), "first".into()).await.expect("it is the newest");
    new.claim(&path, token(34)).await.expect("it is the newest");
    // Its version is out of date, although the contents are not: on S3 an ETag of the contents alone would not change.
    refused(old.put(&path, token(33), "late".into()).await, 33, 34);
    refused(old.delete(&path, token(33)).await, 33, 34);
    refused(old.claim(&path, token(33)).await, 33, 34);
    let late = stream::iter([Ok::<_, std::io::Error>("late".into())]);
    refused(old.put_stream(&path, token(33), late).await, 33, 34);
    assert_eq!(old.get(&path).await.expect("it is there"), "first");
    new.put(&path, token(34), "second".into()).await.expect("it is the newest");
    new.put(&path, token(34), "third".into()).await.expect("a token may write many times");
    assert_eq!(old.get(&path).await.expect("it is there"), "third");
}

async fn a_claim_of_an_object_that_does_not_exist_leaves_a_mark(kind: Kind) {
    let store = kind.store();
    let fence = open(&store).await;
    let path = Path::from("a");
    fence.claim(&path, token(34)).await.expect("it is the newest");
    assert!(matches!(fence.get(&path).await, Err(ObjectError::NotFound { .. })));
    refused(open(&store).await.put(&path, token(33), "late".into()).await, 33, 34);
    fence.claim(&path, token(34)).await.expect("twice is no error");
    fence.put(&path, token(34), "first".into()).await.expect("it is the newest");
}

async fn a_deletion_keeps_the_token(kind: Kind) {
    let store = kind.store();
    let fence = open(&store).await;
    let (gone, kept) = (Path::from("dir/gone"), Path::from("dir/kept"));
    for path in [&gone, &kept] {
        fence.put(path, token(33), "contents".into()).await.expect("it is the newest");
    }
    fence.delete(&gone, token(34)).await.expect("it is the newest");
    fence.delete(&gone, token(34)).await.expect("twice is no error");
    assert!(matches!(fence.get(&gone).await, Err(ObjectError::NotFound { .. })));
    let large = Path::from("dir/large");
    fence.put(&large, token(1), vec![0; 5_000].into()).await.expect("it is the newest");
    let mut listed: Vec<Path> = fence.list(Some(&Path::from("dir"))).try_collect().await.expect("it answers");
    listed.sort();
    assert_eq!(listed, [kept, large]);
    refused(open(&store).await.put(&gone, token(33), "late".into()).await, 33, 34);
    fence.put(&gone, token(35), "again".into()).await.expect("it is the newest");
    assert_eq!(fence.get(&gone).await.expect("it is there"), "again");
}

/// More than one part, so that the store gets a multipart upload.
async fn a_stream_of_many_parts_is_read_as_it_was_written(kind: Kind) {
    let store = kind.store();
    let (old, new) = (open(&store).await, open(&store).await);
    let path = Path::from("backups/a b");
    let chunks: Vec<Vec<u8>> = (0..20_u8).map(|number| vec![number; 1 << 20]).collect();
    let sent = stream::iter(chunks.clone()).map(|chunk| Ok::<_, std::io::Error>(chunk.into()));
    old.put_stream(&path, token(33), sent).await.expect("it is the newest");
    let pieces = old.get_stream(&path).await.expect("it is there").try_collect::<Vec<_>>().await;
    assert!(pieces.expect("it is there").concat() == chunks.concat());
    assert_eq!(old.sweep(None).await.expect("it answers"), 0);

    // A claim takes over what it points at, and a sweep leaves it.
    new.claim(&path, token(34)).await.expect("it is the newest");
    assert_eq!(new.sweep(Some(&Path::from("backups"))).await.expect("it answers"), 0);
    assert_eq!(new.get(&path).await.expect("it is there").len(), 20 << 20);
    let late = stream::iter([Ok::<_, std::io::Error>("late".into())]);
    refused(old.put_stream(&path, token(33), late).await, 33, 34);

    new.put(&path, token(35), "short".into()).await.expect("it is the newest");
    assert_eq!(new.list(None).try_collect::<Vec<_>>().await.expect("it answers"), std::slice::from_ref(&path));
    assert_eq!(new.sweep(Some(&Path::from("other"))).await.expect("it answers"), 0);
    assert_eq!(new.sweep(None).await.expect("it answers"), 1);
    assert_eq!(new.get(&path).await.expect("it is there"), "short");
}

async fn a_stream_that_fails_leaves_the_object_as_it_was(kind: Kind) {
    let store = kind.store();
    let fence = open(&store).await;
    let path = Path::from("a");
    fence.put(&path, token(33), "before".into()).await.expect("it is the newest");
    let broken = stream::iter([Ok(vec![0; 10 << 20].into()), Err(std::io::Error::other("the disk is gone"))]);
    let put = fence.put_stream(&path, token(33), broken).await;
    let Err(ObjectError::Contents { source, .. }) = put else { panic!("{put:?}") };
    assert_eq!(source.to_string(), "the disk is gone");
    assert_eq!(fence.get(&path).await.expect("it is there"), "before");
}

async fn an_object_that_was_written_without_the_fence_is_not_touched(kind: Kind) {
    let store = kind.store();
    let fence = open(&store).await;
    for (path, contents) in [("raw", "not ours"), ("empty", "")] {
        let path = Path::from(path);
        store.put(&path, contents.into()).await.expect("it answers");
        for result in [
            fence.put(&path, token(33), "ours".into()).await,
            fence.claim(&path, token(33)).await,
            fence.delete(&path, token(33)).await,
            fence.get(&path).await.map(drop),
            fence.list(None).try_for_each(async |_| Ok(())).await,
        ] {
            assert!(matches!(result, Err(ObjectError::NotFenced { .. })), "{result:?}");
        }
        let left = store.get(&path).await.expect("it is there").bytes().await.expect("it is there");
        assert_eq!(left, contents);
    }
}

/// A path is bytes: nothing decodes or encodes it a second time.
async fn each_path_is_an_object_of_its_own(kind: Kind) {
    let store = kind.store();
    let fence = open(&store).await;
    let paths = ["a", "a/b", "a%2Fb", "a%252Fb", "A", "ü", "a b", "a+b", "a/33-0"].map(|path| {
        let path = Path::parse(path).expect("it is a path");
        assert_eq!(Path::parse(path.as_ref()).expect("it is a path"), path);
        path
    });
    for (path, number) in paths.iter().zip(1..) {
        fence.put(path, token(number), format!("{number}").into()).await.expect("nobody else writes it");
        let contents = stream::iter([Ok::<_, std::io::Error>(format!("stream {number}").into())]);
        fence.put_stream(path, token(number), contents).await.expect("nobody else writes it");
    }
    for (path, number) in paths.iter().zip(1..) {
        assert_eq!(fence.get(path).await.expect("it is there"), format!("stream {number}"));
    }
    assert_eq!(fence.sweep(None).await.expect("it answers"), 0);
    assert_eq!(fence.list(None).count().await, paths.len());

    let long = fence.put(&Path::from("a".repeat(256)), token(33), "".into()).await;
    assert!(matches!(long, Err(ObjectError::Path { cause: PathCause::Name(_), .. })), "{long:?}");
    let own = fence.put(&Path::from(".fencing/a/33-0"), token(33), "".into()).await;
    assert!(matches!(own, Err(ObjectError::Path { cause: PathCause::Reserved, .. })), "{own:?}");
}

#[derive(Debug, Default)]
struct Counts(AtomicUsize);

#[async_trait]
impl Around for Arc<Counts> {
    async fn before_put(&self, _: &PutPayload) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn before_get(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What docs/guide/recipes.md says of the cost.
async fn a_run_of_puts_is_one_request_each(kind: Kind) {
    let store = kind.store();
    let counts = Arc::new(Counts::default());
    let counted: Arc<dyn ObjectStore> = Arc::new(Wrapped { store: Arc::clone(&store), around: Arc::clone(&counts) });
    let (fence, other) = (open(&counted).await, open(&store).await);
    let requests = || counts.0.swap(0, Ordering::Relaxed);
    let path = Path::from("a");
    requests();
    fence.put(&path, token(33), "first".into()).await.expect("it is the newest");
    assert_eq!(requests(), 2);
    fence.put(&path, token(33), "second".into()).await.expect("it is the newest");
    fence.claim(&path, token(33)).await.expect("it is claimed");
    assert_eq!(requests(), 1);
    other.put(&path, token(33), "other".into()).await.expect("it is the newest");
    fence.put(&path, token(33), "third".into()).await.expect("it is the newest");
    assert_eq!(requests(), 3);
    fence.claim(&path, token(34)).await.expect("it is the newest");
    assert_eq!(requests(), 2);
    refused(fence.put(&path, token(33), "late".into()).await, 33, 34);
    assert_eq!(requests(), 0);
    fence.delete(&path, token(34)).await.expect("it is the newest");
    assert_eq!(requests(), 1);
    let sent = stream::iter([Ok::<_, std::io::Error>("stream".into())]);
    fence.put_stream(&path, token(34), sent).await.expect("it is the newest");
    // The parts of the upload are not counted here.
    assert_eq!(requests(), 2);
}

/// A sweep keeps contents whose head may still be written.
async fn contents_under_the_newest_token_are_not_swept(kind: Kind) {
    let fence = open(&kind.store()).await;
    let path = Path::from("a");
    let sent = stream::iter([Ok::<_, std::io::Error>("stream".into())]);
    fence.put_stream(&path, token(35), sent).await.expect("it is the newest");
    fence.put(&path, token(35), "put".into()).await.expect("it is the newest");
    assert_eq!(fence.sweep(None).await.expect("it answers"), 0);
    fence.claim(&path, token(36)).await.expect("it is the newest");
    assert_eq!(fence.sweep(None).await.expect("it answers"), 1);
    assert_eq!(fence.get(&path).await.expect("it is there"), "put");
}

/// Azure lists `a/b` for `a\b`, and both are one object.
async fn a_sweep_knows_contents_whose_path_the_store_has_changed(kind: Kind) {
    let store = kind.store();
    let fence = open(&store).await;
    let path = Path::parse(r"a\b").expect("it is a path");
    let sent = stream::iter([Ok::<_, std::io::Error>("stream".into())]);
    fence.put_stream(&path, token(33), sent).await.expect("it is the newest");
    fence.claim(&path, token(34)).await.expect("it is the newest");
    // It belongs to no object.
    store.put(&Path::from(".fencing/33-0"), "other".into()).await.expect("it answers");
    assert_eq!(fence.sweep(None).await.expect("it answers"), 0);
    assert_eq!(fence.get(&path).await.expect("it is there"), "stream");
}

/// Two holders write one object at the same time, and many tasks of one holder: each write counts once.
async fn writes_at_one_time_all_end(kind: Kind) {
    let store = kind.store();
    let fences: Vec<ObjectFence> = stream::iter(0..4).then(|_| open(&store)).collect().await;
    let path = Path::from("a");
    let writes = (0..24).zip(fences.iter().cycle()).map(|(number, fence)| {
        let path = path.clone();
        async move { fence.put(&path, token(33), format!("{number}").into()).await }
    });
    for written in futures_util::future::join_all(writes).await {
        written.expect("no token is newer");
    }
    fences[0].claim(&path, token(34)).await.expect("it is the newest");
    for fence in &fences[1..] {
        refused(fence.put(&path, token(33), "late".into()).await, 33, 34);
    }
}

macro_rules! contract {
    ($($store:ident: $kind:expr),*; $($test:ident),* $(,)?) => { contract! { @each [$($store: $kind),*] $($test),* } };
    (@each [$($store:ident: $kind:expr),*] $test:ident $(, $rest:ident)*) => {
        mod $test {
            $(
                #[tokio::test]
                async fn $store() {
                    super::$test($kind).await;
                }
            )*
        }
        contract! { @each [$($store: $kind),*] $($rest),* }
    };
    (@each [$($store:ident: $kind:expr),*]) => {};
}

contract! {
    memory: super::Kind::Memory, moto: super::Kind::Moto, azurite: super::Kind::Azurite;
    a_late_write_of_an_older_holder_is_refused,
    a_claim_of_an_object_that_does_not_exist_leaves_a_mark,
    a_deletion_keeps_the_token,
    a_stream_of_many_parts_is_read_as_it_was_written,
    a_stream_that_fails_leaves_the_object_as_it_was,
    an_object_that_was_written_without_the_fence_is_not_touched,
    each_path_is_an_object_of_its_own,
    a_run_of_puts_is_one_request_each,
    contents_under_the_newest_token_are_not_swept,
    a_sweep_knows_contents_whose_path_the_store_has_changed,
    writes_at_one_time_all_end,
}

/// Counts the parts that are sent at one time.
#[derive(Debug, Default)]
struct Parts {
    now: AtomicUsize,
    most: AtomicUsize,
}

#[derive(Debug)]
struct Upload(Box<dyn MultipartUpload>, Arc<Parts>);

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (part, parts) = (self.0.put_part(data), Arc::clone(&self.1));
        Box::pin(async move {
            parts.most.fetch_max(parts.now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            parts.now.fetch_sub(1, Ordering::Relaxed);
            part.await
        })
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        self.0.complete().await
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        self.0.abort().await
    }
}

#[async_trait]
impl Around for Arc<Parts> {
    fn upload(&self, upload: Box<dyn MultipartUpload>) -> Box<dyn MultipartUpload> {
        Box::new(Upload(upload, Arc::clone(self)))
    }
}

/// A stream may come in one chunk.
#[tokio::test]
async fn a_large_chunk_is_sent_a_few_parts_at_a_time() {
    let parts = Arc::new(Parts::default());
    let store: Arc<dyn ObjectStore> = Arc::new(Wrapped { store: Kind::Memory.store(), around: Arc::clone(&parts) });
    let (fence, path) = (open(&store).await, Path::from("a"));
    let contents: Vec<u8> = (0_u32..25 << 20).map(|number| (number >> 12) as u8).collect();
    let sent = stream::iter([Ok::<_, std::io::Error>(contents.repeat(4).into())]);
    fence.put_stream(&path, token(33), sent).await.expect("it is the newest");
    assert!(fence.get(&path).await.expect("it is there") == contents.repeat(4));
    assert!((2..=4).contains(&parts.most.load(Ordering::Relaxed)), "{parts:?}");
}
