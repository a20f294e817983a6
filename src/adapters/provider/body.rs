//! Decides whether a request may still end: its last byte is withheld until the deadline has been looked at, and who gives
//! the request up first makes sure that it never leaves. Nothing here knows what the bytes mean.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use thiserror::Error;
use tokio::sync::Notify;

use crate::adapters::clock::BootMoment;

/// What is known of a request's way out. It goes one way: from open to handed over, or from open to given up.
#[derive(Debug)]
pub(super) struct Delivery {
    state: AtomicU8,
    deadline: BootMoment,
    handed_over: Notify,
}

const OPEN: u8 = 0;
const HANDED_OVER: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Delivery {
    /// A request with this body, which must be handed over before `deadline`.
    ///
    /// A request without a body ends with its head, which cannot be withheld: it counts as handed over from the start.
    pub(super) fn new(body: &Bytes, deadline: BootMoment) -> Arc<Self> {
        let state = if body.is_empty() { HANDED_OVER } else { OPEN };
        Arc::new(Self {
            state: AtomicU8::new(state),
            deadline,
            handed_over: Notify::new(),
        })
    }

    /// Gives the request up. True if its last byte was never handed to the transport, and now never will be.
    pub(super) fn give_up(&self) -> bool {
        self.state
            .compare_exchange(OPEN, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire)
            .is_ok_and(|_| true)
            || self.state.load(Ordering::Acquire) == GIVEN_UP
    }

    /// Waits until the last byte has been handed to the transport; for ever, if it never is. One waits at most.
    pub(super) async fn handed_over(&self) {
        while self.state.load(Ordering::Acquire) != HANDED_OVER {
            self.handed_over.notified().await;
        }
    }

    /// Leave to hand over the last byte; given once.
    fn may_end(&self) -> bool {
        let may_end = !self.deadline.has_passed()
            && self
                .state
                .compare_exchange(OPEN, HANDED_OVER, Ordering::AcqRel, Ordering::Acquire)
                .is_ok();
        if may_end {
            self.handed_over.notify_one();
        }
        may_end
    }
}

/// The last byte was withheld.
#[derive(Debug, Error)]
#[error("the deadline has passed, or the request was given up: its last byte is withheld")]
pub(super) struct Withheld;

/// The most of a body that the HTTP library is given at a time, in bytes: what it holds when a request is given up, it still
/// writes before it closes the connection.
const PIECE_MAX: usize = 64 * 1024;

/// A body longer than this, in bytes, may not fit into the kernel's buffer at once. The end of such a one is given byte by
/// byte: the library (hyper 1, `proto/h1/io.rs`) writes out what it holds before it asks for a seventeenth piece, and over
/// HTTP/2 it asks for a piece when the one before has found room. So the last byte is asked for once all before it have left.
const LONG: usize = 16 * 1024;

/// How much of a long body's end is given byte by byte.
const SLOW_END: usize = 32;

/// A request's body: most of it in large pieces, and an end whose last byte is withheld.
#[derive(Debug)]
pub(super) struct WithheldBody {
    most: Bytes,
    end: Bytes,
    delivery: Arc<Delivery>,
}

impl WithheldBody {
    pub(super) fn new(mut body: Bytes, delivery: Arc<Delivery>) -> Self {
        let end = if body.len() > LONG { SLOW_END } else { 1 };
        let end = body.split_off(body.len().saturating_sub(end));
        Self {
            most: body,
            end,
            delivery,
        }
    }
}

impl Body for WithheldBody {
    type Data = Bytes;
    type Error = Withheld;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Withheld>>> {
        let piece = match (self.most.len(), self.end.len()) {
            (0, 0) => return Poll::Ready(None),
            (0, 1) if !self.delivery.may_end() => {
                self.end.clear();
                return Poll::Ready(Some(Err(Withheld)));
            }
            (0, _) => self.end.split_to(1),
            (rest, _) => self.most.split_to(rest.min(PIECE_MAX)),
        };
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.most.is_empty() && self.end.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let len = self.most.len() + self.end.len();
        SizeHint::with_exact(u64::try_from(len).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::BodyExt as _;

    use super::*;

    fn body(text: &str, patience: Duration) -> (WithheldBody, Arc<Delivery>) {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        let delivery = Delivery::new(&bytes, BootMoment::after(patience));
        (WithheldBody::new(bytes, Arc::clone(&delivery)), delivery)
    }

    const LATER: Duration = Duration::from_secs(3_600);

    #[tokio::test]
    async fn a_body_comes_in_pieces_and_its_length_is_known_from_the_start() {
        for (len, pieces) in [(1, 1), (2, 2), (LONG, 2), (LONG + 1, 33), (200_000, 36)] {
            let text: String = ('a'..='z').cycle().take(len).collect();
            let (mut body, delivery) = body(&text, LATER);
            assert_eq!(body.size_hint().exact(), Some(len as u64));
            let (mut whole, mut count) = (Vec::new(), 0);
            while let Some(frame) = body.frame().await {
                whole.extend_from_slice(&frame.unwrap().into_data().unwrap());
                count += 1;
            }
            assert_eq!((whole.as_slice(), count), (text.as_bytes(), pieces));
            assert!(body.is_end_stream());
            assert!(
                !delivery.give_up(),
                "what has been handed over cannot be given up"
            );
        }
    }

    #[tokio::test]
    async fn the_last_byte_is_withheld_once_the_deadline_has_passed() {
        let (mut body, delivery) = body("xy", Duration::ZERO);
        assert!(
            body.frame().await.unwrap().is_ok(),
            "all but the last byte is no request"
        );
        assert!(body.frame().await.unwrap().is_err());
        assert!(delivery.give_up());
    }

    #[tokio::test]
    async fn the_last_byte_is_withheld_once_the_request_was_given_up() {
        let (mut body, delivery) = body("xy", LATER);
        assert!(body.frame().await.unwrap().is_ok());
        assert!(delivery.give_up());
        assert!(body.frame().await.unwrap().is_err());
        assert!(delivery.give_up(), "it stays given up");
    }

    #[test]
    fn a_request_without_a_body_can_never_be_given_up() {
        let (body, delivery) = body("", LATER);
        assert!(body.is_end_stream());
        assert!(!delivery.give_up());
    }

    /// Whichever of the two comes first, they never both win.
    #[test]
    fn handing_over_and_giving_up_exclude_one_another() {
        for _ in 0..2_000 {
            let (mut body, delivery) = body("x", LATER);
            let handing = std::thread::spawn(move || {
                let mut cx = Context::from_waker(std::task::Waker::noop());
                matches!(
                    Pin::new(&mut body).poll_frame(&mut cx),
                    Poll::Ready(Some(Ok(_)))
                )
            });
            let given_up = delivery.give_up();
            assert_ne!(handing.join().unwrap(), given_up);
        }
    }
}
