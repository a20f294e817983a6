//! Decides what one request meets, from its head to its answer: the order of faults, memory and truth. It does not know the
//! connection, nor how an answer is written.

use std::fs::File;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderName, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::answers::{self, Answered};
use super::connection::Cut;
use super::faults::{Fault, FaultMix};
use super::listing::{Listed, Listing};
use super::memory::{Answer, Conduct, Memory, Recall};
use super::message::{recipient, request_hash, searchable};
use super::truth::{Event, Seen, Truth, message_id};
use super::{Options, ServeError, admin};

/// The most bytes that a message may have.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// The provider behind every connection.
#[derive(Debug)]
pub struct Provider {
    options: Options,
    key_header: HeaderName,
    clock: Clock,
    state: Mutex<State>,
    broken: watch::Sender<Option<io::ErrorKind>>,
}

/// What changes. One lock guards all of it: it is held for a microsecond or two and never across an await.
#[derive(Debug)]
struct State {
    faults: FaultMix,
    memory: Memory,
    truth: Truth,
    listing: Option<Listing>,
    requests: u64,
    messages: u64,
}

/// What follows from a whole request.
enum Course {
    /// It is a new one, and this is what came of it.
    Taken {
        answer: Answer,
        answered_at: Instant,
    },
    /// The key has been answered.
    Replayed(Answer),
    /// It is turned away with this status and title.
    TurnedAway(StatusCode, &'static str),
}

impl Provider {
    /// A provider that has not seen anything.
    ///
    /// # Errors
    ///
    /// When the options name an impossible header.
    pub fn new(options: Options, truth_log: Option<File>) -> Result<Self, ServeError> {
        let key_header =
            HeaderName::try_from(&options.key_header).map_err(|_| ServeError::KeyHeader {
                name: options.key_header.clone(),
            })?;
        let state = State {
            faults: options.faults.clone(),
            memory: Memory::new(Conduct {
                window: options.window,
                compares_body: !options.ignores_body,
                locks: !options.lacks_lock,
            }),
            truth: Truth::new(truth_log),
            listing: options.lookups.map(Listing::new),
            requests: 0,
            messages: 0,
        };
        Ok(Self {
            options,
            key_header,
            clock: Clock::start(),
            state: Mutex::new(state),
            broken: watch::Sender::new(None),
        })
    }

    /// Takes one request to its answer, or to the end of its connection.
    ///
    /// # Errors
    ///
    /// How the connection is to be cut, when a fault wants it or the request did not come whole.
    pub async fn exchange(&self, request: Request<Incoming>) -> Result<Answered, Cut> {
        let path = request.uri().path();
        if path.starts_with(admin::PREFIX) {
            return Ok(admin::answer(self, request).await);
        }
        if path != self.options.path {
            return Ok(answers::problem(StatusCode::NOT_FOUND, "No such path"));
        }
        if request.method() == Method::GET && self.options.lookups.is_some() {
            return Ok(self.look_up(request.uri().query().unwrap_or_default()));
        }
        if request.method() != Method::POST {
            return Ok(answers::problem(
                StatusCode::METHOD_NOT_ALLOWED,
                "Messages are posted",
            ));
        }
        self.send(request).await
    }

    /// Waits until the truth log cannot be written any more, and tells why.
    pub async fn broken(&self) -> io::Error {
        let mut broken = self.broken.subscribe();
        match broken.wait_for(Option::is_some).await {
            Ok(kind) => kind.unwrap_or(io::ErrorKind::Other).into(),
            // The sender is a field of this provider, which is borrowed here.
            Err(_) => io::ErrorKind::Other.into(),
        }
    }

    /// Lets the truth be read.
    pub fn with_truth<T>(&self, read: impl FnOnce(&Truth) -> T) -> T {
        read(&self.state().truth)
    }

    /// The fault mix in force.
    pub fn faults(&self) -> FaultMix {
        self.state().faults.clone()
    }

    /// Puts another fault mix in force.
    pub fn change_faults(&self, faults: FaultMix) {
        self.state().faults = faults;
    }

    /// Forgets every key and all that happened. Messages go on being numbered, so that no identifier comes twice.
    pub fn reset(&self) {
        let mut state = self.state();
        state.memory.clear();
        state.truth.clear();
        if let Some(listing) = &mut state.listing {
            listing.clear();
        }
        state.requests = 0;
    }

