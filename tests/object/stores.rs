use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use fencing::object::{ObjectError, ObjectFence};
use futures_util::stream::BoxStream;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    BackoffConfig, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, RetryConfig,
};
pub use support::lease::token;
use support::objects;

/// A store with nothing in it.
#[derive(Clone, Copy)]
pub enum Kind {
    Memory,
    Moto,
    Azurite,
}

impl Kind {
    /// A new store, of no other test.
    pub fn store(self) -> Arc<dyn ObjectStore> {
        self.at(&self.url(), &self.bucket())
    }

    /// Makes a bucket, and returns its name.
    pub fn bucket(self) -> String {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("bucket-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        match self {
            Kind::Memory => {}
            Kind::Moto => objects::bucket(&name),
            Kind::Azurite => objects::container(&name),
        }
        name
    }

    pub fn url(self) -> String {
        match self {
            Kind::Memory => String::new(),
            Kind::Moto => objects::moto(),
            Kind::Azurite => objects::azurite(),
        }
    }

    /// The store with this name on this server.
    pub fn at(self, url: &str, name: &str) -> Arc<dyn ObjectStore> {
        match self {
            Kind::Memory => Arc::new(InMemory::new()),
            Kind::Moto => {
                let store = AmazonS3Builder::new()
                    .with_retry(retry())
                    .with_endpoint(url)
                    .with_bucket_name(name)
                    .with_allow_http(true);
                let store = store.with_region("us-east-1").with_access_key_id("a").with_secret_access_key("b");
                Arc::new(store.build().expect("it is complete"))
            }
            Kind::Azurite => {
                let store = MicrosoftAzureBuilder::new()
                    .with_retry(retry())
                    .with_endpoint(url.into())
                    .with_container_name(name);
                let store = store.with_account(objects::ACCOUNT).with_access_key(objects::KEY).with_allow_http(true);
                Arc::new(store.build().expect("it is complete"))
            }
        }
    }
}

/// As often as by default, and sooner.
fn retry() -> RetryConfig {
    let backoff =
        BackoffConfig { init_backoff: Duration::from_millis(1), max_backoff: Duration::from_millis(20), base: 2. };
    RetryConfig { backoff, ..RetryConfig::default() }
}

pub async fn open(store: &Arc<dyn ObjectStore>) -> ObjectFence {
    ObjectFence::open(Arc::clone(store)).await.expect("it keeps to conditions")
}

/// The write was refused for this token.
#[track_caller]
pub fn refused<T: fmt::Debug>(result: Result<T, ObjectError>, presented: u64, highest: u64) {
    let Err(ObjectError::Stale(stale)) = result else { panic!("{result:?} instead of a refusal") };
    assert_eq!((stale.presented.get(), stale.highest.get()), (presented, highest));
}

/// What happens around the requests to a store.
#[async_trait]
pub trait Around: fmt::Debug + Send + Sync + 'static {
    async fn before_put(&self, _: &PutPayload) {}

    /// Which condition a write is sent with.
    fn condition(&self, options: PutOptions) -> PutOptions {
        options
    }

    /// What the writer gets to hear.
    fn after_put(&self, result: Result<PutResult>) -> Result<PutResult> {
        result
    }

    /// Before an object, or a part of it, is read.
    fn before_get(&self) {}

    /// What carries an upload.
    fn upload(&self, upload: Box<dyn MultipartUpload>) -> Box<dyn MultipartUpload> {
        upload
    }

    /// What the reader gets to hear.
    fn after_get(&self, result: Result<GetResult>) -> Result<GetResult> {
        result
    }
}

#[derive(Debug)]
pub struct Wrapped<A> {
    pub store: Arc<dyn ObjectStore>,
    pub around: A,
}

impl<A> fmt::Display for Wrapped<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wrapped {}", self.store)
    }
}

#[async_trait]
impl<A: Around> ObjectStore for Wrapped<A> {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.around.before_put(&payload).await;
        let options = self.around.condition(options);
        self.around.after_put(self.store.put_opts(path, payload, options).await)
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Ok(self.around.upload(self.store.put_multipart_opts(path, options).await?))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.around.before_get();
        self.around.after_get(self.store.get_opts(path, options).await)
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}
