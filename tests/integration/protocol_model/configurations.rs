//! The configurations: together they cover the protocol, each is small enough to be explored whole.

use super::beginnings::{
    assigned, dead_as_not_sent, dead_as_unknown, throttled_before_a_late_marker,
};
use super::rules::{Configuration, Provider, Trouble};
use super::scenarios;
use super::state::{Decision, Left};

const NO_FAULTS: Left = Left {
    crashes: 0,
    moves: 0,
    troubles: 0,
    stalls: 0,
    lost_acks: 0,
    mute_lookups: 0,
};
const ONE_CLOCK: &[[i8; 2]] = &[[0, 0]];
/// The first instance is behind, or the second one ahead.
const CLOCKS: &[[i8; 2]] = &[[-1, 0], [0, 1]];

/// A provider that remembers keys for longer than anyone is unaware of anything, in the middle of a deploy.
pub const KEYED: Configuration = Configuration {
    name: "keyed",
    keys: 1,
    instances: 2,
    provider: Provider::Keyed {
        window: None,
        look_up: false,
    },
    troubles: &[Trouble::TakenAndFailed, Trouble::Severed, Trouble::Refused],
    left: Left {
        moves: 1,
        troubles: 1,
        ..NO_FAULTS
    },
    deploying: true,
    parks: false,
    is_ordered: false,
    operators: &[],
    skews: ONE_CLOCK,
    budget: 2,
    begins: assigned,
    scenarios: &[scenarios::LATE_RESULT, scenarios::REDELIVERED_IN_FLIGHT],
};

/// A provider that forgets keys after four minutes.
pub const SHORT_WINDOW: Configuration = Configuration {
    name: "keyed, short window",
    provider: Provider::Keyed {
        window: Some(4),
        look_up: false,
    },
    troubles: &[Trouble::TakenAndFailed, Trouble::Severed],
    deploying: false,
    skews: CLOCKS,
    scenarios: &[scenarios::REDELIVERED_IN_FLIGHT],
    left: Left {
        moves: 1,
        troubles: 1,
        ..NO_FAULTS
    },
    ..KEYED
};

/// The same, with two troubles and nobody else: what is sent at the end of the window arrives late.
pub const SHORT_WINDOW_TROUBLED: Configuration = Configuration {
    name: "keyed, short window, troubled",
    left: Left {
        troubles: 2,
        ..NO_FAULTS
    },
    scenarios: &[],
    ..SHORT_WINDOW
};

/// A provider that forgets keys after four minutes and can be asked.
pub const SHORT_WINDOW_LOOK_UP: Configuration = Configuration {
    name: "keyed, short window, look-up",
    provider: Provider::Keyed {
        window: Some(4),
        look_up: true,
    },
    budget: 1,
    left: Left {
        moves: 1,
        troubles: 1,
        ..NO_FAULTS
    },
    scenarios: &[scenarios::CLOCKS_DIFFER],
    ..SHORT_WINDOW
};

pub const REJECTING: Configuration = Configuration {
    name: "keyed, rejections",
    troubles: &[
        Trouble::Rejected,
        Trouble::Failed,
        Trouble::Severed,
        Trouble::TakenAndFailed,
    ],
    left: Left {
        moves: 1,
        troubles: 2,
        ..NO_FAULTS
    },
    deploying: false,
    scenarios: &[],
    ..KEYED
};

pub const LOOK_UP: Configuration = Configuration {
    name: "look-up",
    provider: Provider::LookUp,
    troubles: &[Trouble::TakenAndFailed, Trouble::Severed],
    deploying: false,
    skews: CLOCKS,
    scenarios: &[
        scenarios::WOKEN_OWNER,
        scenarios::CLOCKS_DIFFER,
        scenarios::LATE_RESULT,
    ],
    left: Left {
        moves: 1,
        troubles: 1,
        ..NO_FAULTS
    },
    ..KEYED
};

/// A start may take so long that its request is withheld.
pub const LOOK_UP_SLOW: Configuration = Configuration {
    name: "look-up, slow",
    left: Left {
        moves: 1,
        troubles: 1,
        stalls: 1,
        ..NO_FAULTS
    },
    skews: ONE_CLOCK,
    scenarios: &[],
    ..LOOK_UP
};

pub const KEYLESS: Configuration = Configuration {
    name: "keyless",
    provider: Provider::Keyless,
    deploying: false,
    scenarios: &[scenarios::LETTER_PROVED_WRONG],
    left: Left {
        moves: 1,
        troubles: 1,
        ..NO_FAULTS
    },
    ..KEYED
};

pub const LOST_ACKNOWLEDGEMENTS: Configuration = Configuration {
    name: "keyless, lost acknowledgements",
    left: Left {
        moves: 1,
        troubles: 1,
        lost_acks: 1,
        ..NO_FAULTS
    },
    scenarios: &[],
    ..KEYLESS
};

/// Two records in one partition, in no order, on an instance that loses the partition and gets it back. Another instance
/// would be no other history, as no disk comes into it.
pub const TWO_KEYS: Configuration = Configuration {
    name: "two keys",
    keys: 2,
    instances: 1,
    provider: Provider::Keyless,
    troubles: &[],
    left: Left {
        moves: 1,
        ..NO_FAULTS
    },
    deploying: false,
    scenarios: &[],
    ..KEYED
};

