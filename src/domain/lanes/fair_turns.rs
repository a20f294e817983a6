//! Decides which lane goes first where several wait for the same thing: each gets turns by its weight, and one that waits
//! anew goes before all that have had more than theirs. It does not know what a turn is, nor who goes first within a lane.
//!
//! This is start-time fair queueing (Goyal, Vin and Cheng, "Start-time Fair Queueing", SIGCOMM 1996) for turns of equal
//! size: a turn costs a lane the more the less it weighs, and the one that has paid least goes first. What is paid is kept
//! relative to the lane that went last, so that nothing is saved up while nobody of a lane waits, and nothing overflows.

use std::collections::BTreeMap;

use super::{Lane, Weight};

/// What a turn costs a lane of weight 1. Divides by every weight up to a millionth.
const COST: u64 = 1_000_000_000;

/// Whose turn it is.
#[derive(Clone, Debug, Default)]
pub struct FairTurns(BTreeMap<Lane, Account>);

/// What one lane has had.
#[derive(Clone, Copy, Debug)]
struct Account {
    cost: u64,
    /// What it has paid beyond the lane that went last; at most `cost`.
    ahead: u64,
}

impl FairTurns {
    /// Lanes of these weights, the first being lane 0. A lane without a weight has the least one.
    pub fn new(weights: &[Weight]) -> Self {
        let accounts = weights.iter().map(|weight| Account::of(*weight));
        Self((0..).map(Lane).zip(accounts).collect())
    }

    /// Chooses among the lanes that wait, and counts the turn. Between equals the first in the configuration goes.
    ///
    /// A lane that begins to wait goes after at most `w / v + 1` turns of each other lane, where `w` is the other's weight and
    /// `v` its own, rounded down.
    pub fn choose(&mut self, waiting: impl IntoIterator<Item = Lane>) -> Option<Lane> {
        let ahead = |lane: &Lane| self.0.get(lane).map_or(0, |account| account.ahead);
        let waiting = waiting.into_iter().map(|lane| (ahead(&lane), lane));
        let (least, chosen) = waiting.min()?;
        for account in self.0.values_mut() {
            account.ahead = account.ahead.saturating_sub(least);
        }
        let account = self.0.entry(chosen);
        let account = account.or_insert_with(|| Account::of(Weight::MIN));
        account.ahead = account.cost;
        Some(chosen)
    }
}

