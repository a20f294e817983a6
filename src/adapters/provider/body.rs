//! Decides whether a request may still end: its last byte is withheld until the deadline has been looked at, and who gives
//! the request up first makes sure that it never leaves. Nothing here knows what the bytes mean.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use thiserror::Error;

use crate::adapters::clock::BootMoment;

/// What is known of a request's way out. It goes one way: from open to handed over, or from open to given up.
#[derive(Debug)]
pub(super) struct Delivery {
    state: AtomicU8,
    deadline: BootMoment,
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
        })
    }

    /// Gives the request up. True if its last byte was never handed to the transport, and now never will be.
    pub(super) fn give_up(&self) -> bool {
        self.state
            .compare_exchange(OPEN, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire)
            .is_ok_and(|_| true)
            || self.state.load(Ordering::Acquire) == GIVEN_UP
    }

    /// Leave to hand over the last byte; given once.
    fn may_end(&self) -> bool {
        !self.deadline.has_passed()
            && self
                .state
                .compare_exchange(OPEN, HANDED_OVER, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
    }
}

/// The last byte was withheld.
#[derive(Debug, Error)]
#[error("the deadline has passed, or the request was given up: its last byte is withheld")]
pub(super) struct Withheld;

/// A request's body in two parts: all but the last byte, and the last byte.
#[derive(Debug)]
pub(super) struct WithheldBody {
    most: Bytes,
    last: Bytes,
    delivery: Arc<Delivery>,
}

impl WithheldBody {
    pub(super) fn new(mut body: Bytes, delivery: Arc<Delivery>) -> Self {
        let last = body.split_off(body.len().saturating_sub(1));
        Self {
            most: body,
            last,
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
        if !self.most.is_empty() {
            let most = std::mem::take(&mut self.most);
            return Poll::Ready(Some(Ok(Frame::data(most))));
        }
        if self.last.is_empty() {
            return Poll::Ready(None);
        }
        let last = std::mem::take(&mut self.last);
        Poll::Ready(Some(match self.delivery.may_end() {
            true => Ok(Frame::data(last)),
            false => Err(Withheld),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.most.is_empty() && self.last.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let len = self.most.len() + self.last.len();
        SizeHint::with_exact(u64::try_from(len).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::BodyExt as _;

    use super::*;

    fn body(text: &'static str, patience: Duration) -> (WithheldBody, Arc<Delivery>) {
        let bytes = Bytes::from_static(text.as_bytes());
        let delivery = Delivery::new(&bytes, BootMoment::after(patience));
        (WithheldBody::new(bytes, Arc::clone(&delivery)), delivery)
    }

    const LATER: Duration = Duration::from_secs(3_600);

    #[tokio::test]
    async fn a_body_comes_in_two_parts_and_its_length_is_known_from_the_start() {
        for text in ["x", "xy", "{\"a\":1}"] {
            let (mut body, delivery) = body(text, LATER);
            assert_eq!(body.size_hint().exact(), Some(text.len() as u64));
            let mut whole = Vec::new();
            while let Some(frame) = body.frame().await {
                whole.extend_from_slice(&frame.unwrap().into_data().unwrap());
            }
            assert_eq!(whole, text.as_bytes());
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
