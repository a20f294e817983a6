//! Decides how it is told what a provider's credentials need: of the installation, of its clock, and of a token endpoint. It tells
//! where secrets are, never what they are.

use crate::config::spans::show;
use crate::domain::profile::{
    Auth, ClientSecretIn, JwtAuth, JwtKey, Profile, SecretRef, ServiceAccount,
};

/// What the credentials of `profile` need; `None` if it has none.
pub(super) fn needs(profile: &Profile) -> Option<String> {
    let fetched = |what: String| {
        let url = profile.request.token_url().map(String::from);
        let url = url.unwrap_or_default();
        format!("exchanges {what} at {url} for a token, and again before that expires")
    };
    let told = match &profile.request.auth {
        Auth::None => return None,
        Auth::Bearer { secret } => format!("sends a bearer token as it is ({secret})"),
        Auth::Basic { username, password } => {
            format!("sends a name and a password ({username}, {password})")
        }
        Auth::Header { name, secret, .. } => format!("sends the header {name} ({secret})"),
        Auth::Query { parameters } => {
            let named: Vec<_> = parameters
                .iter()
                .map(|(name, secret)| format!("{name} ({secret})"))
                .collect();
            format!("adds to each URL's query {}", named.join(", "))
        }
        Auth::Hmac(mac) => format!(
            "signs each request with a MAC ({}); the clock must be right",
            mac.secret
        ),
        Auth::AwsSigV4(aws) => format!(
            "signs each request for AWS ({}, {}), region {}; the clock must be right to five minutes, and keys that expire need a restart",
            aws.access_key_id, aws.secret_access_key, aws.region
        ),
        Auth::Jwt(jwt) => signed(jwt),
        Auth::ClientCredentials(client) => {
            let how = match client.secret_in {
                ClientSecretIn::Basic => "by basic authentication",
                ClientSecretIn::Body => "in the form",
            };
            let (id, secret) = (&client.client_id, &client.client_secret);
            fetched(format!("a client's id and secret ({id}, {secret}), {how}"))
        }
        Auth::ClientAssertion(client) => {
            fetched(format!("a client's assertion {}", key(&client.key)))
        }
        Auth::JwtBearer(auth) => {
            let account = match &auth.account {
                ServiceAccount::Json(file) => format!("signed {}", from(file)),
                ServiceAccount::Own { key: own, .. } => key(own),
            };
            fetched(format!("a service account's assertion {account}"))
        }
    };
    Some(told)
}

fn signed(jwt: &JwtAuth) -> String {
    let span = match jwt.reuse {
        Some(reuse) => format!("one token serves for {}", show(reuse.at_most)),
        None => "each request has a token of its own".to_owned(),
    };
    format!(
        "sends a token {}; {span}, and the clock must be right",
        key(&jwt.key)
    )
}

fn key(key: &JwtKey) -> String {
    format!("signed with {} {}", key.algorithm.name(), from(&key.secret))
}

fn from(secret: &SecretRef) -> String {
    format!("by the key in {secret}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(auth: &str) -> String {
        let text = format!(
            "vendor = \"fixture\"\noperation = \"send\"\nverified = \"documented\"\nverified_on = \"2026-11-30\"\n\
             accepted = {{ status = 201 }}\n[request]\nmethod = \"POST\"\nurl = \"https://a.example/send\"\n\
             body = {{ kind = \"none\" }}\nauth = {{ {auth} }}\n"
        );
        needs(&Profile::parse(&text).unwrap()).unwrap_or_default()
    }

    #[test]
    fn each_kind_says_what_it_needs() {
        let kinds = [
            r#"kind = "none""#,
            r#"kind = "bearer", secret = "env:TOKEN""#,
            r#"kind = "basic", username = "env:USER", password = "env:PASSWORD""#,
            r#"kind = "header", name = "X-Key", secret = "file:/key""#,
            r#"kind = "query", parameters = { api_key = "env:KEY", user = "env:USER" }"#,
            r#"kind = "hmac", secret = "env:KEY", signs = "{{ body }}", headers = { X-Mac = "{{ signature }}" }"#,
            r#"kind = "aws_sigv4", access_key_id = "env:ID", secret_access_key = "env:KEY", region = "env:REGION", service = "ses""#,
            r#"kind = "jwt", algorithm = "HS256", secret = "env:KEY", issuer = "us""#,
            r#"kind = "jwt", algorithm = "ES256", secret = "file:/key.p8", issuer = "us", reuse = "50m", reuse_min = "20m""#,
            r#"kind = "client_credentials", token_url = "/token", client_id = "env:ID", client_secret = "env:SECRET""#,
            r#"kind = "client_assertion", token_url = "https://b.example/token", client_id = "us", algorithm = "RS512", secret = "env:KEY""#,
            r#"kind = "jwt_bearer", token_url = "https://b.example/token", service_account = "file:/account.json""#,
        ];
        insta::assert_snapshot!(kinds.map(told).join("\n"));
    }
}
