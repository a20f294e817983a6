//! Decides the headers of AWS Signature Version 4, for every service but S3, whose paths are encoded otherwise ("Create a signed
//! AWS API request", <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>, read
//! 2026-11-30). It knows no long-term key but those that it is given, and no clock.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit, Mac};
use http::header::{AUTHORIZATION, HOST, HeaderName};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

use super::{Outgoing, hex};
use crate::domain::time::Timestamp;

/// Who signs.
#[derive(Clone, Copy)]
pub struct AwsKeys<'a> {
    /// The access key's id.
    pub access_key_id: &'a str,
    /// The access key itself.
    pub secret_access_key: &'a str,
    /// What goes with temporary keys.
    pub session_token: Option<&'a str>,
}

/// What a signature holds for.
#[derive(Clone, Copy, Debug)]
pub struct AwsScope<'a> {
    /// The region, such as `eu-west-1`.
    pub region: &'a str,
    /// The service's signing name, such as `ses`.
    pub service: &'a str,
}

/// The moment of the signature.
pub const X_AMZ_DATE: HeaderName = HeaderName::from_static("x-amz-date");
/// What goes with temporary keys.
pub const X_AMZ_SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// Everything but RFC 3986's unreserved characters is encoded in a query.
const IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A path keeps its slashes; what is encoded in it already is encoded again.
const IN_PATH: &AsciiSet = &IN_QUERY.remove(b'/');

/// The headers that sign `request` at `now`; `None` if a header of it is no text.
///
/// Signed are the method, the whole URL, the host, every header of the request and the body.
pub fn signed(
    request: &Outgoing<'_>,
    keys: &AwsKeys<'_>,
    scope: &AwsScope<'_>,
    now: Timestamp,
) -> Option<Vec<(HeaderName, String)>> {
    let moment = jiff::Timestamp::from_millisecond(now.as_millis()).ok()?;
    let at = moment.strftime("%Y%m%dT%H%M%SZ").to_string();
    let day = moment.strftime("%Y%m%d").to_string();
    let mut added = vec![(X_AMZ_DATE, at.clone())];
    if let Some(token) = keys.session_token {
        added.push((X_AMZ_SECURITY_TOKEN, token.to_owned()));
    }
    let (canonical, names) = canonical_request(request, &added)?;
    let covered = format!("{day}/{}/{}/aws4_request", scope.region, scope.service);
    let to_sign = format!(
        "AWS4-HMAC-SHA256\n{at}\n{covered}\n{}",
        hex(&Sha256::digest(canonical))
    );
    let mut key = mac(
        format!("AWS4{}", keys.secret_access_key).as_bytes(),
        day.as_bytes(),
    );
    for step in [scope.region, scope.service, "aws4_request"] {
        key = mac(&key, step.as_bytes());
    }
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={}/{covered}, SignedHeaders={names}, Signature={}",
        keys.access_key_id,
        hex(&mac(&key, to_sign.as_bytes()))
    );
    added.push((AUTHORIZATION, authorization));
    Some(added)
}

/// The request in the one form that both sides hash, and the names of the headers in it.
fn canonical_request(
    request: &Outgoing<'_>,
    added: &[(HeaderName, String)],
) -> Option<(String, String)> {
    let mut lines: Vec<(&str, String)> = vec![(HOST.as_str(), request.host())];
    lines.extend(
        added
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone())),
    );
    for name in request.headers.keys() {
        let values: Option<Vec<String>> = request
            .headers
            .get_all(name)
            .iter()
            .map(|value| Some(single_spaced(value.to_str().ok()?)))
            .collect();
        lines.push((name.as_str(), values?.join(",")));
    }
    lines.sort_unstable();
    let names: Vec<_> = lines.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let mut out = format!(
        "{}\n{}\n{}\n",
        request.method,
        utf8_percent_encode(request.url.path(), IN_PATH),
        canonical_query(request)
    );
    for (name, value) in &lines {
        let _ = writeln!(out, "{name}:{value}");
    }
    let _ = write!(out, "\n{names}\n{}", hex(&Sha256::digest(request.body)));
    Some((out, names))
}

/// The parameters by name and value, each encoded by itself.
fn canonical_query(request: &Outgoing<'_>) -> String {
    let encode = |text: &str| utf8_percent_encode(text, IN_QUERY).to_string();
    let mut pairs: Vec<_> = request
        .url
        .query_pairs()
        .map(|(name, value)| (encode(&name), encode(&value)))
        .collect();
    pairs.sort_unstable();
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join("&")
}

