//! The protocol with one rule broken, each with the promise that then falls: by a history that the checker must find.

use super::configurations::{
    CANCELLING, KEYED, KEYLESS, KEYLESS_CRASH, LOOK_UP, LOOK_UP_SLOW, PARKING, PARKING_IN_ORDER,
    PARKING_THREE, REDRIVES, REJECTING, SHORT_WINDOW, SHORT_WINDOW_TROUBLED, TWO_KEYS,
    UNKNOWN_REDRIVEN,
};
use super::properties::{
    DELIVERED_ONCE, DISK_IS_TOLD, LETTER_DECIDED, LETTER_TRUE, ONE_REQUEST, ORDER, OWNER_SENDS,
    POSITION, RECORDED_FIRST, RESULTS_RAISE, STARTED_FIRST, WAIT_KEPT, WINDOW,
};
use super::rules::{Configuration, ForeignEnd, ReadBack, Rules};

/// One broken rule.
pub struct Variant {
    pub name: &'static str,
    pub rules: Rules,
    pub configuration: Configuration,
    /// The promise that falls.
    pub breaks: &'static str,
}

/// Rules 1 and 2.
pub const MARKERS_AND_STARTS: &[Variant] = &[
    Variant {
        name: "rule 1: what was never acknowledged stays on the disk",
        rules: Rules {
            publishes_what_was_never_acknowledged: false,
            ..Rules::TRUE
        },
        configuration: KEYLESS_CRASH,
        breaks: DISK_IS_TOLD,
    },
    Variant {
        name: "rule 1: a later marker is read and ignored",
        rules: Rules {
            lets_go_when_fenced: false,
            ..Rules::TRUE
        },
        configuration: KEYED,
        breaks: OWNER_SENDS,
    },
    Variant {
        name: "rule 1: another marker without the coordinator's word",
        rules: Rules {
            marks_again_when_confirmed_only: false,
            ..Rules::TRUE
        },
        configuration: KEYED,
        breaks: OWNER_SENDS,
    },
    Variant {
        name: "rule 2: the start is on the disk only when the request leaves",
        rules: Rules {
            start_awaits_topic: false,
            ..Rules::TRUE
        },
        configuration: KEYLESS,
        breaks: STARTED_FIRST,
    },
    Variant {
        name: "rule 2: no start is read back at a provider without keys",
        rules: Rules {
            read_back: ReadBack::Never,
            ..Rules::TRUE
        },
        configuration: LOOK_UP,
        breaks: DELIVERED_ONCE,
    },
    Variant {
        name: "rule 2: no start is read back where keys are short",
        rules: Rules {
            read_back: ReadBack::Never,
            ..Rules::TRUE
        },
        configuration: SHORT_WINDOW,
        breaks: WINDOW,
    },
    Variant {
        name: "rule 2: a start behind another's marker gives leave to send",
        rules: Rules {
            late_start_gives_no_leave: false,
            lets_go_when_fenced: false,
            looks_again: false,
            ..Rules::TRUE
        },
        configuration: LOOK_UP,
        breaks: DELIVERED_ONCE,
    },
    Variant {
        name: "rule 2: a request may leave behind its deadline",
        rules: Rules {
            keeps_deadline: false,
            ..Rules::TRUE
        },
        configuration: LOOK_UP_SLOW,
        breaks: DELIVERED_ONCE,
    },
];

/// Rule 3.
pub const WAITS: &[Variant] = &[
    Variant {
        name: "rule 3: a look-up is believed before the deadlines",
        rules: Rules {
            look_up_awaits_deadlines: false,
            ..Rules::TRUE
        },
        configuration: LOOK_UP,
        breaks: DELIVERED_ONCE,
    },
    Variant {
        name: "rule 3: a look-up is believed before the kernel is done",
        rules: Rules {
            look_up_awaits_transport: false,
            ..Rules::TRUE
        },
        configuration: LOOK_UP,
        breaks: DELIVERED_ONCE,
    },
    Variant {
        name: "rule 3: a look-up is believed before the provider shows everything",
        rules: Rules {
            look_up_awaits_visibility: false,
            ..Rules::TRUE
        },
        configuration: LOOK_UP,
        breaks: DELIVERED_ONCE,
    },
    Variant {
        name: "rule 3: attempts of others are not waited for",
        rules: Rules {
            foreign_end: ForeignEnd::AtOnce,
            ..Rules::TRUE
        },
        configuration: LOOK_UP,
        breaks: DELIVERED_ONCE,
    },
    Variant {
        name: "rule 3: the end of another's attempt by its maker's clock",
        rules: Rules {
            foreign_end: ForeignEnd::MakersClock,
            ..Rules::TRUE
        },
        configuration: LOOK_UP,
        breaks: DELIVERED_ONCE,
    },
    Variant {
        name: "rule 3: the end of another's attempt from when the marker was sent off",
        rules: Rules {
            foreign_end: ForeignEnd::MarkerSent,
            ..Rules::TRUE
        },
        configuration: LOOK_UP,
        breaks: DELIVERED_ONCE,
    },
    Variant {
        name: "rule 3: the window is not asked",
        rules: Rules {
            asks_window: false,
            ..Rules::TRUE
        },
        configuration: SHORT_WINDOW,
        breaks: WINDOW,
    },
    Variant {
        name: "rule 3: no minute for the clocks in the margin",
        rules: Rules {
            margin_has_skew: false,
            ..Rules::TRUE
        },
        configuration: SHORT_WINDOW_TROUBLED,
        breaks: WINDOW,
    },
];

