//! Decides how it is said that a record is no intent: one label of a closed set, and the place of the fault.
//! Neither ever holds a value of the record, since both go into logs and headers.

use std::fmt;

use super::EventId;
use crate::domain::dead_letter::Reason;

/// What is wrong with a record. The set is closed: it is the `detail` of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Detail {
    /// The value is larger than the input limit.
    ValueTooLarge,
    /// The headers are more, or larger, than the input limit.
    HeadersTooLarge,
    /// A header's name is no UTF-8. The header is left out of the dead letter.
    UnreadableHeader,
    /// The value, or a text that should hold JSON, is empty.
    EmptyValue,
    /// The value is no UTF-8.
    InvalidUtf8,
    /// The value is no JSON, or something follows the JSON.
    InvalidJson,
    /// An object names a member twice: readers differ in which one they see.
    DuplicateField,
    /// A member's name is reserved by the JSON library.
    ReservedName,
    /// Objects and arrays are nested more deeply than the input limit.
    TooDeep,
    /// It is written in a way that is not read: a batch, another data format, a change event, a foreign prefix.
    UnsupportedFormat,
    /// What should be the intent is no JSON object.
    NotAnObject,
    /// Nothing says which event it is.
    MissingEventId,
    /// The event's id is empty, too long, or no string or integer.
    BadEventId,
    /// Two places name different event ids.
    AmbiguousId,
    /// Two places name different sources.
    AmbiguousSource,
    /// A required CloudEvents attribute is missing.
    MissingAttribute,
    /// A required field is missing.
    MissingField,
    /// A field has the wrong type, or is outside its limits.
    BadField,
    /// No such field: perhaps a slip in the name of one that matters.
    UnknownField,
    /// A field stands outside the object that holds the intent.
    MisplacedField,
    /// The recipient cannot be read without guessing.
    BadRecipient,
}

impl Detail {
    /// Every detail, in the order of the enum.
    pub const ALL: [Self; 21] = [
        Self::ValueTooLarge,
        Self::HeadersTooLarge,
        Self::UnreadableHeader,
        Self::EmptyValue,
        Self::InvalidUtf8,
        Self::InvalidJson,
        Self::DuplicateField,
        Self::ReservedName,
        Self::TooDeep,
        Self::UnsupportedFormat,
        Self::NotAnObject,
        Self::MissingEventId,
        Self::BadEventId,
        Self::AmbiguousId,
        Self::AmbiguousSource,
        Self::MissingAttribute,
        Self::MissingField,
        Self::BadField,
        Self::UnknownField,
        Self::MisplacedField,
        Self::BadRecipient,
    ];

    /// The label in headers, logs and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ValueTooLarge => "value_too_large",
            Self::HeadersTooLarge => "headers_too_large",
            Self::UnreadableHeader => "unreadable_header",
            Self::EmptyValue => "empty_value",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::InvalidJson => "invalid_json",
            Self::DuplicateField => "duplicate_field",
            Self::ReservedName => "reserved_name",
            Self::TooDeep => "too_deep",
            Self::UnsupportedFormat => "unsupported_format",
            Self::NotAnObject => "not_an_object",
            Self::MissingEventId => "missing_event_id",
            Self::BadEventId => "bad_event_id",
            Self::AmbiguousId => "ambiguous_id",
            Self::AmbiguousSource => "ambiguous_source",
            Self::MissingAttribute => "missing_attribute",
            Self::MissingField => "missing_field",
            Self::BadField => "bad_field",
            Self::UnknownField => "unknown_field",
            Self::MisplacedField => "misplaced_field",
            Self::BadRecipient => "bad_recipient",
        }
    }

    /// The reason that the dead letter has.
    pub const fn reason(self) -> Reason {
        match self {
            Self::ValueTooLarge | Self::HeadersTooLarge => Reason::TooLarge,
            Self::UnreadableHeader
            | Self::EmptyValue
            | Self::InvalidUtf8
            | Self::InvalidJson
            | Self::DuplicateField
            | Self::ReservedName
            | Self::TooDeep
            | Self::UnsupportedFormat
            | Self::NotAnObject
            | Self::MissingEventId
            | Self::BadEventId
            | Self::AmbiguousId
            | Self::AmbiguousSource
            | Self::MissingAttribute
            | Self::MissingField
            | Self::BadField
            | Self::UnknownField
            | Self::MisplacedField
            | Self::BadRecipient => Reason::Malformed,
        }
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One fault and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub detail: Detail,
    /// Where: a JSON pointer or a header's name, and what is known besides in fixed words. Never a value.
    pub place: String,
}

impl Fault {
    /// `detail` at `place`.
    pub fn new(detail: Detail, place: impl Into<String>) -> Self {
        Self {
            detail,
            place: place.into(),
        }
    }
}

/// Why a record is no intent, and what could be read of it all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong, and where.
    pub fault: Fault,
    /// The event's id, if that much could be read: it is how upstream asks about it.
    pub event_id: Option<EventId>,
}

impl Refusal {
    /// The reason that the dead letter has.
    pub const fn reason(&self) -> Reason {
        self.fault.detail.reason()
    }
}

impl Fault {
    /// The refusal of a record of which `event_id` has been read. Where two ids are named, neither counts as known.
    pub fn of(self, event_id: Option<EventId>) -> Refusal {
        let event_id = event_id.filter(|_| self.detail != Detail::AmbiguousId);
        Refusal {
            fault: self,
            event_id,
        }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        fault.of(None)
    }
}