/// A header's value without blanks at its ends, and with one where there are several.
fn single_spaced(value: &str) -> String {
    let words: Vec<_> = value.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    // HMAC takes a key of any length.
    Hmac::<Sha256>::new_from_slice(key).map_or_else(
        |_| Vec::new(),
        |mac| mac.chain_update(text).finalize().into_bytes().to_vec(),
    )
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, Method};
    use url::Url;

    use super::*;

    /// The keys and the scope of AWS's test suite.
    const KEYS: AwsKeys<'_> = AwsKeys {
        access_key_id: "AKIDEXAMPLE",
        secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        session_token: None,
    };
    const SCOPE: AwsScope<'_> = AwsScope {
        region: "us-east-1",
        service: "service",
    };
    /// 2015-08-30T12:36:00Z.
    const AT: Timestamp = Timestamp::from_millis(1_440_938_160_000);

    /// One case of the suite: its name, the request, the headers that are signed beside host and date, the signature.
    struct Case {
        name: &'static str,
        method: Method,
        target: &'static str,
        headers: &'static [(&'static str, &'static str)],
        body: &'static str,
        signature: &'static str,
    }

    const fn get(name: &'static str, target: &'static str, signature: &'static str) -> Case {
        Case {
            name,
            method: Method::GET,
            target,
            headers: &[],
            body: "",
            signature,
        }
    }

    const fn post(
        name: &'static str,
        headers: &'static [(&'static str, &'static str)],
        body: &'static str,
        signature: &'static str,
    ) -> Case {
        Case {
            name,
            method: Method::POST,
            target: "/",
            headers,
            body,
            signature,
        }
    }

    fn authorization(case: &Case, keys: &AwsKeys<'_>) -> String {
        let url: Url = format!("https://example.amazonaws.com{}", case.target)
            .parse()
            .unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in case.headers {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, HeaderValue::from_static(value));
        }
        let request = Outgoing {
            method: &case.method,
            url: &url,
            headers: &headers,
            body: case.body.as_bytes(),
        };
        let added = signed(&request, keys, &SCOPE, AT).unwrap();
        let (name, value) = added.last().unwrap().clone();
        assert_eq!(name, AUTHORIZATION);
        value
    }

    /// awslabs/aws-c-auth v0.9.0, tests/aws-signing-test-suite/v4 (Apache-2.0), the files header-signature.txt, read 2026-11-30. Left out
    /// are those whose request no URL of ours can be: a path that is not in normal form, or not encoded.
    #[test]
    fn signatures_are_those_of_the_suite_of_aws() {
        for case in [
            get(
                "get-vanilla",
                "/",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            get(
                "get-unreserved",
                "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
                "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
            ),
            get(
                "get-vanilla-query-order-key-case",
                "/?Param2=value2&Param1=value1",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            get(
                "get-vanilla-query-order-encoded",
                "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1",
                "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
            ),
            get(
                "get-vanilla-utf8-query",
                "/?ሴ=bar",
                "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
            ),
            get(
                "get-vanilla-query-unreserved",
                "/?-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz=\
                 -._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
                "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
            ),
            post(
                "post-vanilla",
                &[],
                "",
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            post(
                "post-header-key-sort",
                &[("My-Header1", "value1")],
                "",
                "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
            ),
            post(
                "post-x-www-form-urlencoded",
                &[
                    ("Content-Type", "application/x-www-form-urlencoded"),
                    ("Content-Length", "13"),
                    (
                        "X-Amz-Content-Sha256",
                        "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e",
                    ),
                ],
                "Param1=value1",
                "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b",
            ),
            Case {
                headers: &[
                    ("My-Header1", "value2"),
                    ("My-Header1", "value2"),
                    ("My-Header1", "value1"),
                ],
                ..get(
                    "get-header-key-duplicate",
                    "/",
                    "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
                )
            },
            Case {
                headers: &[("My-Header1", " value1"), ("My-Header2", " \"a   b   c\"")],
                ..get(
                    "get-header-value-trim",
                    "/",
                    "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
                )
            },
        ] {
            let signed = authorization(&case, &KEYS);
            assert!(
                signed.ends_with(&format!("Signature={}", case.signature)),
                "{}: {signed}",
                case.name
            );
        }
    }

    #[test]
    fn the_header_names_key_scope_and_what_is_signed() {
        let vanilla = get("get-vanilla", "/", "");
        assert_eq!(
            authorization(&vanilla, &KEYS),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, \
             Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
        );
    }

    /// The suite's get-vanilla-with-session-token.
    #[test]
    fn a_session_token_is_signed_too() {
        let keys = AwsKeys {
            session_token: Some("6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"),
            ..KEYS
        };
        let signed = authorization(&get("get-vanilla-with-session-token", "/", ""), &keys);
        assert!(signed.ends_with(
            "SignedHeaders=host;x-amz-date;x-amz-security-token, \
             Signature=07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"
        ));
    }

    /// The suite's double-url-encode and double-encode-path, which have no signature.
    #[test]
    fn what_is_encoded_in_a_path_is_encoded_again() {
        for (path, canonical) in [
            (
                "/2015-03-31/functions/arn%3Aaws%3Alambda/invocations",
                "/2015-03-31/functions/arn%253Aaws%253Alambda/invocations",
            ),
            (
                "/test/@connections/JBDvjfGEIAMCERw%3D",
                "/test/%40connections/JBDvjfGEIAMCERw%253D",
            ),
        ] {
            let url: Url = format!("https://a.example{path}").parse().unwrap();
            let request = Outgoing {
                method: &Method::POST,
                url: &url,
                headers: &HeaderMap::new(),
                body: b"",
            };
            let (whole, _) = canonical_request(&request, &[]).unwrap();
            assert_eq!(whole.lines().nth(1), Some(canonical));
        }
    }

    #[test]
    fn a_port_of_its_own_is_part_of_the_host_and_a_header_that_is_no_text_is_not_signed() {
        let url: Url = "http://127.0.0.1:8090/a?b".parse().unwrap();
        let mut headers = HeaderMap::new();
        let canonical = |headers: &HeaderMap| {
            let request = Outgoing {
                method: &Method::GET,
                url: &url,
                headers,
                body: b"",
            };
            canonical_request(&request, &[]).map(|(whole, _)| whole)
        };
        let whole = canonical(&headers).unwrap();
        assert!(whole.starts_with("GET\n/a\nb=\nhost:127.0.0.1:8090\n\nhost\n"));
        headers.insert("x-name", HeaderValue::from_bytes(b"\xe9").unwrap());
        assert!(canonical(&headers).is_none());
    }
}
