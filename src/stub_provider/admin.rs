//! Decides what is told about the provider, and how it is changed while it runs. It is no part of what a provider offers.

use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use super::answers::{self, Answered};
use super::exchange::Provider;
use super::faults::FaultMix;

/// The start of every admin path.
pub const PREFIX: &str = "/admin/";

/// The most bytes that a fault mix may have.
const MIX_BYTES_MAX: usize = 64 * 1024;

/// Answers a request to an admin path.
pub async fn answer(provider: &Provider, request: Request<Incoming>) -> Answered {
    let path = request.uri().path().trim_start_matches(PREFIX);
    match (request.method(), path) {
        (&Method::GET, "deliveries") => provider.with_truth(|truth| answers::ok(&truth.items())),
        (&Method::GET, "stats") => provider.with_truth(|truth| answers::ok(&truth.stats())),
        (&Method::POST, "reset") => {
            provider.reset();
            answers::no_content()
        }
        (&Method::GET, "faults") => answers::ok(&provider.faults()),
        (&Method::POST, "faults") => change_faults(provider, request.into_body()).await,
        _ => answers::problem(StatusCode::NOT_FOUND, "No such admin path"),
    }
}

async fn change_faults(provider: &Provider, body: Incoming) -> Answered {
    let Ok(typed) = Limited::new(body, MIX_BYTES_MAX).collect().await else {
        return answers::problem(StatusCode::BAD_REQUEST, "The fault mix did not come whole");
    };
    match serde_json::from_slice::<FaultMix>(&typed.to_bytes()) {
        Ok(mix) => {
            provider.change_faults(mix);
            answers::no_content()
        }
        Err(error) => answers::problem(StatusCode::BAD_REQUEST, &error.to_string()),
    }
}