    async fn send(&self, request: Request<Incoming>) -> Result<Answered, Cut> {
        let (head, body) = request.into_parts();
        let key = head
            .headers
            .get(&self.key_header)
            .and_then(|key| key.to_str().ok())
            .filter(|key| !key.is_empty());
        let Some(fault) = self.begin(key)? else {
            return Ok(answers::problem(
                StatusCode::BAD_REQUEST,
                "The idempotency key is missing",
            ));
        };
        let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
            self.tell(
                &[Event::Incomplete],
                Seen {
                    key,
                    ..Seen::default()
                },
            )?;
            return Err(Cut::Close);
        };
        let body = body.to_bytes();
        let hash = request_hash(&head.method, &head.uri.to_string(), &body);
        let recipient = recipient(
            head.headers
                .get(header::CONTENT_TYPE)
                .map(http::HeaderValue::as_bytes),
            &body,
        );
        let content_type = head.headers.get(header::CONTENT_TYPE);
        let searchable = self
            .options
            .lookups
            .map(|_| searchable(content_type.map(http::HeaderValue::as_bytes), &body))
            .unwrap_or_default();
        let seen = Seen {
            key,
            request: Some(&hash),
            recipient: recipient.as_deref(),
            message: None,
            searchable: Some(&searchable),
        };
        if recipient.is_none() {
            self.tell(&[Event::Request, Event::Invalid], seen)?;
            return Ok(answers::problem(
                StatusCode::BAD_REQUEST,
                "No recipient can be read",
            ));
        }
        match fault {
            None => {
                let course = self.take(seen, None)?;
                Ok(self.plain_answer(&course))
            }
            Some(fault) => self.fail(fault, seen).await,
        }
    }

