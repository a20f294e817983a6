//! Decides the bytes of a look-up, and what an item of ours must say in its answer.

use bytes::Bytes;
use http::Method;

use super::{Names, RenderFault, RenderProblem, RenderedRequest, Renderer, fault, fingerprint};
use crate::domain::idempotency_key::IdempotencyKey;
use crate::domain::intent::Intent;
use crate::domain::profile::{Pointer, Profile};

/// A look-up, complete but for its credentials.
#[derive(Debug)]
pub struct RenderedLookup<'p> {
    /// Its request: a GET.
    pub request: RenderedRequest,
    /// What an item of ours says, place by place.
    pub ours: Vec<(&'p Pointer, String)>,
}

/// Renders the look-up of `profile` for `intent` under `key`.
///
/// # Errors
///
/// As [`render`](super::render); a profile without a look-up is such a fault too.
pub fn render_lookup<'p>(
    profile: &'p Profile,
    intent: &Intent,
    key: &IdempotencyKey,
) -> Result<RenderedLookup<'p>, RenderFault> {
    let Some(lookup) = profile.lookup.as_ref().filter(|_| profile.is_bound()) else {
        return Err(fault("lookup", RenderProblem::Unbound));
    };
    let wire_key = profile.key.as_ref().map(|rule| rule.wire(key));
    let renderer = Renderer {
        names: Names {
            intent,
            // What the provider was given: a key that does not fit went out as a hash of it.
            key: wire_key.as_deref().unwrap_or(key.as_str()),
            own_key: key,
            settings: &profile.settings,
        },
        wire_key: "",
    };
    let url = renderer.url(&lookup.url)?;
    let headers = renderer.headers(&lookup.fixed_headers, &lookup.filled_headers)?;
    let fingerprint = fingerprint(&Method::GET, &url, &[]);
    let mut ours = Vec::with_capacity(lookup.items.ours.len());
    for (pointer, text) in &lookup.items.ours {
        let wanted = renderer
            .leaf_text(text)?
            .ok_or_else(|| fault(&text.path, RenderProblem::Absent))?;
        ours.push((pointer, wanted));
    }
    Ok(RenderedLookup {
        request: RenderedRequest {
            method: Method::GET,
            url,
            headers,
            body: Bytes::new(),
            fingerprint,
            companions: Vec::new(),
        },
        ours,
    })
}
