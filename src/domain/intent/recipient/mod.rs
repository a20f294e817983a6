//! Decides how a recipient is written, once and for all: the canonical form is part of the key, so two spellings of
//! one recipient are one send, and a guess would be a send to a stranger. It does not know whether anybody is there.

use super::Recipient;

mod email;
mod phone;
mod webhook;

pub use phone::Region;

/// The most characters that an opaque recipient may have.
pub const OPAQUE_CHARS_MAX: usize = 4_096;

/// What a channel's recipients are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecipientKind {
    /// Telephone numbers. Canonical: E.164 with its plus, or the digits of a short code.
    Phone {
        /// Whose local forms are read. Without one, only international forms are: nothing is guessed.
        default_region: Option<Region>,
        /// Whether short codes (3 to 6 digits) are recipients too.
        short_codes: bool,
    },
    /// Mail addresses. Canonical: the local part as it is, the domain in lower-case ASCII.
    Email,
    /// Absolute `http` or `https` addresses without credentials and fragment. Canonical: as WHATWG's URL standard
    /// writes them.
    Url,
    /// Anything that is visible and 1 to 4,096 characters long, such as a push token. Canonical: as it is.
    Opaque,
}

/// Why a text is no recipient. Tells nothing of the text itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecipientFault {
    /// Nothing but blanks.
    #[error("it is empty")]
    Empty,
    /// Longer than any recipient of its kind.
    #[error("it is too long")]
    TooLong,
    /// A character that no recipient of its kind has.
    #[error("it holds a character that is not allowed")]
    Character,
    /// The parts are not where they belong.
    #[error("it is not formed as it should be")]
    Form,
    /// A number in local form, and no region says whose.
    #[error("a local number, and no region is set")]
    NoRegion,
    /// A plus that is not at the start, or not alone.
    #[error("more than one plus, or one that is not at the start")]
    Plus,
    /// No country has this calling code.
    #[error("an unknown country calling code")]
    CountryCode,
    /// A trunk prefix where the international form has none.
    #[error("a trunk prefix behind the country calling code")]
    TrunkPrefix,
    /// No number of its country has this many digits or begins so.
    #[error("no number of its country is formed like this")]
    NotPossible,
    /// It can be read as two numbers.
    #[error("it can be read in two ways")]
    Ambiguous,
    /// An address that carries credentials.
    #[error("it carries credentials")]
    Credentials,
    /// An address with a fragment, which no server gets to see.
    #[error("it carries a fragment")]
    Fragment,
    /// An address of another scheme than `http` and `https`, or a relative one.
    #[error("it is no absolute http or https address")]
    Scheme,
}

impl RecipientKind {
    /// The canonical form of `text`.
    pub fn canonical(&self, text: &str) -> Result<Recipient, RecipientFault> {
        let canonical = match self {
            Self::Phone {
                default_region,
                short_codes,
            } => phone::canonical(text, *default_region, *short_codes)?,
            Self::Email => email::canonical(text)?,
            Self::Url => webhook::canonical(text)?,
            Self::Opaque => opaque(text)?.to_owned(),
        };
        Ok(Recipient::canonical(&canonical))
    }
}

/// Not even trimmed: what a blank means in it is not ours to know.
fn opaque(text: &str) -> Result<&str, RecipientFault> {
    if text.is_empty() {
        return Err(RecipientFault::Empty);
    }
    if text.chars().count() > OPAQUE_CHARS_MAX {
        return Err(RecipientFault::TooLong);
    }
    if text.chars().any(is_invisible) {
        return Err(RecipientFault::Character);
    }
    Ok(text)
}

/// Blanks, control characters, and characters that only format what stands around them.
fn is_invisible(character: char) -> bool {
    character.is_whitespace() || character.is_control() || is_format(character)
}

/// Marks of zero width and of writing direction (Unicode general category Cf) that come along when text is copied.
fn is_format(character: char) -> bool {
    matches!(
        character,
        '\u{00AD}'
            | '\u{061C}'
            | '\u{180E}'
            | '\u{200B}'..='\u{200F}'
            | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{FEFF}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opaque_recipient_is_kept_as_it_is_or_refused() {
        let read = |text: &str| {
            RecipientKind::Opaque
                .canonical(text)
                .map(|recipient| recipient.expose().to_owned())
        };
        assert_eq!(read("Ab:c-1_2/é").as_deref(), Ok("Ab:c-1_2/é"));
        assert_eq!(read(&"a".repeat(4_096)).map(|text| text.len()), Ok(4_096));
        assert_eq!(read(&"a".repeat(4_097)), Err(RecipientFault::TooLong));
        assert_eq!(read(""), Err(RecipientFault::Empty));
        for hidden in [
            " a",
            "a ",
            "a b",
            "a\n",
            "a\0",
            "a\u{200B}",
            "\u{FEFF}a",
            "a\u{A0}b",
        ] {
            assert_eq!(read(hidden), Err(RecipientFault::Character), "{hidden:?}");
        }
    }
}
