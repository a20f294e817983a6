use super::super::tests::{faults_of, parsed};
use super::*;
use crate::domain::profile::{Binding, Profile};

/// A profile with these credentials, and `more` of its own.
fn text(auth: &str, more: &str) -> String {
    format!(
        r#"
vendor = "fixture"
operation = "send"
verified = "documented"
verified_on = "2026-11-30"
accepted = {{ status = 201 }}
{more}
[request]
method = "POST"
url = "https://a.example/send?to={{{{ to }}}}&via=api"
body = {{ kind = "none" }}
headers = {{ X-Own = "own" }}
[request.auth]
{auth}
"#
    )
}

fn auth(fields: &str) -> Auth {
    let text = text(fields, "[settings]\nregion = \"eu\"");
    let profile = Profile::parse(&text).unwrap_or_else(|faults| panic!("{faults:#?}"));
    profile.request.auth
}

#[test]
fn every_kind_tells_all_of_its_faults_at_once_each_with_its_place() {
    let kinds = [
        "",
        r#"kind = "magic""#,
        r#"kind = "query"
           parameters = { }"#,
        r#"kind = "query"
           parameters = { via = "env:KEY", "a b" = "env:KEY", c = "sk_live_42", d = 1 }"#,
        r#"kind = "hmac"
           secret = "sk_live_42"
           secret_form = "rot13"
           hash = "md5"
           written = "runes"
           signs = "{{ signature }} {{ header x-nowhere }} {{ body"
           headers = { Host = "a", X-Own = "b", X-Body = "{{ body }}", X-Line = "a\nb" }"#,
        r#"kind = "aws_sigv4"
           access_key_id = "AKIDEXAMPLE"
           region = ""
           service = "email/v2""#,
        r#"kind = "jwt"
           algorithm = "none"
           secret = "env:KEY"
           issuer = "{{ settings.nowhere }}"
           audience = "{{ to }}"
           lifetime = "10m"
           prefix = "a\nb"
           reuse = "30m"
           reuse_min = "40m""#,
        r#"kind = "jwt"
           reuse_min = "1m""#,
        r#"kind = "client_credentials"
           token_url = "https://user:pass@a.example/token"
           client_id = "us"
           secret_in = "hat""#,
        r#"kind = "client_assertion"
           token_url = "//elsewhere.example/token"
           algorithm = "HS256"
           secret = "env:KEY"
           lifetime = "soon""#,
        r#"kind = "jwt_bearer"
           token_url = "https://a.example/../token"
           service_account = "file:/account.json"
           issuer = "us"
           algorithm = "RS256"
           scope = 7"#,
    ];
    let told = kinds.map(|kind| faults_of(&text(kind, "")).join("\n"));
    assert!(told.iter().all(|told| !told.contains("sk_live_42")));
    insta::assert_snapshot!(told.join("\n\n"));
}

#[test]
fn a_header_or_a_parameter_that_something_else_sets_is_refused() {
    let aws = r#"kind = "aws_sigv4"
        access_key_id = "env:ID"
        secret_access_key = "env:KEY"
        region = "eu-west-1"
        service = "ses""#;
    let key = |place: &str| {
        format!(
            "key = {{ place = \"{place}\", max_len = 36, window = \"1h\", window_source = \"assumed\" }}"
        )
    };
    let query = r#"kind = "query"
        parameters = { api_key = "env:KEY" }"#;
    let hmac = r#"kind = "hmac"
        secret = "env:KEY"
        signs = "{{ header x-nowhere }}{{ header x-own }}"
        headers = { X-Own = "{{ signature }}" }"#;
    let lookup = r#"lookup = { proof = "reference", url = "https://a.example/list?api_key=x", delay = "1m", keeps = "1d" }"#;
    for (kind, more, fault) in [
        (
            aws,
            key("header x-amz-date"),
            "key.place: this header is already set by the request",
        ),
        (
            hmac,
            String::new(),
            "request.auth: the header x-own is set twice",
        ),
        (
            hmac,
            String::new(),
            "request.auth: the request has no header x-nowhere to sign",
        ),
        (
            query,
            key("query api_key"),
            "request.auth: the parameter api_key is in the URL already",
        ),
        (
            query,
            lookup.to_owned(),
            "lookup.url: has the parameter api_key already, which is request.auth's",
        ),
    ] {
        let faults = faults_of(&text(kind, &more));
        assert!(faults.contains(&fault.to_owned()), "{faults:?}");
    }
    assert_eq!(faults_of(&text(query, &key("query key"))), [""; 0]);
}

