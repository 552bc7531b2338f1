use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::exit::Failure;
use crate::watched_files::WatchedFiles;

const NO_CERTIFICATE: &str = "no certificate";

/// How clients connect with TLS.
#[derive(Debug, clap::Args)]
pub(crate) struct TlsArgs {
    /// Accepts only TLS connections. The file has the certificate, in PEM, followed by its intermediate certificates.
    /// The files are read again when they change.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Accepts only clients whose certificate one of these authorities (in PEM) has signed.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) client_ca: Option<PathBuf>,
}

impl TlsArgs {
    /// Opens the server's side of TLS, by files that may change. Returns none if no certificate is given.
    pub(super) fn open(&self) -> Result<Option<WatchedFiles<TlsAcceptor>>, Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let files = [certificate, key].into_iter().chain(&self.client_ca).cloned().collect();
        WatchedFiles::open(files, acceptor).map(Some)
    }
}

fn acceptor(files: &[String]) -> Result<TlsAcceptor, Box<dyn Error>> {
    let [chain, key, authorities @ ..] = files else { return Err(NO_CERTIFICATE.into()) };
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let builder = match authorities.first() {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let mut roots = RootCertStore::empty();
            certificates(authorities)?.into_iter().try_for_each(|authority| roots.add(authority))?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build()?)
        }
    };
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    let mut config = builder.with_single_cert(certificates(chain)?, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, Box<dyn Error>> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>()?;
    if certificates.is_empty() { Err(NO_CERTIFICATE.into()) } else { Ok(certificates) }
}
