//! Decides what is asked of a token endpoint (RFC 6749), what its answer means, and how long a token is used. It knows no clock:
//! how old a token is, is an argument, measured by a clock that does not step.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use url::form_urlencoded::byte_serialize;

/// The form of a request for a token by the client's own credentials (RFC 6749, section 4.4.2).
pub fn client_credentials_form(scope: Option<&str>) -> Vec<(&'static str, &str)> {
    let mut form = vec![("grant_type", "client_credentials")];
    form.extend(scope.map(|scope| ("scope", scope)));
    form
}

/// The same, where an assertion takes the place of a secret (RFC 7523, section 2.2).
pub fn client_assertion_form<'a>(
    assertion: &'a str,
    scope: Option<&'a str>,
) -> Vec<(&'static str, &'a str)> {
    let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    let mut form = client_credentials_form(scope);
    form.extend([
        ("client_assertion_type", kind),
        ("client_assertion", assertion),
    ]);
    form
}

/// The form of a request that exchanges an assertion for a token (RFC 7523, section 2.1).
pub fn jwt_bearer_form(assertion: &str) -> Vec<(&'static str, &str)> {
    vec![
        ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
        ("assertion", assertion),
    ]
}

/// The value of the header that shows a client's id and secret: each is encoded as in a form before they are joined (RFC 6749,
/// section 2.3.1).
pub fn basic_authorization(client_id: &str, client_secret: &str) -> String {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(client_id), encoded(client_secret));
    format!("Basic {}", STANDARD.encode(pair))
}

/// A token that was handed out. Nothing shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Granted {
    /// The token.
    pub access_token: String,
    /// How long it is good for, from when it was asked for.
    pub life: Duration,
}

impl fmt::Debug for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Granted")
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}

/// What a token lives for if its endpoint does not say, or not in whole seconds.
const LIFE_DEFAULT: Duration = Duration::from_secs(300);

#[derive(Deserialize)]
struct WrittenGrant {
    access_token: String,
    token_type: Option<String>,
    expires_in: Option<serde_json::Value>,
}

/// The token in a body of RFC 6749, section 5.1; `None` if there is none to be borne. A life may be a number or a text of digits,
/// as the NHS's endpoint writes it.
pub fn read_grant(body: &[u8]) -> Option<Granted> {
    let written: WrittenGrant = serde_json::from_slice(body).ok()?;
    let is_bearer = written
        .token_type
        .is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    let life = match written.expires_in {
        None | Some(serde_json::Value::Null) => LIFE_DEFAULT,
        Some(value) => {
            let digits = value.as_str().map(str::to_owned);
            let digits = digits.unwrap_or_else(|| value.to_string());
            digits.parse().map_or(LIFE_DEFAULT, Duration::from_secs)
        }
    };
    let some = is_bearer && !written.access_token.is_empty();
    some.then_some(Granted {
        access_token: written.access_token,
        life,
    })
}

/// What came of asking for a token, if not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoToken {
    /// The endpoint refuses us, or is none.
    Refused,
    /// It cannot be reached, or cannot answer now.
    Unavailable,
}

/// Reads an endpoint's whole answer.
///
/// # Errors
///
/// What its status means where that is not 2xx, and a 2xx without a token.
pub fn judge(status: u16, body: &[u8]) -> Result<Granted, NoToken> {
    match status {
        200..=299 => read_grant(body).ok_or(NoToken::Refused),
        // Time-out, too early, too many requests; and the server's own trouble.
        408 | 425 | 429 | 500..=599 => Err(NoToken::Unavailable),
        0..=199 | 300..=407 | 409..=424 | 426..=428 | 430..=499 | 600..=u16::MAX => {
            Err(NoToken::Refused)
        }
    }
}

/// How good a token still is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// It is used.
    Fresh,
    /// It is used, and the next one is fetched meanwhile.
    Due,
    /// It is used no more: it might expire before it arrives.
    Over,
}

/// How good a token of this life is at this age. It is due for its last fifth, five minutes at most, and over for its last tenth,
/// thirty seconds at most.
pub fn freshness(life: Duration, age: Duration) -> Freshness {
    let left = life.saturating_sub(age);
    if left <= (life / 10).min(Duration::from_secs(30)) {
        Freshness::Over
    } else if left <= (life / 5).min(Duration::from_secs(300)) {
        Freshness::Due
    } else {
        Freshness::Fresh
    }
}

/// A token that a provider has refused.
#[derive(Clone, Copy, Debug)]
pub struct RefusedToken {
    /// The status that it was refused with.
    pub status: u16,
    /// Whether it was fetched, or else signed by us.
    pub fetched: bool,
    /// Whether the provider had taken it before.
    pub worked: bool,
    /// How long ago it was made.
    pub age: Duration,
    /// No new one may be made before this age.
    pub at_least: Duration,
}