/// Rules 4 and 5, and parking.
pub const SETTLEMENTS: &[Variant] = &[
    Variant {
        name: "rule 4: the offset is committed before the topic has acknowledged",
        rules: Rules {
            commit_awaits_topic: false,
            ..Rules::TRUE
        },
        configuration: KEYLESS,
        breaks: RECORDED_FIRST,
    },
    Variant {
        name: "rule 4: whoever lost the partition still commits",
        rules: Rules {
            over_commits_nothing: false,
            ..Rules::TRUE
        },
        configuration: TWO_KEYS,
        breaks: POSITION,
    },
    Variant {
        name: "rule 4 by its letter: a parking is acknowledged and not read back",
        rules: Rules {
            park_is_read_back: false,
            ..Rules::TRUE
        },
        configuration: PARKING_THREE,
        breaks: RECORDED_FIRST,
    },
    Variant {
        name: "parking: the entry comes before the bytes",
        rules: Rules {
            park_awaits_bytes: false,
            ..Rules::TRUE
        },
        configuration: PARKING,
        breaks: RECORDED_FIRST,
    },
    Variant {
        name: "parking: followers of the Kafka key do not wait",
        rules: Rules {
            followers_wait: false,
            ..Rules::TRUE
        },
        configuration: PARKING_IN_ORDER,
        breaks: ORDER,
    },
    Variant {
        name: "parking: the wait is believed by another clock",
        rules: Rules {
            waits_are_kept_by_any_clock: false,
            ..Rules::TRUE
        },
        configuration: PARKING,
        breaks: WAIT_KEPT,
    },
    Variant {
        name: "rule 5: the letter is produced before its entry is read back",
        rules: Rules {
            lettering_is_read_back: false,
            ..Rules::TRUE
        },
        configuration: KEYLESS,
        breaks: LETTER_DECIDED,
    },
    Variant {
        name: "rule 5: a letter counts before the broker has acknowledged it",
        rules: Rules {
            letter_is_acknowledged: false,
            ..Rules::TRUE
        },
        configuration: KEYLESS,
        breaks: RECORDED_FIRST,
    },
];

/// What the fold keeps, and operators' decisions.
pub const FOLDS_AND_DECISIONS: &[Variant] = &[
    Variant {
        name: "the topic is compacted by key",
        rules: Rules {
            log_is_kept_whole: false,
            ..Rules::TRUE
        },
        configuration: KEYLESS,
        breaks: RESULTS_RAISE,
    },
    Variant {
        name: "the last result wins",
        rules: Rules {
            results_only_raise: false,
            ..Rules::TRUE
        },
        configuration: KEYLESS,
        breaks: RESULTS_RAISE,
    },
    Variant {
        name: "each instance renders by its own profile",
        rules: Rules {
            rendering_is_pinned: false,
            ..Rules::TRUE
        },
        configuration: KEYED,
        breaks: ONE_REQUEST,
    },
    Variant {
        name: "decisions count whatever state they saw",
        rules: Rules {
            decisions_are_versioned: false,
            ..Rules::TRUE
        },
        configuration: REDRIVES,
        breaks: DELIVERED_ONCE,
    },
    Variant {
        name: "a redrive of an unknown outcome without the named risk",
        rules: Rules {
            redrive_asks_for_risk: false,
            ..Rules::TRUE
        },
        configuration: UNKNOWN_REDRIVEN,
        breaks: DELIVERED_ONCE,
    },
    Variant {
        name: "a cancel ends what was tried",
        rules: Rules {
            cancel_spares_what_was_tried: false,
            ..Rules::TRUE
        },
        configuration: CANCELLING,
        breaks: LETTER_TRUE,
    },
    Variant {
        name: "rule 2 by its letter: long keys are not read back, rendering",
        rules: Rules {
            read_back: ReadBack::WhereKeysAreShort,
            ..Rules::TRUE
        },
        configuration: KEYED,
        breaks: ONE_REQUEST,
    },
    Variant {
        name: "rule 2 by its letter: long keys are not read back, dead letters",
        rules: Rules {
            read_back: ReadBack::WhereKeysAreShort,
            ..Rules::TRUE
        },
        configuration: REJECTING,
        breaks: LETTER_TRUE,
    },
];
