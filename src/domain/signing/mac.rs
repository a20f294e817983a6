//! Decides the headers of a request that is signed with a MAC, by what its profile says is covered.

use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest, Sha256, Sha512};

use super::{Outgoing, hex};
use crate::domain::profile::{HmacAuth, MacHash, MacPart, MacText, SecretForm, Written};
use crate::domain::time::Timestamp;

/// The bytes of a secret that is written in `form`; `None` if it is not.
pub fn secret_bytes(form: SecretForm, text: &str) -> Option<Vec<u8>> {
    match form {
        SecretForm::Text => Some(text.as_bytes().to_vec()),
        SecretForm::Base64 => STANDARD.decode(text).ok(),
        SecretForm::Hex => {
            let digit = |byte: u8| {
                char::from(byte)
                    .to_digit(16)
                    .and_then(|d| u8::try_from(d).ok())
            };
            text.as_bytes()
                .chunks(2)
                .map(|pair| match pair {
                    [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
                    _ => None,
                })
                .collect()
        }
    }
}

/// The headers that sign `request` at `now`; `None` if a header has to say what no header can.
pub fn signed(
    auth: &HmacAuth,
    secret: &[u8],
    request: &Outgoing<'_>,
    now: Timestamp,
) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let mut added = HeaderMap::new();
    let mut signature = None;
    let mut headers = Vec::with_capacity(auth.headers.len());
    for (name, text) in &auth.headers {
        if text.has_signature() && signature.is_none() {
            let covered = filled(&auth.signs, request, &added, now, "")?;
            signature = Some(written(auth.written, &mac(auth.hash, secret, &covered)?));
        }
        let signature = signature.as_deref().unwrap_or_default();
        let value = filled(text, request, &added, now, signature)?;
        let value = HeaderValue::from_bytes(&value).ok()?;
        added.insert(name.clone(), value.clone());
        headers.push((name.clone(), value));
    }
    Some(headers)
}

fn filled(
    text: &MacText,
    request: &Outgoing<'_>,
    added: &HeaderMap,
    now: Timestamp,
    signature: &str,
) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(256 + request.body.len());
    let millis = u64::try_from(now.as_millis()).ok()?;
    for part in &text.0 {
        match part {
            MacPart::Literal(literal) => out.extend_from_slice(literal.as_bytes()),
            MacPart::Method => out.extend_from_slice(request.method.as_str().as_bytes()),
            MacPart::Host => out.extend_from_slice(request.host().as_bytes()),
            MacPart::Path => out.extend_from_slice(request.url.path().as_bytes()),
            MacPart::Target => {
                out.extend_from_slice(request.url.path().as_bytes());
                if let Some(query) = request.url.query() {
                    out.push(b'?');
                    out.extend_from_slice(query.as_bytes());
                }
            }
            MacPart::Body => out.extend_from_slice(request.body),
            MacPart::BodySha256(form) => {
                let digest = Sha256::digest(request.body);
                out.extend_from_slice(written(*form, &digest).as_bytes());
            }
            MacPart::Timestamp => out.extend_from_slice((millis / 1_000).to_string().as_bytes()),
            MacPart::TimestampMs => out.extend_from_slice(millis.to_string().as_bytes()),
            MacPart::Date => {
                let seconds = (millis / 1_000).min(LAST_HTTP_DATE);
                let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
                out.extend_from_slice(date.as_bytes());
            }
            MacPart::Header(name) => {
                let value = request.headers.get(name).or_else(|| added.get(name));
                out.extend_from_slice(value.map_or(&[], HeaderValue::as_bytes));
            }
            MacPart::Signature => out.extend_from_slice(signature.as_bytes()),
        }
    }
    Some(out)
}

/// The last second that an HTTP date can write.
const LAST_HTTP_DATE: u64 = 253_402_300_799;

fn mac(hash: MacHash, secret: &[u8], covered: &[u8]) -> Option<Vec<u8>> {
    // HMAC takes a key of any length.
    Some(match hash {
        MacHash::Sha256 => Hmac::<Sha256>::new_from_slice(secret)
            .ok()?
            .chain_update(covered)
            .finalize()
            .into_bytes()
            .to_vec(),
        MacHash::Sha512 => Hmac::<Sha512>::new_from_slice(secret)
            .ok()?
            .chain_update(covered)
            .finalize()
            .into_bytes()
            .to_vec(),
    })
}

