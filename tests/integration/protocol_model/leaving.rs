//! Whether the request of an acknowledged start may leave: rule 2.

use std::cell::RefCell;
use std::collections::HashMap;

use sendonce::domain::ledger_entry::Standing;

use super::Protocol;
use super::rules::Provider;
use super::state::{Doing, Entry, Id, Tick};
use super::view::Reader;

/// Whether a request may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    Now,
    NotYet,
    Never,
}

impl Protocol {
    /// Whether the request of an acknowledged start may leave: rule 2.
    pub fn may_leave(&self, reader: &Reader<'_>, tenure: u8, key: u8) -> Leave {
        let state = reader.state;
        let held = state.tenure(tenure);
        let Doing::Cleared { id, at, .. } = held.doing[usize::from(key)] else {
            return Leave::Never;
        };
        let is_over = held.stage.is_over() && self.rules.lets_go_when_fenced;
        if is_over || (self.rules.keeps_deadline && state.now > at) {
            return Leave::Never;
        }
        let is_start = |entry: &Entry| matches!(entry, Entry::Started { key: of, id: started, .. } if *of == key && *started == id);
        let own = state.log.iter().position(|logged| is_start(&logged.entry));
        if reader.reads_back() && self.rules.start_awaits_topic {
            match own {
                Some(own) if own < usize::from(held.seen) => {
                    if self.rules.late_start_gives_no_leave && !state.counts(own) {
                        return Leave::Never;
                    }
                }
                Some(_) | None => return Leave::NotYet,
            }
        }
        if self.rules.looks_again && !self.still_wanted(reader, tenure, key) {
            return Leave::Never;
        }
        Leave::Now
    }

    /// Whether the fold still wants the attempt that was started: nothing has settled it, no other attempt is open.
    fn still_wanted(&self, reader: &Reader<'_>, tenure: u8, key: u8) -> bool {
        let Doing::Cleared { id, at, version } = reader.state.doing(tenure, key) else {
            return false;
        };
        thread_local! {
            static KNOWN: RefCell<HashMap<(u64, Id, u8, u8), bool>> = RefCell::default();
        }
        let asked = (reader.fingerprint(tenure, key), id, at, version);
        if let Some(wanted) = KNOWN.with_borrow(|known| known.get(&asked).copied()) {
            return wanted;
        }
        let wanted = self.still_wanted_anew(reader, tenure, key, (id, at, version));
        KNOWN.with_borrow_mut(|known| known.insert(asked, wanted));
        wanted
    }

    fn still_wanted_anew(
        &self,
        reader: &Reader<'_>,
        tenure: u8,
        key: u8,
        (id, at, version): (Id, Tick, u8),
    ) -> bool {
        let view = reader.view(Some(tenure), key);
        let Some(story) = &view.story else {
            return true;
        };
        let keyless = !matches!(self.configuration.provider, Provider::Keyed { .. });
        let standing = story.standing();
        let open = standing == Standing::Open;
        let other_open = reader.others_open(story, id);
        let pinned = story
            .rendering
            .as_ref()
            .map(|rendering| rendering.request.0[0]);
        let same_bytes =
            !self.rules.rendering_is_pinned || pinned.is_none_or(|pinned| pinned == version);
        let in_time = reader.may_send(story, tenure, at);
        open && !(keyless && other_open && id.round == 0) && same_bytes && in_time
    }
}