    fn look_up(&self, query: &str) -> Answered {
        #[derive(serde::Serialize)]
        struct Found<'a> {
            messages: Vec<&'a Listed>,
        }
        let state = self.state();
        let listing = state.listing.as_ref();
        let messages = listing.map(|listing| listing.find(query, Instant::now()));
        answers::ok(&Found {
            messages: messages.unwrap_or_default(),
        })
    }

    /// Counts a request whose head has come. Returns the fault that it meets, and nothing at all when it lacks its key.
    fn begin(&self, key: Option<&str>) -> Result<Option<Option<Fault>>, Cut> {
        let fault = {
            let mut state = self.state();
            state.requests += 1;
            let (number, met) = match key {
                Some(key) => state.truth.begin(key),
                None => (state.requests, 0),
            };
            state.faults.draw(self.options.seed, key, number, met)
        };
        if key.is_none() && self.options.keys {
            self.tell(&[Event::KeyMissing], Seen::default())?;
            return Ok(None);
        }
        if fault == Some(Fault::ResetBeforeReading) {
            self.tell(
                &[Event::Fault(Fault::ResetBeforeReading)],
                Seen {
                    key,
                    ..Seen::default()
                },
            )?;
            return Err(Cut::Reset);
        }
        Ok(Some(fault))
    }

    /// Carries out a fault on a request that has come whole.
    async fn fail(&self, fault: Fault, seen: Seen<'_>) -> Result<Answered, Cut> {
        let met = &[Event::Request, Event::Fault(fault)];
        let mix = self.faults();
        match fault {
            Fault::ResetBeforeReading => Err(Cut::Reset),
            Fault::ErrorBeforeAccepting => {
                self.tell(met, seen)?;
                Ok(answers::problem(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "Something went wrong",
                ))
            }
            Fault::ThrottledSeconds => {
                self.tell(met, seen)?;
                Ok(answers::throttled_seconds(mix.retry_after()))
            }
            Fault::ThrottledDate => {
                self.tell(met, seen)?;
                Ok(answers::throttled_date(
                    mix.retry_after(),
                    self.clock.wall(Instant::now()),
                ))
            }
            Fault::AcceptThenHang => {
                self.take(seen, Some(fault))?;
                sleep(mix.hang()).await;
                Err(Cut::Close)
            }
            Fault::AcceptThenReset => {
                self.take(seen, Some(fault))?;
                Err(Cut::Reset)
            }
            Fault::ErrorAfterAccepting => {
                self.take(seen, Some(fault))?;
                Ok(answers::problem(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "Something went wrong",
                ))
            }
            Fault::HtmlGatewayError => {
                self.take(seen, Some(fault))?;
                Ok(answers::html_gateway_error())
            }
            Fault::TruncatedBody => {
                let course = self.take(seen, Some(fault))?;
                Ok(answers::truncated(self.plain_answer(&course)))
            }
            Fault::StoredError => {
                let course = self.take(seen, Some(fault))?;
                Ok(self.plain_answer(&course))
            }
            Fault::Slow => {
                let course = self.take(seen, Some(fault))?;
                match course {
                    // Nothing is left to do when the client goes meanwhile: the key is answered from then on.
                    Course::Taken { answered_at, .. } => sleep_until(answered_at).await,
                    Course::Replayed(_) | Course::TurnedAway(..) => sleep(mix.slow()).await,
                }
                Ok(self.plain_answer(&course))
            }
        }
    }

    /// Decides what a whole request means, remembers it and writes the truth of it.
    fn take(&self, seen: Seen<'_>, fault: Option<Fault>) -> Result<Course, Cut> {
        let now = Instant::now();
        let mut state = self.state();
        let state = &mut *state;
        let remembered = seen.key.filter(|_| self.options.keys).zip(seen.request);
        let recall = remembered.map_or(Recall::Fresh, |(key, request)| {
            state.memory.recall(key, request, now)
        });
        let fails = seen.recipient.is_some() && seen.recipient == self.options.fails_for.as_deref();
        let (event, message, course) = match recall {
            Recall::Fresh if fails => {
                if let Some((key, request)) = remembered.filter(|_| self.options.stores_errors) {
                    state.memory.keep(key, *request, Answer::Failed, now, now);
                }
                let course = Course::Taken {
                    answer: Answer::Failed,
                    answered_at: now,
                };
                (Event::Failed, None, course)
            }
            Recall::Fresh => {
                state.messages += 1;
                let late = if fault == Some(Fault::Slow) {
                    state.faults.slow()
                } else {
                    Duration::ZERO
                };
                let answered_at = now + late;
                let answer = if fault == Some(Fault::StoredError) {
                    Answer::StoredError(state.messages)
                } else {
                    Answer::Accepted(state.messages)
                };
                if let Some(listing) = &mut state.listing {
                    let (reference, text) = seen.searchable.cloned().unwrap_or_default();
                    let listed = Listed {
                        id: message_id(state.messages),
                        to: seen.recipient.unwrap_or_default().to_owned(),
                        reference,
                        text,
                        made_at: self.clock.wall(now),
                    };
                    listing.add(listed, now);
                }
                if let Some((key, request)) = remembered {
                    state.memory.keep(key, *request, answer, now, answered_at);
                }
                (
                    Event::Delivery,
                    Some(state.messages),
                    Course::Taken {
                        answer,
                        answered_at,
                    },
                )
            }
            Recall::Answered(answer) => (Event::Replay, answer.message(), Course::Replayed(answer)),
            Recall::InProgress => (
                Event::InProgress,
                None,
                Course::TurnedAway(
                    StatusCode::CONFLICT,
                    "A request with this idempotency key is being worked on",
                ),
            ),
            Recall::Conflict => (
                Event::Conflict,
                None,
                Course::TurnedAway(
                    StatusCode::UNPROCESSABLE_ENTITY,
                    "This idempotency key belongs to another request",
                ),
            ),
        };
        let wall = self.clock.wall(now);
        state.truth.tell(Event::Request, seen, wall);
        state.truth.tell(event, Seen { message, ..seen }, wall);
        if let Some(fault) = fault {
            state
                .truth
                .tell(Event::Fault(fault), Seen { message, ..seen }, wall);
        }
        self.written(state)?;
        Ok(course)
    }

    /// The answer to what a request means, without any fault on its way.
    fn plain_answer(&self, course: &Course) -> Answered {
        match course {
            Course::Taken { answer, .. } => self.kept_answer(*answer),
            Course::Replayed(answer) => answers::replayed(self.kept_answer(*answer)),
            Course::TurnedAway(status, title) => answers::problem(*status, title),
        }
    }

    fn kept_answer(&self, answer: Answer) -> Answered {
        match answer {
            Answer::Accepted(message) => {
                answers::accepted(&self.options.id_field, &message_id(message))
            }
            Answer::StoredError(_) | Answer::Failed => {
                answers::problem(StatusCode::INTERNAL_SERVER_ERROR, "Something went wrong")
            }
        }
    }

    /// Writes the truth of a request that changes nothing.
    fn tell(&self, events: &[Event], seen: Seen<'_>) -> Result<(), Cut> {
        let wall = self.clock.wall(Instant::now());
        let mut state = self.state();
        for event in events {
            state.truth.tell(*event, seen, wall);
        }
        self.written(&mut state)
    }

    /// Writes the log, so that no answer leaves before its truth; without it the provider stops.
    fn written(&self, state: &mut State) -> Result<(), Cut> {
        state.truth.write().map_err(|error| {
            self.broken.send_replace(Some(error.kind()));
            Cut::Reset
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wall clock as it was at the start, carried on by the runtime's clock: it never runs backwards, and tests can hold it.
#[derive(Clone, Copy, Debug)]
struct Clock {
    started: Instant,
    started_at: Timestamp,
}

impl Clock {
    fn start() -> Self {
        Self {
            started: Instant::now(),
            started_at: Timestamp::now(),
        }
    }

    fn wall(self, now: Instant) -> Timestamp {
        let elapsed = SignedDuration::try_from(now.duration_since(self.started))
            .unwrap_or(SignedDuration::ZERO);
        self.started_at
            .saturating_add(elapsed)
            .unwrap_or(self.started_at)
    }
}