impl Account {
    fn of(weight: Weight) -> Self {
        Self {
            cost: COST / u64::from(weight.get()),
            ahead: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::WEIGHT_MAX;
    use super::*;

    fn weights(weights: &[u32]) -> Vec<Weight> {
        let weight = |weight: &u32| Weight::new(*weight).unwrap();
        weights.iter().map(weight).collect()
    }

    /// So many turns while all of these lanes wait, as text.
    fn turns(fair: &mut FairTurns, waiting: &[usize], count: usize) -> String {
        let mut lanes = String::new();
        for _ in 0..count {
            let chosen = fair.choose(waiting.iter().copied().map(Lane));
            lanes.push_str(&chosen.unwrap().0.to_string());
        }
        lanes
    }

    #[test]
    fn lanes_take_turns_by_their_weights() {
        let mut fair = FairTurns::new(&weights(&[1, 1]));
        assert_eq!(turns(&mut fair, &[0, 1], 8), "01010101");
        let mut fair = FairTurns::new(&weights(&[3, 1]));
        assert_eq!(turns(&mut fair, &[0, 1], 12), "010001000100");
        assert_eq!(fair.choose([]), None);
    }

    #[test]
    fn a_lane_alone_has_every_turn_and_pays_for_none_later() {
        let mut fair = FairTurns::new(&weights(&[1, 1]));
        assert_eq!(turns(&mut fair, &[1], 1_000).matches('1').count(), 1_000);
        assert_eq!(turns(&mut fair, &[0, 1], 6), "001010");
    }

    #[test]
    fn nothing_is_saved_up_while_nobody_waits() {
        let mut fair = FairTurns::new(&weights(&[1, 1]));
        turns(&mut fair, &[1], 1_000);
        // Lane 0 has had none of a thousand turns, and has one of them back.
        assert_eq!(turns(&mut fair, &[0, 1], 5), "00101");
    }

    #[test]
    fn coming_and_going_gains_nothing() {
        let mut fair = FairTurns::new(&weights(&[1, 1]));
        let mut of_the_first = 0;
        for turn in 0..1_000 {
            let waiting: &[usize] = if turn % 3 == 2 { &[1] } else { &[0, 1] };
            of_the_first += turns(&mut fair, waiting, 1).matches('0').count();
        }
        assert!(of_the_first <= 500, "{of_the_first}");
    }

    /// The same by the book: absolute tags as exact fractions, one for each lane's next turn.
    struct Oracle {
        weights: Vec<u128>,
        next: Vec<u128>,
        now: u128,
    }

    impl Oracle {
        fn new(weights: &[Weight]) -> Self {
            Self {
                weights: weights.iter().map(|w| u128::from(w.get())).collect(),
                next: vec![0; weights.len()],
                now: 0,
            }
        }

        /// A turn's cost over the common denominator of all weights.
        fn cost(&self, lane: usize) -> u128 {
            let product: u128 = self.weights.iter().product();
            product / self.weights[lane]
        }

        fn choose(&mut self, waiting: &[usize]) -> Option<usize> {
            let tag = |lane: usize| self.next[lane].max(self.now);
            let chosen = waiting
                .iter()
                .copied()
                .min_by_key(|lane| (tag(*lane), *lane))?;
            self.now = tag(chosen);
            self.next[chosen] = self.now + self.cost(chosen);
            Some(chosen)
        }
    }

    /// Weights that divide the cost of a turn, so that the oracle's fractions are ours.
    fn divisors() -> impl Strategy<Value = Vec<Weight>> {
        let one = prop::sample::select(vec![1, 2, 4, 5, 8, 10, 16, 20, 25, 50, 100, 1_000]);
        prop::collection::vec(one, 1..5).prop_map(|picked| weights(&picked))
    }

    fn any_weights() -> impl Strategy<Value = Vec<Weight>> {
        prop::collection::vec(1..=WEIGHT_MAX, 2..6).prop_map(|picked| weights(&picked))
    }

    proptest! {
        #[test]
        fn turns_are_those_of_the_book(
            weights in divisors(),
            waiting in prop::collection::vec(any::<u8>(), 1..200),
        ) {
            let mut fair = FairTurns::new(&weights);
            let mut oracle = Oracle::new(&weights);
            for mask in waiting {
                let waiting: Vec<usize> = (0..weights.len()).filter(|n| mask & (1 << n) != 0).collect();
                let chosen = fair.choose(waiting.iter().copied().map(Lane));
                prop_assert_eq!(chosen.map(|lane| lane.0), oracle.choose(&waiting));
            }
        }

        /// Over any stretch in which all wait, what two lanes got differs from their weights by one turn of each.
        #[test]
        fn shares_match_the_weights_over_any_stretch(
            weights in any_weights(),
            before in prop::collection::vec(any::<u8>(), 0..50),
            stretch in 1_usize..5_000,
        ) {
            let mut fair = FairTurns::new(&weights);
            for mask in before {
                let waiting = (0..weights.len()).filter(|n| mask & (1 << n) != 0).map(Lane);
                fair.choose(waiting);
            }
            let mut had = vec![0_u64; weights.len()];
            for _ in 0..stretch {
                let chosen = fair.choose((0..weights.len()).map(Lane)).unwrap();
                had[chosen.0] += 1;
            }
            for (a, b) in (0..weights.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
                let (wa, wb) = (weights[a].get(), weights[b].get());
                let of = |lane: usize, weight: u32| had[lane] as f64 / f64::from(weight);
                let apart = (of(a, wa) - of(b, wb)).abs();
                let most = 1.0 / f64::from(wa) + 1.0 / f64::from(wb);
                // The cost of a turn is rounded down by less than a millionth.
                prop_assert!(apart <= most * 1.01, "{had:?} of {weights:?}");
            }
        }

        /// Whatever came before, and whoever comes and goes meanwhile.
        #[test]
        fn whoever_begins_to_wait_waits_no_longer_than_is_said(
            weights in any_weights(),
            before in prop::collection::vec(any::<u8>(), 0..100),
            others in prop::collection::vec(any::<u8>(), 6_000),
            which in any::<prop::sample::Index>(),
        ) {
            let mut fair = FairTurns::new(&weights);
            let lanes = |mask: u8| (0..weights.len()).filter(move |n| mask & (1 << n) != 0).map(Lane);
            for mask in before {
                fair.choose(lanes(mask));
            }
            let ours = which.index(weights.len());
            let mut had = vec![0_u32; weights.len()];
            for mask in others {
                let chosen = fair.choose(lanes(mask | (1 << ours))).unwrap();
                if chosen.0 == ours {
                    break;
                }
                had[chosen.0] += 1;
                for (lane, had) in had.iter().enumerate() {
                    let most = weights[lane].get() / weights[ours].get() + 1;
                    prop_assert!(*had <= most, "{had} turns of lane {lane}: {weights:?}");
                }
            }
        }
    }
}
