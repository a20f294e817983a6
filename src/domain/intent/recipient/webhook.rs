//! Decides how a webhook's address is written: an absolute `http` or `https` URL, as WHATWG's standard serializes it
//! (scheme and host in lower case, default port and dot segments gone, path and query as they are).
//! Whether that address may be called is not decided here.

use url::Url;

use super::{RecipientFault, is_invisible};

/// The most bytes that an address may have.
const LEN_MAX: usize = 4_096;

pub(super) fn canonical(text: &str) -> Result<String, RecipientFault> {
    let text = text.trim();
    if text.is_empty() {
        return Err(RecipientFault::Empty);
    }
    if text.len() > LEN_MAX {
        return Err(RecipientFault::TooLong);
    }
    // The parser would drop line breaks, turn backslashes round and supply missing slashes: too much of a guess.
    if text
        .chars()
        .any(|character| is_invisible(character) || character == '\\')
    {
        return Err(RecipientFault::Character);
    }
    let after_scheme = text.split_once(':').map(|(_, rest)| rest);
    if !after_scheme.is_some_and(|rest| rest.starts_with("//") && !rest.starts_with("///")) {
        return Err(RecipientFault::Scheme);
    }
    let url = Url::parse(text).map_err(|_| RecipientFault::Form)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(RecipientFault::Scheme);
    }
    if authority(text).contains('@') {
        return Err(RecipientFault::Credentials);
    }
    if url.fragment().is_some() {
        return Err(RecipientFault::Fragment);
    }
    if url.as_str().len() > LEN_MAX {
        return Err(RecipientFault::TooLong);
    }
    Ok(url.into())
}

/// What was typed between the slashes and the path: empty credentials (`//@host`) leave no trace in the parsed form.
fn authority(text: &str) -> &str {
    let start = text.find("//").map_or(0, |start| start + 2);
    let rest = text.get(start..).unwrap_or_default();
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_as_the_standard_serializes_it() {
        for (typed, written) in [
            ("https://example.com", "https://example.com/"),
            (
                " HTTPS://Example.COM:443/Hook?b=2&a=1 ",
                "https://example.com/Hook?b=2&a=1",
            ),
            (
                "http://example.com:8080/a/../b",
                "http://example.com:8080/b",
            ),
            (
                "https://example.com/a%2Fb/%e9",
                "https://example.com/a%2Fb/%e9",
            ),
            (
                "https://example.com/é?q=@",
                "https://example.com/%C3%A9?q=@",
            ),
            ("https://[2001:DB8::1]/", "https://[2001:db8::1]/"),
        ] {
            assert_eq!(canonical(typed).as_deref(), Ok(written), "{typed:?}");
            assert_eq!(canonical(written).as_deref(), Ok(written), "{written:?}");
        }
    }

    #[test]
    fn what_is_no_plain_absolute_address_is_refused() {
        use RecipientFault::{Character, Credentials, Empty, Form, Fragment, Scheme, TooLong};
        let long = format!("https://example.com/{}", "a".repeat(4_096));
        for (typed, fault) in [
            ("", Empty),
            ("example.com/hook", Scheme),
            ("/hook", Scheme),
            ("//example.com/hook", Scheme),
            ("https:example.com", Scheme),
            ("https:///example.com", Scheme),
            ("ftp://example.com/", Scheme),
            ("file:///etc/passwd", Scheme),
            ("javascript://example.com/%0aalert(1)", Scheme),
            ("https://", Form),
            ("https://exa mple.com/", Character),
            ("https://example.com/a\nb", Character),
            ("https:\\\\example.com\\hook", Character),
            ("https://user:secret@example.com/", Credentials),
            ("https://user@example.com/", Credentials),
            ("https://@example.com/", Credentials),
            ("https://example.com/#part", Fragment),
            ("https://example.com/#", Fragment),
            ("https://example.com:99999/", Form),
            (long.as_str(), TooLong),
        ] {
            assert_eq!(canonical(typed), Err(fault), "{typed:?}");
        }
    }
}
