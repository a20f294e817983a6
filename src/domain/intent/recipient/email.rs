//! Decides how a mail address is written: one `@`, the local part exactly as it is, the domain in lower-case ASCII.
//!
//! The local part keeps its case (RFC 5321, section 2.4: only its own host may interpret it), so two spellings of it
//! are two recipients. Quoted local parts, comments, display names and address literals are refused.

use url::Host;

use super::{RecipientFault, is_format, is_invisible};

/// RFC 5321, section 4.5.3.1.1, in bytes.
const LOCAL_LEN_MAX: usize = 64;

/// RFC 1035, section 2.3.4: a name of 255 octets on the wire is at most 253 characters.
const DOMAIN_LEN_MAX: usize = 253;

/// RFC 1035, section 2.3.4.
const LABEL_LEN_MAX: usize = 63;

/// RFC 5321, section 4.5.3.1.3: a path of 256 bytes has two for its angle brackets.
const ADDRESS_LEN_MAX: usize = 254;

/// The characters that RFC 5322, section 3.2.3, keeps out of an unquoted local part, but the dot.
const SPECIALS: &str = "()<>[]:;@\\,\"";

pub(super) fn canonical(text: &str) -> Result<String, RecipientFault> {
    let text = text.trim();
    if text.is_empty() {
        return Err(RecipientFault::Empty);
    }
    let (local, domain) = text.split_once('@').ok_or(RecipientFault::Form)?;
    if local.is_empty() || domain.is_empty() || domain.contains('@') {
        return Err(RecipientFault::Form);
    }
    // In any script, a name is shorter in letters than it is in Punycode.
    if local.len() > LOCAL_LEN_MAX || domain.chars().count() > DOMAIN_LEN_MAX {
        return Err(RecipientFault::TooLong);
    }
    if local
        .chars()
        .any(|character| is_invisible(character) || SPECIALS.contains(character))
    {
        return Err(RecipientFault::Character);
    }
    let domain = domain_in_ascii(domain)?;
    if local.len() + 1 + domain.len() > ADDRESS_LEN_MAX {
        return Err(RecipientFault::TooLong);
    }
    Ok(format!("{local}@{domain}"))
}

/// Lower-case ASCII; a name in another script becomes its Punycode form, as browsers write it (UTS 46).
fn domain_in_ascii(domain: &str) -> Result<String, RecipientFault> {
    // The parser below would decode a percent sign and strip what is invisible.
    let plain = |character: char| {
        if character.is_ascii() {
            character.is_ascii_alphanumeric() || matches!(character, '-' | '.')
        } else {
            !is_invisible(character) && !is_format(character)
        }
    };
    if !domain.chars().all(plain) {
        return Err(RecipientFault::Character);
    }
    let domain = match Host::parse(domain) {
        Ok(Host::Domain(domain)) => domain,
        Ok(Host::Ipv4(_) | Host::Ipv6(_)) | Err(_) => return Err(RecipientFault::Form),
    };
    let label_fits = |label: &str| {
        (1..=LABEL_LEN_MAX).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if domain.len() <= DOMAIN_LEN_MAX && domain.split('.').all(label_fits) {
        Ok(domain)
    } else {
        Err(RecipientFault::Form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_its_local_part_and_lowers_its_domain() {
        for (typed, written) in [
            ("person@example.com", "person@example.com"),
            (
                " Person.Name+tag@Example.COM\n",
                "Person.Name+tag@example.com",
            ),
            ("o'hara@example.com", "o'hara@example.com"),
            ("double..dot.@example.com", "double..dot.@example.com"),
            ("имя@example.com", "имя@example.com"),
            ("person@MÜNCHEN.example", "person@xn--mnchen-3ya.example"),
            (
                "person@xn--mnchen-3ya.example",
                "person@xn--mnchen-3ya.example",
            ),
            ("person@localhost", "person@localhost"),
        ] {
            assert_eq!(canonical(typed).as_deref(), Ok(written), "{typed:?}");
            assert_eq!(canonical(written).as_deref(), Ok(written), "{written:?}");
        }
    }

    #[test]
    fn what_is_no_single_plain_address_is_refused() {
        use RecipientFault::{Character, Empty, Form, TooLong};
        let long_local = format!("{}@example.com", "a".repeat(65));
        let long_label = format!("a@{}.com", "b".repeat(64));
        let long_whole = format!(
            "{}@{}.com",
            "a".repeat(60),
            vec!["b".repeat(60); 4].join(".")
        );
        for (typed, fault) in [
            ("", Empty),
            ("  ", Empty),
            ("person", Form),
            ("@example.com", Form),
            ("person@", Form),
            ("a@b@example.com", Form),
            ("a@example.com,b@example.com", Form),
            ("Person <person@example.com>", Character),
            ("\"quoted local\"@example.com", Character),
            ("mailto:person@example.com", Character),
            ("per son@example.com", Character),
            ("person\r\nBcc: x@example.com", Character),
            ("person\u{200B}@example.com", Character),
            ("person@example.com\0", Character),
            ("person@exam ple.com", Character),
            ("person@ex%61mple.com", Character),
            ("person@example.com:25", Character),
            ("person@example..com", Form),
            ("person@example.com.", Form),
            ("person@-example.com", Form),
            ("person@exam_ple.com", Character),
            ("person@192.0.2.1", Form),
            ("person@[192.0.2.1]", Character),
            ("person@12345", Form),
            (long_local.as_str(), TooLong),
            (long_label.as_str(), Form),
            (long_whole.as_str(), TooLong),
        ] {
            assert_eq!(canonical(typed), Err(fault), "{typed:?}");
        }
    }
}
