//! Has a bearer token ready: signs it, or fetches it, and lets all requests of an account share it. One fetches at a time, before
//! the token expires, and what came of it counts for all who wait. Tokens are shown nowhere.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, HeaderValue, RETRY_AFTER};
use url::Url;

use super::keys::SigningKey;
use crate::adapters::clock::{BootMoment, Clock};
use crate::adapters::provider::received;
use crate::config::secret::Secret;
use crate::domain::profile::ClientSecretIn;
use crate::domain::retry_after::{self, Form, WAIT_MAX_DEFAULT};
use crate::domain::signing::jwt::Claims;
use crate::domain::time::Timestamp;
use crate::domain::token::{
    Freshness, NoToken, RefusedToken, basic_authorization, client_assertion_form,
    client_credentials_form, freshness, is_thrown_away, judge, jwt_bearer_form,
};

/// A token endpoint answers within this, or is given up.
const FETCH_MAX: Duration = Duration::from_secs(10);

/// After a fetch that failed the endpoint is left alone for so long, or for longer if it asks for that, whoever wants a token.
const PAUSE: Duration = Duration::from_secs(1);

/// A fetched token that has never worked is thrown away no sooner than this, even if it is refused.
const FETCHED_AT_LEAST: Duration = Duration::from_secs(60);

/// The tokens of one account.
pub(in crate::adapters::provider) struct TokenSource {
    maker: Maker,
    /// What stands before the token.
    prefix: String,
    state: Mutex<State>,
    /// Who makes one: one at a time.
    making: tokio::sync::Mutex<()>,
}

/// How tokens are made.
pub(super) enum Maker {
    /// Signed here.
    Signed {
        key: SigningKey,
        claims: OwnedClaims,
        reuse: Option<(Duration, Duration)>,
    },
    /// Fetched from a token endpoint.
    Fetched {
        http: reqwest::Client,
        url: Url,
        grant: Grant,
    },
}

/// What is shown to a token endpoint.
pub(super) enum Grant {
    /// The client's id and secret.
    Credentials {
        client_id: Secret,
        client_secret: Secret,
        secret_in: ClientSecretIn,
        scope: Option<String>,
    },
    /// The client's signed assertion.
    ClientAssertion {
        key: SigningKey,
        claims: OwnedClaims,
        scope: Option<String>,
    },
    /// A service account's signed assertion.
    JwtBearer {
        key: SigningKey,
        claims: OwnedClaims,
    },
}

/// What a token or an assertion of ours always claims; its moment and its id are new each time.
pub(super) struct OwnedClaims {
    pub(super) issuer: String,
    pub(super) subject: Option<String>,
    pub(super) audience: Option<String>,
    pub(super) scope: Option<String>,
    pub(super) lifetime: Option<Duration>,
}

/// A token in use.
pub(in crate::adapters::provider) struct Token {
    /// The value of the header, marked so that nothing prints it.
    pub(super) value: HeaderValue,
    life: Duration,
    since: BootMoment,
    worked: AtomicBool,
}

#[derive(Default)]
struct State {
    token: Option<Arc<Token>>,
    /// What the latest fetch came to if it failed, and until when that counts.
    failed: Option<(NoToken, BootMoment)>,
}

/// Why a fetch failed, and how long the endpoint is left alone then.
struct Failure {
    why: NoToken,
    wait: Duration,
}

impl From<NoToken> for Failure {
    fn from(why: NoToken) -> Self {
        Self { why, wait: PAUSE }
    }
}

/// There is no token now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unready {
    /// Why.
    pub why: NoToken,
    /// Ask again no sooner than this.
    pub wait: Duration,
    /// Whether it was found out just now and by this very question: of several who wait, one has asked.
    pub found_out: bool,
}

impl TokenSource {
    pub(super) fn new(maker: Maker, prefix: String) -> Self {
        Self {
            maker,
            prefix,
            state: Mutex::default(),
            making: tokio::sync::Mutex::default(),
        }
    }

    /// Sees to it that a request need not wait for its token. What is signed here is there at once.
    pub(super) async fn make_ready(&self, now: Timestamp) -> Result<(), Unready> {
        match self.maker {
            Maker::Signed { .. } => Ok(()),
            Maker::Fetched { .. } => self.token(now).await.map(drop),
        }
    }

