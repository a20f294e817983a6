//! The protocol of the ledger topic as a model that is explored whole, for small bounds: every order of steps, every crash,
//! every lost or late message. Where the product differs from it, one of both is wrong.
//!
//! # What is modelled
//!
//! The group's coordinator (it assigns, revokes, takes away without a word, confirms), two or three tenures on two instances,
//! disks that come back or not, the ledger topic (appends that land late, acknowledgements that get lost, each reader's own
//! position), a provider of each kind, the clocks, the dead-letter and the parking topic, the group's position, two operators.
//!
//! - `state`: one moment; `sameness`: which moments are the same to all who can still act.
//! - `rules`: what the protocol demands, each rule a switch; the bounds of a configuration.
//! - `words`, `view`, `plan`: the product decides. A tenure's knowledge is the product's `Story`, folded by the product; its
//!   next step is what `dispatch::next`, `dispatch::reconciled` and `dispatch::may_send` say. Only what the product lacks is
//!   decided here: whose entries count by their place, when another's attempt is over, parking, redrives and cancels.
//! - `actions`, `leaving`: what may happen; `steps`, `tenure_steps`: what it makes of the moment.
//! - `properties`: the invariants of the design by their names. No loss is asked where nobody has anything left to do.
//! - `scenarios`: what must be reachable; `configurations`, `beginnings`: what is explored; `variants`: one rule broken each, and what falls.
//!
//! # What is left out
//!
//! - *Time* is in minutes: a request takes up to one, the kernel delivers for one more, a provider hides for one, clocks
//!   differ by one. It passes only while somebody depends on it, and stands still where nothing does.
//! - *An acknowledgement comes with its entry.* A later one is a tenure that acts later, a lost one is the same entry twice.
//! - *A read goes to the log's end.* A shorter one is one that was made earlier. A warm reader and a cold one come to one fold.
//! - *A disk's flush* is a choice at the crash: what was not acknowledged by the topic comes back from the disk, or does not.
//! - *What a tenure hears while it waits* it hears right after, where the order makes no difference.
//! - *Faults are bounded*, and combined by twos and threes, not all at once. Nobody is killed after everything is committed.
//! - Payload conflicts (I6), limits (I9) and privacy (I10) are no matter of this protocol.
//!
//! # How to read a counterexample
//!
//! A failing exploration prints the promise, the shortest history, one step a line, and the moment after it. Tenures are
//! numbered in the order of their assignment, `via` is the tenure whose producer carries an entry, and operators' producers
//! begin at 100. Start at the last `Send`, `Commit` or `AcknowledgeLetter`, and ask which entries its tenure had read by then.
//! `SENDONCE_TEST_HISTORIES=1 cargo test --test integration -- --nocapture protocol_model::tests::broken` prints the histories
//! of the broken variants, `-- --nocapture protocol_model` how many states each configuration has.
//!
//! # What it found
//!
//! - *Every start is read back*, not only where keys are short or absent. Else a paused owner sends under a profile that a
//!   deploy has replaced meanwhile (I1), and what it sends is accepted after its successor has written `rejected`,
//!   `retries_exhausted` or `cancelled`.
//! - *A parking is read back before the commit*, as it counts by its place. Acknowledged alone, it may stand behind a marker
//!   that landed late: the offset is committed, and nobody takes the record up again (I3).
//! - *A wait is read with a minute added* where another instance wrote it down by its own clock.
//! - *A rejection speaks for what its own tenure heard before it*, never for what another tenure heard: that may have been
//!   taken after the rejection and answered then. `dispatch` took it for answered.
//! - With every start read back, one behind a newer marker is never sent, and counts neither for the window nor for the wait.

mod actions;
mod beginnings;
mod configurations;
mod leaving;
mod plan;
mod properties;
mod rules;
mod sameness;
mod scenarios;
mod state;
mod steps;
mod tenure_steps;
mod tests;
mod variants;
mod view;
mod words;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use stateright::{Model, Property};

use actions::Action;
use rules::{Configuration, Rules};
use state::State;
use view::Reader;

/// The protocol under one set of rules, in one configuration.
#[derive(Clone)]
pub struct Protocol {
    pub rules: Rules,
    pub configuration: Configuration,
    /// A fingerprint of both.
    identity: u64,
}

impl Protocol {
    pub fn new(rules: Rules, configuration: Configuration) -> Self {
        let mut hasher = DefaultHasher::new();
        (rules, configuration.name).hash(&mut hasher);
        Self {
            rules,
            configuration,
            identity: hasher.finish(),
        }
    }

    fn reader<'a>(&'a self, state: &'a State) -> Reader<'a> {
        Reader {
            state,
            rules: &self.rules,
            configuration: &self.configuration,
            identity: self.identity,
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        (self.configuration.begins)(&self.configuration)
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.possible(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        Some(self.after(state, action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let scenarios = self.configuration.scenarios.iter();
        let reachable =
            scenarios.map(|scenario| Property::sometimes(scenario.name, scenario.is_here));
        properties::all().into_iter().chain(reachable).collect()
    }
}