/// Whether a refused token is thrown away before its time. One that was fetched may have been revoked: at once if it has worked
/// before, else once it is old enough for another to be worth its while. One that we signed can only be too old, or ahead of
/// its time; Apple refuses such a one with 403.
pub fn is_thrown_away(refused: &RefusedToken) -> bool {
    match refused.fetched {
        true => refused.status == 401 && (refused.worked || refused.age >= refused.at_least),
        false => matches!(refused.status, 401 | 403) && refused.age >= refused.at_least,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(body: &str) -> Option<(String, u64)> {
        let granted = read_grant(body.as_bytes())?;
        Some((granted.access_token, granted.life.as_secs()))
    }

    /// RFC 6749, section 5.1; PayPal's "Get an access token" and the NHS's "signed JWT authentication" (both read 2026-11-30).
    #[test]
    fn a_grant_is_read_in_the_forms_that_endpoints_give_it() {
        for (body, token, life) in [
            (
                r#"{"access_token":"2YotnFZFEjr1zCsicMWpAA","token_type":"example","expires_in":3600}"#,
                None,
                0,
            ),
            (
                r#"{"access_token":"2YotnFZFEjr1zCsicMWpAA","token_type":"Bearer","expires_in":3600}"#,
                Some("2YotnFZFEjr1zCsicMWpAA"),
                3_600,
            ),
            (
                r#"{"scope":"scope","access_token":"t","token_type":"Bearer","app_id":"a","expires_in":31349,"nonce":"n"}"#,
                Some("t"),
                31_349,
            ),
            (
                r#"{"access_token":"t","expires_in":"599","token_type":"bearer"}"#,
                Some("t"),
                599,
            ),
            (r#"{"access_token":"t"}"#, Some("t"), 300),
            (r#"{"access_token":"t","expires_in":null}"#, Some("t"), 300),
            (r#"{"access_token":"t","expires_in":-1}"#, Some("t"), 300),
            (
                r#"{"access_token":"t","expires_in":"soon"}"#,
                Some("t"),
                300,
            ),
            (r#"{"access_token":""}"#, None, 0),
            (r#"{"error":"invalid_client"}"#, None, 0),
            ("<html>", None, 0),
        ] {
            let expected = token.map(|token| (token.to_owned(), life));
            assert_eq!(grant(body), expected, "{body}");
        }
    }

    #[test]
    fn a_refusal_is_told_from_trouble() {
        let told = |status| judge(status, br#"{"access_token":"t"}"#);
        for status in [200, 201, 299] {
            assert!(told(status).is_ok(), "{status}");
        }
        for status in [302, 400, 401, 403, 404, 422] {
            assert_eq!(told(status), Err(NoToken::Refused), "{status}");
        }
        for status in [408, 425, 429, 500, 502, 503, 504, 599] {
            assert_eq!(told(status), Err(NoToken::Unavailable), "{status}");
        }
        assert_eq!(judge(200, b"{}"), Err(NoToken::Refused));
    }

    #[test]
    fn a_token_is_renewed_before_it_expires_and_not_used_in_its_last_moments() {
        for (life, due, over) in [
            (3_600, 3_300, 3_570),
            (600, 480, 570),
            (10, 8, 9),
            (1, 1, 1),
        ] {
            let at = |age| freshness(Duration::from_secs(life), Duration::from_secs(age));
            assert_eq!(at(0), Freshness::Fresh, "{life}");
            if due < over {
                assert_eq!(at(due - 1), Freshness::Fresh, "{life}");
                assert_eq!(at(due), Freshness::Due, "{life}");
                assert_eq!(at(over - 1), Freshness::Due, "{life}");
            }
            assert_eq!(at(over), Freshness::Over, "{life}");
            assert_eq!(at(life + 1), Freshness::Over, "{life}");
        }
        assert_eq!(freshness(Duration::ZERO, Duration::ZERO), Freshness::Over);
    }

    #[test]
    fn a_fetched_token_that_worked_is_thrown_away_by_a_401_and_one_that_never_did_only_after_a_while()
     {
        let refused = |status, worked, age| {
            is_thrown_away(&RefusedToken {
                status,
                fetched: true,
                worked,
                age: Duration::from_secs(age),
                at_least: Duration::from_secs(60),
            })
        };
        assert!(refused(401, true, 0));
        assert!(!refused(401, false, 59));
        assert!(refused(401, false, 60));
        assert!(!refused(403, true, 3_600));
    }

    #[test]
    fn a_token_that_we_signed_is_signed_anew_no_sooner_than_its_provider_bears() {
        let refused = |status, age| {
            is_thrown_away(&RefusedToken {
                status,
                fetched: false,
                worked: true,
                age: Duration::from_secs(age),
                at_least: Duration::from_secs(1_200),
            })
        };
        assert!(!refused(403, 1_199));
        assert!(refused(403, 1_200));
        assert!(refused(401, 1_200));
        assert!(!refused(400, 3_600));
    }

    /// The first is RFC 6749's own example, section 2.3.1.
    #[test]
    fn a_client_s_id_and_secret_are_encoded_before_they_are_joined() {
        assert_eq!(
            basic_authorization("s6BhdRkqt3", "7Fjfp0ZBr1KtDRbnfVdmIw"),
            "Basic czZCaGRSa3F0Mzo3RmpmcDBaQnIxS3REUmJuZlZkbUl3"
        );
        // a%3Ab:c+%2F
        assert_eq!(basic_authorization("a:b", "c /"), "Basic YSUzQWI6YyslMkY=");
    }

    #[test]
    fn each_grant_asks_by_its_own_name() {
        assert_eq!(
            client_credentials_form(Some("a b")),
            [("grant_type", "client_credentials"), ("scope", "a b")]
        );
        assert_eq!(
            client_assertion_form("e.y.J", None),
            [
                ("grant_type", "client_credentials"),
                (
                    "client_assertion_type",
                    "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
                ),
                ("client_assertion", "e.y.J"),
            ]
        );
        assert_eq!(
            jwt_bearer_form("e.y.J"),
            [
                ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                ("assertion", "e.y.J"),
            ]
        );
    }
}