    /// A token that is good for a request that leaves now; `now` is what a new one claims as its moment.
    pub(super) async fn token(&self, now: Timestamp) -> Result<Arc<Token>, Unready> {
        if let Maker::Signed { reuse: None, .. } = self.maker {
            return self.make(now).await;
        }
        match self.in_use() {
            Some((token, Freshness::Fresh)) => Ok(token),
            Some((token, _)) => match self.making.try_lock() {
                // The old one still serves: only one waits for the new one, and fails by nothing but its last moments.
                Ok(_one) => Ok(self.renewed(now).await.unwrap_or(token)),
                Err(_) => Ok(token),
            },
            None => {
                let _one = self.making.lock().await;
                match self.in_use() {
                    Some((token, _)) => Ok(token),
                    None => self.renewed(now).await,
                }
            }
        }
    }

    /// Takes note of how the provider answered a request with this token.
    pub(super) fn answered(&self, token: &Arc<Token>, status: u16) {
        let (fetched, at_least) = match &self.maker {
            Maker::Fetched { .. } => (true, FETCHED_AT_LEAST),
            Maker::Signed { reuse, .. } => (
                false,
                reuse.map_or(Duration::ZERO, |(_, at_least)| at_least),
            ),
        };
        let refused = RefusedToken {
            status,
            fetched,
            worked: token.worked.load(Ordering::Relaxed),
            age: token.since.elapsed(),
            at_least,
        };
        if is_thrown_away(&refused) {
            let mut state = self.state();
            if state
                .token
                .as_ref()
                .is_some_and(|own| Arc::ptr_eq(own, token))
            {
                state.token = None;
            }
        } else if !matches!(status, 401 | 403) {
            token.worked.store(true, Ordering::Relaxed);
        }
    }

    /// The token that may be used, unless it is over.
    fn in_use(&self) -> Option<(Arc<Token>, Freshness)> {
        let token = self.state().token.clone()?;
        let age = token.since.elapsed();
        let freshness = match self.maker {
            Maker::Fetched { .. } => freshness(token.life, age),
            Maker::Signed { .. } if age < token.life => Freshness::Fresh,
            Maker::Signed { .. } => Freshness::Over,
        };
        (freshness != Freshness::Over).then_some((token, freshness))
    }

    /// A new token, for the one who may make it. A failure counts for all who ask within a moment.
    async fn renewed(&self, now: Timestamp) -> Result<Arc<Token>, Unready> {
        if let Some((why, until)) = self.state().failed
            && !until.has_passed()
        {
            return Err(Unready {
                why,
                wait: until.remaining(),
                found_out: false,
            });
        }
        let made = self.make(now).await;
        let mut state = self.state();
        match &made {
            Ok(token) => {
                *state = State {
                    token: Some(Arc::clone(token)),
                    failed: None,
                }
            }
            Err(unready) => state.failed = Some((unready.why, BootMoment::after(unready.wait))),
        }
        made
    }