fn written(form: Written, bytes: &[u8]) -> String {
    match form {
        Written::Base64 => STANDARD.encode(bytes),
        Written::Hex => hex(bytes),
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::domain::profile::tests::BASE;
    use crate::domain::profile::{Auth, Profile};

    fn auth(fields: &str) -> HmacAuth {
        let text = BASE.replace(
            "method",
            &format!(r#"auth = {{ kind = "hmac", {fields} }}, method"#),
        ) + "\n[key]\nplace = \"header webhook-id\"\nmax_len = 36\nwindow = \"1h\"\nwindow_source = \"assumed\"\n";
        let Auth::Hmac(auth) = Profile::parse(&text).unwrap().request.auth else {
            panic!("an HMAC");
        };
        *auth
    }

    fn headers(auth: &HmacAuth, secret: &str, url: &str, body: &str, now: i64) -> Vec<String> {
        let own = [("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")]
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let request = Outgoing {
            method: &Method::POST,
            url: &url.parse().unwrap(),
            headers: &own.into_iter().collect(),
            body: body.as_bytes(),
        };
        let secret = secret_bytes(auth.secret_form, secret).unwrap();
        signed(auth, &secret, &request, Timestamp::from_millis(now))
            .unwrap()
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect()
    }

    /// The example of Standard Webhooks' own libraries (standard-webhooks/standard-webhooks, libraries/go, and svix/svix-webhooks,
    /// php/tests/WebhookTest.php, `testSignFunctionWorks`, read 2026-11-30). The secret stands there behind `whsec_`.
    #[test]
    fn standard_webhooks_can_be_said() {
        let auth = auth(
            r#"secret = "env:S", secret_form = "base64", written = "base64",
            signs = "{{ header webhook-id }}.{{ timestamp }}.{{ body }}",
            headers = { webhook-timestamp = "{{ timestamp }}", webhook-signature = "v1,{{ signature }}" }"#
                .replace('\n', " ")
                .as_str(),
        );
        assert_eq!(
            headers(
                &auth,
                "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                "https://a.example/hook",
                r#"{"test": 2432232314}"#,
                1_614_265_330_000
            ),
            [
                "webhook-timestamp: 1614265330",
                "webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            ]
        );
    }

    /// The form of Azure Communication Services (https://learn.microsoft.com/en-us/azure/communication-services/tutorials/
    /// hmac-header-tutorial, read 2026-11-30). The values are made with Python's hmac and hashlib: the page gives none.
    #[test]
    fn a_signature_covers_the_headers_beside_it() {
        let auth = auth(
            r#"secret = "env:S", secret_form = "base64", written = "base64",
            signs = "{{ method }}\n{{ target }}\n{{ header x-ms-date }};{{ host }};{{ header x-ms-content-sha256 }}",
            headers = { Authorization = "HMAC-SHA256 SignedHeaders=x-ms-date;host;x-ms-content-sha256&Signature={{ signature }}",
            x-ms-date = "{{ date }}", x-ms-content-sha256 = "{{ body_sha256_base64 }}" }"#
                .replace('\n', " ")
                .as_str(),
        );
        assert_eq!(
            headers(
                &auth,
                "c2VjcmV0",
                "https://a.example:8443/sms?api-version=2021-03-07",
                "{}",
                784_111_777_999
            ),
            [
                "x-ms-content-sha256: RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o=",
                "x-ms-date: Sun, 06 Nov 1994 08:49:37 GMT",
                "authorization: HMAC-SHA256 SignedHeaders=x-ms-date;host;x-ms-content-sha256&Signature=SpLB2ZNrCFwoz/LZTujOMTFnTJunpdyKNzLipMAjPNM=",
            ]
        );
    }

    #[test]
    fn every_part_has_its_value_and_sha512_is_written_in_hexadecimal() {
        let auth = auth(
            r#"secret = "env:S", secret_form = "hex", hash = "sha512", signs = "{{ body }}",
            headers = { x-parts = "{{ method }} {{ host }} {{ path }} {{ timestamp_ms }} {{ body_sha256_hex }}",
            x-signature = "t={{ timestamp }},v1={{ signature }}" }"#
                .replace('\n', " ")
                .as_str(),
        );
        assert_eq!(
            headers(&auth, "00fF", "https://a.example/p%20q?x=1", "{}", 1_999),
            [
                "x-parts: POST a.example /p%20q 1999 44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
                "x-signature: t=1,v1=8148521a2ed5befca9e19f67fedd6f61e7d4bf828b157c375ce2078bfa3716f4bf04dbc069bc8235537dbdd11dc64e3abfeb1f05bf2f80b73318315e3e14db44",
            ]
        );
    }

    #[test]
    fn a_secret_that_is_not_written_as_it_is_said_is_none() {
        assert_eq!(secret_bytes(SecretForm::Base64, "&&"), None);
        assert_eq!(secret_bytes(SecretForm::Hex, "abc"), None);
        assert_eq!(secret_bytes(SecretForm::Hex, "zz"), None);
        assert_eq!(secret_bytes(SecretForm::Hex, "0aF0"), Some(vec![10, 240]));
        assert_eq!(secret_bytes(SecretForm::Text, "zz"), Some(b"zz".to_vec()));
    }
}