pub const PARKING: Configuration = Configuration {
    name: "parking",
    keys: 1,
    provider: Provider::Keyless,
    troubles: &[Trouble::Throttled],
    left: Left {
        moves: 1,
        troubles: 1,
        ..NO_FAULTS
    },
    parks: true,
    deploying: false,
    skews: CLOCKS,
    scenarios: &[scenarios::TAKEN_UP_BY_ANOTHER],
    ..KEYED
};

pub const PARKING_IN_ORDER: Configuration = Configuration {
    name: "parking, two keys in order",
    keys: 2,
    is_ordered: true,
    left: Left {
        moves: 1,
        troubles: 1,
        ..NO_FAULTS
    },
    skews: ONE_CLOCK,
    scenarios: &[scenarios::FOLLOWER_PARKED],
    ..PARKING
};

/// One dead letter of what was surely not sent; two operators.
pub const REDRIVES: Configuration = Configuration {
    name: "redrives",
    provider: Provider::Keyless,
    troubles: &[Trouble::Severed],
    left: Left {
        moves: 1,
        troubles: 1,
        ..NO_FAULTS
    },
    deploying: false,
    operators: &[
        &[Decision::Redrive { risk: false }],
        &[Decision::Redrive { risk: false }],
    ],
    budget: 1,
    begins: dead_as_not_sent,
    scenarios: &[scenarios::TWO_DECISIONS, scenarios::REDRIVEN_BY_SUCCESSOR],
    ..KEYED
};

/// One dead letter of which nobody knows whether it was sent.
pub const UNKNOWN_REDRIVEN: Configuration = Configuration {
    name: "decisions on an unknown outcome",
    operators: &[
        &[
            Decision::Redrive { risk: false },
            Decision::Redrive { risk: true },
        ],
        &[Decision::ResolveSent, Decision::ResolveNotSent],
    ],
    left: Left {
        moves: 1,
        ..NO_FAULTS
    },
    begins: dead_as_unknown,
    scenarios: &[],
    ..REDRIVES
};

pub const CANCELLING: Configuration = Configuration {
    name: "cancelling",
    provider: Provider::Keyed {
        window: None,
        look_up: false,
    },
    operators: &[&[Decision::Cancel]],
    left: Left {
        moves: 1,
        troubles: 1,
        ..NO_FAULTS
    },
    begins: assigned,
    scenarios: &[scenarios::CANCELLED, scenarios::CANCELLED_TOO_LATE],
    ..REDRIVES
};

/// One crash, after which the disk comes back or does not.
pub const KEYED_CRASH: Configuration = Configuration {
    name: "keyed, crash",
    left: Left {
        crashes: 1,
        troubles: 1,
        ..NO_FAULTS
    },
    scenarios: &[],
    ..KEYED
};

/// One instance: the partition is taken from it and given back while its first request is in flight.
pub const ONE_INSTANCE: Configuration = Configuration {
    name: "keyless, one instance",
    instances: 1,
    scenarios: &[scenarios::TWO_TENURES],
    ..KEYLESS
};

pub const KEYLESS_CRASH: Configuration = Configuration {
    name: "keyless, crash",
    left: Left {
        crashes: 1,
        troubles: 1,
        ..NO_FAULTS
    },
    scenarios: &[scenarios::LETTER_WITHOUT_END],
    ..KEYLESS
};

pub const LOOK_UP_CRASH: Configuration = Configuration {
    name: "look-up, crash",
    left: Left {
        crashes: 1,
        troubles: 1,
        mute_lookups: 1,
        ..NO_FAULTS
    },
    scenarios: &[],
    ..LOOK_UP
};

/// Three tenures: a rebalance and a crash.
pub const THREE_TENURES: Configuration = Configuration {
    name: "keyless, three tenures",
    left: Left {
        crashes: 1,
        moves: 1,
        ..NO_FAULTS
    },
    scenarios: &[scenarios::LATE_MARKER],
    ..KEYLESS
};

pub const PARKING_CRASH: Configuration = Configuration {
    name: "parking, crash",
    left: Left {
        crashes: 1,
        troubles: 1,
        ..NO_FAULTS
    },
    skews: ONE_CLOCK,
    scenarios: &[],
    ..PARKING
};

/// A wait has just been asked for, and the marker of a tenure that died meanwhile is still on its way.
pub const PARKING_THREE: Configuration = Configuration {
    name: "parking, three tenures",
    left: Left {
        moves: 1,
        ..NO_FAULTS
    },
    scenarios: &[scenarios::LATE_MARKER, scenarios::TAKEN_UP_BY_ANOTHER],
    begins: throttled_before_a_late_marker,
    ..PARKING_CRASH
};

pub const REDRIVES_CRASH: Configuration = Configuration {
    name: "redrives, crash",
    left: Left {
        crashes: 1,
        troubles: 1,
        ..NO_FAULTS
    },
    scenarios: &[],
    ..REDRIVES
};

pub const ALL: &[Configuration] = &[
    KEYED,
    KEYED_CRASH,
    SHORT_WINDOW,
    SHORT_WINDOW_TROUBLED,
    SHORT_WINDOW_LOOK_UP,
    REJECTING,
    LOOK_UP,
    LOOK_UP_CRASH,
    LOOK_UP_SLOW,
    KEYLESS,
    KEYLESS_CRASH,
    ONE_INSTANCE,
    THREE_TENURES,
    LOST_ACKNOWLEDGEMENTS,
    TWO_KEYS,
    PARKING,
    PARKING_CRASH,
    PARKING_THREE,
    PARKING_IN_ORDER,
    REDRIVES,
    REDRIVES_CRASH,
    UNKNOWN_REDRIVEN,
    CANCELLING,
];
