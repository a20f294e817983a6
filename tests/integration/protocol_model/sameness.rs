//! Which moments are the same to everybody who can still act, so that only one of them is explored.
//!
//! - Time is told from now: how long ago something was, up to a span beyond which nobody asks.
//! - What everybody has read is a set: entries fold in any order, and whether each counts by its place is kept with it. Only
//!   operators' decisions are versioned by place, so with them the order stays.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::state::{Doing, Entry, Said, State, Tenure, Tick};

/// Ticks after which it makes no difference any more how long ago something was.
const LONG_AGO: Tick = 6;

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.skew.hash(hasher);
        self.hash_log(hasher);
        for flight in &self.flights {
            (flight.via, flight.by).hash(hasher);
            self.told_from_now(flight.entry).hash(hasher);
        }
        for held in &self.tenures {
            self.hash_tenure(held, hasher);
        }
        self.owner.hash(hasher);
        for flight in self.disks.iter().flatten() {
            (flight.via, flight.by).hash(hasher);
            self.told_from_now(flight.entry).hash(hasher);
        }
        self.disks.each_ref().map(Vec::len).hash(hasher);
        for packet in &self.wire {
            (
                packet.key,
                packet.id,
                packet.version,
                packet.gone_at - self.now,
            )
                .hash(hasher);
        }
        for account in &self.accounts {
            (
                account.deliveries,
                account.version,
                self.ago(account.taken_at),
            )
                .hash(hasher);
        }
        (
            &self.letters,
            &self.parking,
            self.committed,
            &self.operators,
        )
            .hash(hasher);
        (self.left, self.broken).hash(hasher);
    }
}

impl State {
    fn ago(&self, at: Tick) -> Tick {
        self.now.saturating_sub(at).min(LONG_AGO)
    }

    /// How long ago an attempt was started, where look-ups wait for its end. Else it matters only whether it was just now.
    fn started(&self, at: Tick) -> Tick {
        let ago = self.ago(at);
        if self.asks.look_up { ago } else { ago.min(1) }
    }

    /// An entry with its moments told from now.
    fn told_from_now(&self, entry: Entry) -> Entry {
        match entry {
            Entry::Started {
                key,
                id,
                at,
                version,
            } => Entry::Started {
                key,
                id,
                at: self.started(at),
                version,
            },
            Entry::Answered {
                key,
                id,
                said: Said::Throttled { until },
            } => {
                let until = (until + LONG_AGO).saturating_sub(self.now);
                Entry::Answered {
                    key,
                    id,
                    said: Said::Throttled { until },
                }
            }
            Entry::Marker
            | Entry::Answered { .. }
            | Entry::Lettering { .. }
            | Entry::Lettered { .. }
            | Entry::Parked { .. }
            | Entry::Decided { .. } => entry,
        }
    }

    /// How much of the log has been read by all who hold the partition, or believe so: so far its order is forgotten.
    fn read_by_all(&self) -> usize {
        if !self.operators.is_empty() {
            return 0;
        }
        let holding = self.tenures.iter().filter(|held| held.stage.holds());
        let least = holding.map(|held| usize::from(held.seen)).min();
        least.unwrap_or(self.log.len())
    }

    fn hash_log(&self, hasher: &mut impl Hasher) {
        let read_by_all = self.read_by_all();
        let mut marker = None;
        let mut set = 0_u64;
        for (index, logged) in self.log.iter().enumerate() {
            let counts = marker == Some(logged.by);
            let is_marker = logged.entry == Entry::Marker;
            if is_marker {
                marker = Some(logged.by);
            }
            if index == read_by_all {
                marker.hash(hasher);
            }
            let start = matches!(logged.entry, Entry::Started { .. });
            let appended = if start && self.asks.window {
                self.ago(logged.at)
            } else {
                0
            };
            let told = (
                logged.by,
                self.told_from_now(logged.entry),
                appended,
                counts,
            );
            if index >= read_by_all {
                told.hash(hasher);
            } else if !is_marker {
                let mut element = DefaultHasher::new();
                told.hash(&mut element);
                set = set.wrapping_add(element.finish());
            }
        }
        (set, marker, self.log.len() - read_by_all).hash(hasher);
    }

    fn hash_tenure(&self, held: &Tenure, hasher: &mut impl Hasher) {
        (held.instance, held.stage, held.is_confirmed, held.from).hash(hasher);
        let beyond = if held.stage.holds() {
            usize::from(held.seen) - self.read_by_all()
        } else {
            0
        };
        let waits = [held.claimed_at, held.marked_at]
            .map(|at| if self.asks.look_up { self.ago(at) } else { 0 });
        (beyond, waits).hash(hasher);
        for doing in &held.doing {
            match *doing {
                Doing::Writing(entry) => (1_u8, self.told_from_now(entry)).hash(hasher),
                Doing::Cleared { id, at, version } => {
                    (2_u8, id, self.ago(at).min(1), version).hash(hasher)
                }
                Doing::Asking { id, at } => (3_u8, id, self.ago(at).min(1)).hash(hasher),
                Doing::Rest | Doing::Lettering { .. } | Doing::Handing => {
                    (4_u8, *doing).hash(hasher)
                }
            }
        }
    }
}
