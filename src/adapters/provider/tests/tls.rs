//! A certificate that does not convince lets nothing out.

use std::io::Write as _;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use super::server::{PATIENT, Server, answer, profile, request, response};
use crate::adapters::clock::BootMoment;
use crate::adapters::provider::{Connecting, ProviderClient, TlsFault};
use crate::config::secret::References;
use crate::domain::classify::{Answer, NotSentCause};

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: tempfile::NamedTempFile,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(issuer.pem().as_bytes()).unwrap();
        Self { issuer, file }
    }

    /// A server's side of TLS, with a certificate for `name` until the end of `year`.
    fn acceptor(&self, name: &str, year: i32) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(year, 12, 31);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        acceptor(certificate.der().clone(), &key)
    }
}

fn acceptor(certificate: rustls::pki_types::CertificateDer<'static>, key: &KeyPair) -> TlsAcceptor {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// A server that counts the bytes of requests it got inside TLS, and answers.
async fn server(acceptor: TlsAcceptor) -> (Server, Arc<std::sync::Mutex<Vec<u8>>>) {
    let inside = Arc::<std::sync::Mutex<Vec<u8>>>::default();
    let kept = Arc::clone(&inside);
    let server = Server::start(move |_, connection| {
        let (acceptor, kept) = (acceptor.clone(), Arc::clone(&kept));
        async move {
            let Ok(mut stream) = acceptor.accept(connection.stream).await else {
                return;
            };
            let mut buffer = [0; 4_096];
            while let Ok(len @ 1..) = stream.read(&mut buffer).await {
                kept.lock().unwrap().extend_from_slice(&buffer[..len]);
                if kept.lock().unwrap().ends_with(b"{}") {
                    let answer = answer("201 Created", "", r#"{"id":"m-1"}"#);
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            }
        }
    })
    .await;
    (server, inside)
}

async fn ask(server: &Server, believed: &Authority) -> Answer {
    let origin = format!("https://localhost:{}", server.address.port());
    let connecting = Connecting {
        ca_file: Some(believed.file.path().to_owned()),
        ..Connecting::default()
    };
    let client =
        ProviderClient::connecting(&profile(&origin, ""), &References::new(&[]), &connecting)
            .unwrap();
    let request = request(&format!("{origin}/send"), "{}");
    client.send(&request, BootMoment::after(PATIENT)).await
}

#[tokio::test]
async fn a_certificate_of_a_believed_authority_is_taken() {
    let authority = Authority::new();
    let (server, inside) = server(authority.acceptor("localhost", 2099)).await;
    assert_eq!(
        response(ask(&server, &authority).await).body,
        r#"{"id":"m-1"}"#
    );
    assert!(
        inside
            .lock()
            .unwrap()
            .starts_with(b"POST /send HTTP/1.1\r\n")
    );
}

#[tokio::test]
async fn p22_expired_foreign_and_self_signed_certificates_let_nothing_out() {
    let authority = Authority::new();
    let own_key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(["localhost".to_owned()])
        .unwrap()
        .self_signed(&own_key)
        .unwrap();
    for (kind, acceptor) in [
        ("expired", authority.acceptor("localhost", 2024)),
        (
            "for another host",
            authority.acceptor("other.example", 2099),
        ),
        (
            "of an unknown authority",
            Authority::new().acceptor("localhost", 2099),
        ),
        ("self-signed", acceptor(own.der().clone(), &own_key)),
    ] {
        let (server, inside) = server(acceptor).await;
        let answer = ask(&server, &authority).await;
        assert!(
            matches!(answer, Answer::NotSent(NotSentCause::Tls)),
            "{kind}: {answer:?}"
        );
        assert!(inside.lock().unwrap().is_empty(), "{kind}");
    }
}

#[tokio::test]
async fn p22_a_handshake_that_is_cut_is_told_from_a_bad_certificate() {
    let authority = Authority::new();
    let server = Server::start(|_, mut connection| async move {
        let mut buffer = [0; 16];
        connection.stream.read_exact(&mut buffer).await.unwrap();
        connection.reset();
    })
    .await;
    let answer = ask(&server, &authority).await;
    assert!(
        matches!(answer, Answer::NotSent(NotSentCause::ConnectFailed)),
        "{answer:?}"
    );
}

#[test]
fn a_file_without_certificates_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for path in [file.path(), std::path::Path::new("absent.pem")] {
        let connecting = Connecting {
            ca_file: Some(path.to_owned()),
            ..Connecting::default()
        };
        let profile = profile("https://localhost", "");
        let refused = ProviderClient::connecting(&profile, &References::new(&[]), &connecting);
        let fault = refused.err().unwrap();
        assert!(
            matches!(
                fault,
                crate::adapters::provider::ClientFault::Tls(TlsFault::CaFile(..))
            ),
            "{fault}"
        );
    }
}
