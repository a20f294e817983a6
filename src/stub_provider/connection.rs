//! Decides how a connection is carried and how it can be cut. It does not know why it is cut.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::exchange::Provider;

/// Why an exchange ends without an answer: its connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cut {
    /// In order, by FIN.
    #[error("closed")]
    Close,
    /// By RST, as a crashed or overloaded peer does.
    #[error("reset")]
    Reset,
}

/// Serves one connection to its end.
pub async fn serve(provider: Arc<Provider>, stream: TcpStream) {
    // A refusal only costs time.
    let _ = stream.set_nodelay(true);
    let reset = Arc::new(AtomicBool::new(false));
    let wire = Wire {
        stream,
        reset: Arc::clone(&reset),
    };
    let exchange = service_fn(move |request| {
        let (provider, reset) = (Arc::clone(&provider), Arc::clone(&reset));
        async move {
            let answer = provider.exchange(request).await;
            if answer.as_ref().is_err_and(|cut| *cut == Cut::Reset) {
                reset.store(true, Ordering::Relaxed);
            }
            answer
        }
    });
    // An error here is a client that has gone or a cut of ours; both are in the truth.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(wire), exchange)
        .await;
}

/// A stream that ends by reset when it is told to.
struct Wire {
    stream: TcpStream,
    reset: Arc<AtomicBool>,
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.reset.load(Ordering::Relaxed) {
            // Fails only for a socket that is not connected any more, which needs no reset.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
