//! Decides whom a provider's certificate must convince: the system's certificate authorities, and those of a file if one
//! is named. There is no way to turn the check off.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use thiserror::Error;

/// Why TLS cannot be set up.
#[derive(Debug, Error)]
pub enum TlsFault {
    /// The file of certificate authorities cannot be read, or holds none.
    #[error("the certificate authorities in {0} cannot be read: {1}")]
    CaFile(PathBuf, String),
    /// The system has no certificate authorities (the package ca-certificates, on Debian), or its TLS cannot be used.
    #[error("no certificate authorities: {0}")]
    Roots(rustls::Error),
}

/// TLS for one provider, offering these protocols. Where nothing is encrypted, no certificate authority is needed.
pub(super) fn client_config(
    encrypted: bool,
    ca_file: Option<&Path>,
    alpn: &[&str],
) -> Result<ClientConfig, TlsFault> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsFault::Roots)?;
    let mut config = if encrypted {
        let own = ca_file.map(read_ca_file).transpose()?.unwrap_or_default();
        let verifier = Verifier::new_with_extra_roots(own, provider).map_err(TlsFault::Roots)?;
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth()
    } else {
        builder
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth()
    };
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(config)
}

fn read_ca_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFault> {
    let fault = |problem: String| TlsFault::CaFile(path.to_owned(), problem);
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| fault(error.to_string()))?;
    match certificates.is_empty() {
        true => Err(fault("it holds no certificate".to_owned())),
        false => Ok(certificates),
    }
}