    async fn make(&self, now: Timestamp) -> Result<Arc<Token>, Unready> {
        // Its life begins before anybody can have handed it out.
        let since = BootMoment::now();
        let made = match &self.maker {
            Maker::Signed { key, claims, reuse } => {
                let life = reuse.map_or(Duration::ZERO, |(at_most, _)| at_most);
                let token = key.sign(&claims.at(now, None));
                token
                    .map(|token| (token, life))
                    .ok_or(NoToken::Unavailable.into())
            }
            Maker::Fetched { http, url, grant } => fetch(http, url, grant, now).await,
        };
        let token = made.and_then(|(token, life)| {
            let mut value = HeaderValue::try_from(format!("{}{token}", self.prefix))
                .map_err(|_| NoToken::Refused)?;
            value.set_sensitive(true);
            Ok(Token {
                value,
                life,
                since,
                worked: AtomicBool::new(false),
            })
        });
        token
            .map(Arc::new)
            .map_err(|Failure { why, wait }| Unready {
                why,
                wait,
                found_out: true,
            })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OwnedClaims {
    fn at<'a>(&'a self, now: Timestamp, id: Option<&'a str>) -> Claims<'a> {
        Claims {
            issuer: &self.issuer,
            subject: self.subject.as_deref(),
            audience: self.audience.as_deref(),
            scope: self.scope.as_deref(),
            id,
            issued_at: now,
            lifetime: self.lifetime,
        }
    }
}

/// Asks the endpoint once. Its answer is read to the cap, and shown nowhere.
async fn fetch(
    http: &reqwest::Client,
    url: &Url,
    grant: &Grant,
    now: Timestamp,
) -> Result<(String, Duration), Failure> {
    let deadline = BootMoment::after(FETCH_MAX);
    let signed = |key: &SigningKey, claims: &OwnedClaims, id: Option<&str>| {
        key.sign(&claims.at(now, id)).ok_or(NoToken::Unavailable)
    };
    let request = http.post(url.clone()).header(ACCEPT, "application/json");
    let request = match grant {
        Grant::Credentials {
            client_id,
            client_secret,
            secret_in,
            scope,
        } => {
            let (client_id, client_secret) = (client_id.expose(), client_secret.expose());
            let mut form = client_credentials_form(scope.as_deref());
            match secret_in {
                ClientSecretIn::Basic => {
                    let value = basic_authorization(client_id, client_secret);
                    let mut value = HeaderValue::try_from(value).map_err(|_| NoToken::Refused)?;
                    value.set_sensitive(true);
                    request.header(AUTHORIZATION, value).form(&form)
                }
                ClientSecretIn::Body => {
                    form.extend([("client_id", client_id), ("client_secret", client_secret)]);
                    request.form(&form)
                }
            }
        }
        Grant::ClientAssertion { key, claims, scope } => {
            let id = Clock::default().random_uuid().to_string();
            let assertion = signed(key, claims, Some(&id))?;
            request.form(&client_assertion_form(&assertion, scope.as_deref()))
        }
        Grant::JwtBearer { key, claims } => {
            request.form(&jwt_bearer_form(&signed(key, claims, None)?))
        }
    };
    let answered = tokio::time::timeout(deadline.remaining(), request.send()).await;
    // The error holds the address, and is not shown.
    let Ok(Ok(response)) = answered else {
        return Err(NoToken::Unavailable.into());
    };
    let response = received(response, deadline).await;
    match judge(response.status, &response.body) {
        // A grant that was cut is no refusal.
        Ok(_) | Err(NoToken::Refused)
            if !response.body_complete && (200..300).contains(&response.status) =>
        {
            Err(NoToken::Unavailable.into())
        }
        Ok(granted) => Ok((granted.access_token, granted.life)),
        Err(NoToken::Refused) => Err(NoToken::Refused.into()),
        Err(NoToken::Unavailable) => {
            let asked = response.headers.get_all(RETRY_AFTER).iter();
            let asked = asked.map(HeaderValue::as_bytes);
            let asked = retry_after::read(Form::RetryAfter, asked, now, WAIT_MAX_DEFAULT);
            Err(Failure {
                why: NoToken::Unavailable,
                wait: asked.map_or(PAUSE, |asked| asked.at_least.max(PAUSE)),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::provider::plain_client_with;
    use crate::adapters::provider::tests::server::{Server, answer};
    use crate::domain::signing::jwt::JwtAlgorithm;

    const LIFE: Duration = Duration::from_secs(100);

    /// A source whose endpoint is `server`, with a token of this age.
    fn fetching(server: &Server, age: u64) -> TokenSource {
        let secret = Secret::new("s");
        let grant = Grant::Credentials {
            client_id: secret.clone(),
            client_secret: secret,
            secret_in: ClientSecretIn::Basic,
            scope: None,
        };
        let maker = Maker::Fetched {
            http: plain_client_with(false, None, None).unwrap(),
            url: format!("http://{}/token", server.address).parse().unwrap(),
            grant,
        };
        aged(maker, age)
    }

    /// A source that signs, with a token of this age. One serves for 100 s, and for 40 s at least.
    fn signing(age: u64) -> TokenSource {
        let secret = Secret::new("s");
        let claims = OwnedClaims {
            issuer: "us".to_owned(),
            subject: None,
            audience: None,
            scope: None,
            lifetime: None,
        };
        let maker = Maker::Signed {
            key: SigningKey::new(JwtAlgorithm::Hs256, &secret, None).unwrap(),
            claims,
            reuse: Some((LIFE, Duration::from_secs(40))),
        };
        aged(maker, age)
    }

    fn aged(maker: Maker, age: u64) -> TokenSource {
        let source = TokenSource::new(maker, String::new());
        source.state().token = Some(Arc::new(Token {
            value: HeaderValue::from_static("old"),
            life: LIFE,
            since: BootMoment::ago(Duration::from_secs(age)),
            worked: AtomicBool::new(false),
        }));
        source
    }

    async fn served(source: &TokenSource) -> String {
        let token = source.token(Timestamp::EPOCH).await.unwrap();
        token.value.to_str().unwrap().to_owned()
    }

    async fn granting() -> Server {
        let grant = r#"{"access_token":"new","expires_in":100}"#;
        Server::answering(answer("200 OK", "", grant)).await
    }

    #[tokio::test]
    async fn a_token_is_renewed_before_it_expires_and_no_sooner() {
        let server = granting().await;
        assert_eq!(served(&fetching(&server, 70)).await, "old");
        assert_eq!(server.seen().connections, 0);
        assert_eq!(served(&fetching(&server, 85)).await, "new");
        assert_eq!(served(&fetching(&server, 95)).await, "new");
        assert_eq!(server.seen().connections, 2);
    }

    #[tokio::test]
    async fn while_one_renews_it_the_others_use_the_old_one_and_a_failure_hurts_nobody_yet() {
        let server = granting().await;
        let source = fetching(&server, 85);
        let one = source.making.lock().await;
        assert_eq!(served(&source).await, "old");
        drop(one);
        let broken = Server::answering(answer("500 Internal Server Error", "", "")).await;
        let source = fetching(&broken, 85);
        for _ in 0..3 {
            assert_eq!(served(&source).await, "old");
        }
        assert_eq!(
            broken.seen().whole.len(),
            1,
            "it is left alone for a moment"
        );
        let source = fetching(&broken, 95);
        let unready = source.token(Timestamp::EPOCH).await.err().unwrap();
        assert_eq!(
            (unready.why, unready.found_out),
            (NoToken::Unavailable, true)
        );
    }

    #[tokio::test]
    async fn an_endpoint_that_asks_for_a_wait_gets_it() {
        for (wait, seconds) in [("30", 30), ("0", 1), ("soon", 1)] {
            let headers = format!("retry-after: {wait}\r\n");
            let busy = Server::answering(answer("429 Too Many Requests", &headers, "")).await;
            let source = fetching(&busy, 95);
            let unready = source.token(Timestamp::EPOCH).await.err().unwrap();
            assert_eq!(unready.wait, Duration::from_secs(seconds), "{wait}");
            let unready = source.token(Timestamp::EPOCH).await.err().unwrap();
            assert!(!unready.found_out && unready.wait > Duration::from_secs(seconds) / 2);
        }
    }

    #[tokio::test]
    async fn a_token_of_ours_serves_as_long_as_is_said_and_a_refused_one_is_replaced_no_sooner_than_is_said()
     {
        assert_eq!(served(&signing(95)).await, "old");
        assert_ne!(served(&signing(101)).await, "old");
        for (age, status, replaced) in [(30, 403, false), (50, 403, true), (50, 400, false)] {
            let source = signing(age);
            let token = source.token(Timestamp::EPOCH).await.ok().unwrap();
            source.answered(&token, status);
            assert_eq!(served(&source).await != "old", replaced, "{age} {status}");
        }
    }

    #[tokio::test]
    async fn a_late_refusal_of_an_earlier_token_takes_nothing_from_its_successor() {
        let server = granting().await;
        let source = fetching(&server, 70);
        let old = source.token(Timestamp::EPOCH).await.ok().unwrap();
        source.answered(&old, 200);
        source.answered(&old, 401);
        assert_eq!(served(&source).await, "new");
        source.answered(&old, 401);
        assert_eq!(served(&source).await, "new");
        assert_eq!(server.seen().whole.len(), 1);
    }
}
