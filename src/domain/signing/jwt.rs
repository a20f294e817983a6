//! Decides what a JSON Web Token says before it is signed, and how it is put together (RFC 7519 over RFC 7515, the compact
//! form). It holds no private key: whoever has one signs what `signing_input` returns.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use sha2::Sha256;

use crate::domain::time::Timestamp;

/// How a token is signed (RFC 7518, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JwtAlgorithm {
    /// HMAC with SHA-256, under a secret that both sides have.
    Hs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
}

impl JwtAlgorithm {
    /// Every algorithm, in the order of the enum.
    pub const ALL: [Self; 4] = [Self::Hs256, Self::Es256, Self::Rs256, Self::Rs512];

    /// Its name in the header of a token, and in profiles.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
            Self::Rs512 => "RS512",
        }
    }

    /// Whether the provider holds the same secret, instead of a public key.
    pub const fn is_shared_secret(self) -> bool {
        match self {
            Self::Hs256 => true,
            Self::Es256 | Self::Rs256 | Self::Rs512 => false,
        }
    }
}

/// What a token claims. What is absent is left out.
#[derive(Clone, Copy, Debug)]
pub struct Claims<'a> {
    /// `iss`: who says so.
    pub issuer: &'a str,
    /// `sub`: of whom.
    pub subject: Option<&'a str>,
    /// `aud`: to whom.
    pub audience: Option<&'a str>,
    /// `scope`, as Google reads it in an assertion.
    pub scope: Option<&'a str>,
    /// `jti`: an id that no other token of this issuer has.
    pub id: Option<&'a str>,
    /// `iat`, by the wall clock, in whole seconds.
    pub issued_at: Timestamp,
    /// `exp` is so long after `iat`; a part of a second is cut off.
    pub lifetime: Option<Duration>,
}

#[derive(Serialize)]
struct WrittenHeader<'a> {
    alg: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kid: Option<&'a str>,
    typ: &'a str,
}

#[derive(Serialize)]
struct WrittenClaims<'a> {
    iss: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jti: Option<&'a str>,
    iat: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    exp: Option<i64>,
}

/// Header and claims as they are signed (RFC 7515, section 5.1, steps 1 to 5).
pub fn signing_input(algorithm: JwtAlgorithm, key_id: Option<&str>, claims: &Claims<'_>) -> String {
    let header = WrittenHeader {
        alg: algorithm.name(),
        kid: key_id,
        typ: "JWT",
    };
    let seconds = |moment: Timestamp| moment.as_millis().div_euclid(1_000);
    let issued_at = seconds(claims.issued_at);
    let lifetime = claims.lifetime.map(|span| span.as_secs());
    let written = WrittenClaims {
        iss: claims.issuer,
        sub: claims.subject,
        aud: claims.audience,
        scope: claims.scope,
        jti: claims.id,
        iat: issued_at,
        exp: lifetime.map(|span| issued_at.saturating_add_unsigned(span)),
    };
    format!("{}.{}", encoded(&header), encoded(&written))
}

/// The whole token: what was signed, and its signature.
pub fn assembled(signing_input: &str, signature: &[u8]) -> String {
    format!("{signing_input}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// The signature of HS256 (RFC 7518, section 3.2).
pub fn hs256(secret: &[u8], signing_input: &str) -> Vec<u8> {
    // HMAC takes a key of any length.
    Hmac::<Sha256>::new_from_slice(secret).map_or_else(
        |_| Vec::new(),
        |mac| {
            mac.chain_update(signing_input)
                .finalize()
                .into_bytes()
                .to_vec()
        },
    )
}

fn encoded(part: &impl Serialize) -> String {
    // Texts and whole numbers: nothing in them fails to be written.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(part).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOVUK: Claims<'_> = Claims {
        issuer: "26785a09-ab16-4eb0-8407-a37497a57506",
        subject: None,
        audience: None,
        scope: None,
        id: None,
        issued_at: Timestamp::from_millis(1_568_818_578_999),
        lifetime: None,
    };

    fn shown(input: &str) -> String {
        let part = |text: &str| String::from_utf8(URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap();
        let (header, claims) = input.split_once('.').unwrap();
        format!("{} {}", part(header), part(claims))
    }

    /// RFC 7515, appendix A.1: the header there has a line break in it, so that its input is taken as it stands.
    #[test]
    fn hs256_is_that_of_rfc_7515() {
        let key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
        let input = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.\
            eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let signature = hs256(&URL_SAFE_NO_PAD.decode(key).unwrap(), input);
        assert_eq!(
            assembled(input, &signature),
            format!("{input}.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
        );
    }

    /// The names and values of the example in alphagov/notifications-tech-docs, source/documentation/_api_docs.md, "Authorisation
    /// header" (read 2026-11-30).
    #[test]
    fn what_is_absent_is_left_out_and_the_moment_is_cut_to_seconds() {
        let input = signing_input(JwtAlgorithm::Hs256, None, &GOVUK);
        assert_eq!(
            shown(&input),
            r#"{"alg":"HS256","typ":"JWT"} {"iss":"26785a09-ab16-4eb0-8407-a37497a57506","iat":1568818578}"#
        );
        let signature = hs256(b"3d844edf-8d35-48ac-975b-e847b4f122b0", &input);
        assert_eq!(
            assembled(&input, &signature),
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
             eyJpc3MiOiIyNjc4NWEwOS1hYjE2LTRlYjAtODQwNy1hMzc0OTdhNTc1MDYiLCJpYXQiOjE1Njg4MTg1Nzh9.\
             YlLRluAeKD8aULjyZVgSwNwmUxolUmcv5g2k84o7ZTU"
        );
    }

    #[test]
    fn every_claim_has_its_name_and_exp_follows_from_iat() {
        let claims = Claims {
            issuer: "app@example.iam",
            subject: Some("app"),
            audience: Some("https://issuer.example/token"),
            scope: Some("a b"),
            id: Some("one-of-a-kind"),
            issued_at: Timestamp::from_millis(1_000),
            lifetime: Some(Duration::from_millis(300_900)),
        };
        let input = signing_input(JwtAlgorithm::Rs512, Some("key-1"), &claims);
        assert_eq!(
            shown(&input),
            r#"{"alg":"RS512","kid":"key-1","typ":"JWT"} "#.to_owned()
                + r#"{"iss":"app@example.iam","sub":"app","aud":"https://issuer.example/token","scope":"a b","#
                + r#""jti":"one-of-a-kind","iat":1,"exp":301}"#
        );
    }

    #[test]
    fn no_text_can_add_a_claim() {
        let claims = Claims {
            issuer: r#"a","exp":9,"x":"\"#,
            ..GOVUK
        };
        let input = signing_input(JwtAlgorithm::Es256, Some("\"\n"), &claims);
        assert_eq!(
            shown(&input),
            r#"{"alg":"ES256","kid":"\"\n","typ":"JWT"} {"iss":"a\",\"exp\":9,\"x\":\"\\","iat":1568818578}"#
        );
    }
}