#[test]
fn what_is_left_out_has_its_default() {
    let Auth::Jwt(jwt) = auth(
        r#"kind = "jwt"
        algorithm = "ES256"
        secret = "env:KEY"
        issuer = "env:TEAM"
        audience = "{{ settings.region }}"
        reuse = "50m""#,
    ) else {
        panic!("a JWT");
    };
    let team = SecretRef::Env("TEAM".to_owned());
    assert_eq!(jwt.issuer, PublicText::At(team));
    assert_eq!(jwt.audience, Some(PublicText::Setting("region".into())));
    assert_eq!((jwt.prefix.as_str(), jwt.lifetime), ("Bearer ", None));
    let reuse = jwt.reuse.unwrap();
    let minutes = |span: std::time::Duration| span.as_secs() / 60;
    assert_eq!((minutes(reuse.at_most), minutes(reuse.at_least)), (50, 1));

    let Auth::JwtBearer(account) = auth(
        r#"kind = "jwt_bearer"
        token_url = "/token"
        issuer = "us"
        secret = "env:KEY""#,
    ) else {
        panic!("a service account");
    };
    assert_eq!(minutes(account.lifetime), 5);
    let ServiceAccount::Own { key, .. } = account.account else {
        panic!("a key of its own");
    };
    assert_eq!(key.algorithm.name(), "RS256");
}

#[test]
fn a_token_endpoint_follows_the_request_to_another_origin_if_it_is_a_path() {
    let moved = |token_url: &str| {
        let auth = format!(
            "kind = \"client_credentials\"\ntoken_url = \"{token_url}\"\nclient_id = \"env:ID\"\nclient_secret = \"env:SECRET\""
        );
        let profile = Profile::parse(&text(&auth, "")).unwrap();
        let before = profile.request.token_url().unwrap().to_string();
        let binding = Binding {
            base_url: Some("https://sandbox.example:8443".parse().unwrap()),
            ..Binding::default()
        };
        let after = profile.bind(binding).unwrap().request.token_url().unwrap();
        (before, after.to_string())
    };
    let own = |url: &str| url.to_owned();
    assert_eq!(
        moved("/v1/token"),
        (
            own("https://a.example/v1/token"),
            own("https://sandbox.example:8443/v1/token")
        )
    );
    let fixed = own("https://b.example/token");
    assert_eq!(moved(&fixed), (fixed.clone(), fixed));
    assert!(parsed("").unwrap().request.token_url().is_none());
}

#[test]
fn credentials_that_leave_the_machine_in_the_clear_are_known() {
    let bearer = "kind = \"bearer\"\nsecret = \"env:TOKEN\"";
    let fetched = |token_url: &str| {
        format!(
            "kind = \"client_credentials\"\ntoken_url = \"{token_url}\"\nclient_id = \"env:ID\"\nclient_secret = \"env:SECRET\""
        )
    };
    for (auth, base_url, shown) in [
        (bearer.to_owned(), "https://b.example", false),
        (bearer.to_owned(), "http://b.example", true),
        (bearer.to_owned(), "http://127.0.0.1:8090", false),
        (bearer.to_owned(), "http://[::1]:8090", false),
        (bearer.to_owned(), "http://localhost:8090", false),
        ("kind = \"none\"".to_owned(), "http://b.example", false),
        (fetched("/token"), "https://b.example", false),
        (fetched("http://c.example/token"), "https://b.example", true),
    ] {
        let binding = Binding {
            base_url: Some(base_url.parse().unwrap()),
            ..Binding::default()
        };
        let profile = Profile::parse(&text(&auth, "")).unwrap();
        let profile = profile.bind(binding).unwrap();
        assert_eq!(
            profile.request.shows_credentials(),
            shown,
            "{auth} {base_url}"
        );
    }
}
