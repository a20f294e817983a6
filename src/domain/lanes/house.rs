//! Decides how many intents of each lane may be open, in places: each lane has a share by its weight. What it does not use
//! others may borrow, but for half of it, which stays free: an intent of a quiet lane finds room at once, whatever waits in
//! the others. Who has borrowed gives back as what is open ends, and borrows no more, once the owner wants its share.
//!
//! It does not know what an intent is, nor how long one stays.

use super::{Lane, Weight};

/// The places, and whose they are.
#[derive(Clone, Debug)]
pub struct House {
    places: usize,
    lanes: Vec<Allotment>,
}

#[derive(Clone, Copy, Debug)]
struct Allotment {
    share: usize,
    /// What of the share is never lent.
    kept: usize,
}

/// How things stand with one lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Places that its open intents take.
    pub taken: usize,
    /// Whether more of it waits, here or where it was asked to stay.
    pub wants: bool,
    /// The places that its next intent takes, if one waits here.
    pub next: Option<usize>,
}

impl House {
    /// So many places, shared out by these weights, the first being that of lane 0. A share has at least one place, so there
    /// should be as many places as lanes.
    pub fn new(places: usize, weights: &[Weight]) -> Self {
        let spare = places.saturating_sub(weights.len()) as u128;
        let sum: u128 = weights.iter().map(|weight| u128::from(weight.get())).sum();
        let allot = |weight: &Weight| {
            let more = spare * u128::from(weight.get()) / sum.max(1);
            let share = 1 + usize::try_from(more).unwrap_or(places);
            Allotment {
                share,
                kept: share.div_ceil(2),
            }
        };
        Self {
            places,
            lanes: weights.iter().map(allot).collect(),
        }
    }

    /// The places that are the lane's own.
    pub fn share(&self, lane: Lane) -> usize {
        self.lanes.get(lane.0).map_or(0, |lane| lane.share)
    }

    /// How many places the lane may take now.
    pub fn room(&self, lane: Lane, at: impl Fn(Lane) -> Use) -> usize {
        let mut others_hold = 0;
        let mut owner_waits = false;
        for (other, allotment) in self.lanes() {
            if other != lane {
                let Use { taken, wants, .. } = at(other);
                others_hold += taken.max(allotment.kept);
                owner_waits |= wants && taken < allotment.share;
            }
        }
        let taken = at(lane).taken;
        let free = self.places.saturating_sub(others_hold + taken);
        if owner_waits {
            free.min(self.share(lane).saturating_sub(taken))
        } else {
            free
        }
    }

    /// The lane whose next intent may be let in: of those for which there is room, the one that uses the smallest part of its
    /// share.
    pub fn next(&self, at: impl Fn(Lane) -> Use) -> Option<Lane> {
        let fits = |(lane, _): &(Lane, Allotment)| {
            let next = at(*lane).next;
            next.is_some_and(|places| places <= self.room(*lane, &at))
        };
        let used = |(lane, allotment): &(Lane, Allotment)| {
            (at(*lane).taken as u128) * 1_000_000 / (allotment.share as u128)
        };
        let next = self.lanes().filter(fits).min_by_key(used);
        next.map(|(lane, _)| lane)
    }

    fn lanes(&self) -> impl Iterator<Item = (Lane, Allotment)> {
        (0..).map(Lane).zip(self.lanes.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::WEIGHT_MAX;
    use super::*;

    fn house(places: usize, weights: &[u32]) -> House {
        let weight = |weight: &u32| Weight::new(*weight).unwrap();
        let weights: Vec<Weight> = weights.iter().map(weight).collect();
        House::new(places, &weights)
    }

    fn shares(house: &House) -> Vec<usize> {
        (0..house.lanes.len())
            .map(|n| house.share(Lane(n)))
            .collect()
    }

    /// The room of each lane where so many are taken and these want more.
    fn rooms(house: &House, taken: &[usize], wants: &[bool]) -> Vec<usize> {
        let at = |lane: Lane| Use {
            taken: taken[lane.0],
            wants: wants[lane.0],
            next: None,
        };
        (0..taken.len()).map(|n| house.room(Lane(n), at)).collect()
    }

    #[test]
    fn places_are_shared_out_by_weight_and_everyone_has_one() {
        assert_eq!(shares(&house(10_000, &[1])), [10_000]);
        assert_eq!(shares(&house(10_000, &[1, 1])), [5_000, 5_000]);
        assert_eq!(shares(&house(10_000, &[9, 1])), [8_999, 1_000]);
        assert_eq!(shares(&house(3, &[1_000, 1, 1])), [1, 1, 1]);
    }

    #[test]
    fn one_lane_alone_has_the_whole_house() {
        let house = house(10, &[1]);
        assert_eq!(rooms(&house, &[0], &[true]), [10]);
        assert_eq!(rooms(&house, &[7], &[true]), [3]);
        assert_eq!(rooms(&house, &[10], &[true]), [0]);
    }

    #[test]
    fn what_a_quiet_lane_does_not_use_is_lent_but_for_half_of_its_share() {
        let house = house(100, &[1, 1]);
        assert_eq!(rooms(&house, &[0, 0], &[false, true]), [50, 75]);
        assert_eq!(rooms(&house, &[0, 75], &[false, true]), [25, 0]);
        // What the quiet one uses of its half does not make the others' limit smaller.
        assert_eq!(rooms(&house, &[25, 75], &[false, true]), [0, 0]);
        assert_eq!(rooms(&house, &[24, 70], &[false, true]), [6, 5]);
    }

    #[test]
    fn who_has_borrowed_gives_back_once_the_owner_wants_its_share() {
        let house = house(100, &[1, 1]);
        let both = [true, true];
        assert_eq!(rooms(&house, &[25, 75], &both), [0, 0]);
        assert_eq!(rooms(&house, &[25, 74], &both), [1, 0], "the owner's");
        assert_eq!(rooms(&house, &[50, 49], &both), [0, 1], "each its share");
        assert_eq!(rooms(&house, &[50, 45], &both), [0, 5]);
        assert_eq!(rooms(&house, &[50, 45], &[true, false]), [5, 5]);
    }

    #[test]
    fn of_those_that_wait_the_one_goes_in_that_uses_least_of_its_share() {
        let house = house(100, &[3, 1]);
        let next = |taken: [usize; 2], next: [Option<usize>; 2]| {
            let at = |lane: Lane| Use {
                taken: taken[lane.0],
                wants: next[lane.0].is_some(),
                next: next[lane.0],
            };
            house.next(at).map(|lane| lane.0)
        };
        assert_eq!(next([30, 11], [Some(1), Some(1)]), Some(0));
        assert_eq!(next([30, 9], [Some(1), Some(1)]), Some(1));
        assert_eq!(next([30, 11], [None, Some(1)]), Some(1));
        assert_eq!(next([75, 25], [Some(1), Some(1)]), None, "full");
        assert_eq!(next([60, 20], [Some(50), Some(1)]), Some(1), "what fits");
    }

    #[derive(Clone, Debug)]
    enum Happening {
        /// One of so many places comes to a lane.
        Comes(usize, usize),
        /// The oldest open one of a lane ends.
        Ends(usize),
    }

    fn happenings(lanes: usize) -> impl Strategy<Value = Vec<Happening>> {
        let one = prop_oneof![
            3 => (0..lanes, 1_usize..6).prop_map(|(lane, places)| Happening::Comes(lane, places)),
            2 => (0..lanes).prop_map(Happening::Ends),
        ];
        prop::collection::vec(one, 1..300)
    }

    /// The house as a list of who is in it, and of who waits before it.
    struct Life {
        house: House,
        open: Vec<Vec<usize>>,
        waiting: Vec<Vec<usize>>,
    }

    impl Life {
        fn new(house: House) -> Self {
            let lanes = house.lanes.len();
            Self {
                house,
                open: vec![Vec::new(); lanes],
                waiting: vec![Vec::new(); lanes],
            }
        }

        fn at(&self, lane: Lane) -> Use {
            Use {
                taken: self.open[lane.0].iter().sum(),
                wants: !self.waiting[lane.0].is_empty(),
                next: self.waiting[lane.0].first().copied(),
            }
        }

        fn let_in(&mut self) {
            while let Some(lane) = self.house.next(|lane| self.at(lane)) {
                let places = self.waiting[lane.0].remove(0);
                self.open[lane.0].push(places);
            }
        }

        fn happens(&mut self, happening: &Happening) {
            match *happening {
                Happening::Comes(lane, places) => {
                    let places = places.min(self.house.share(Lane(lane)));
                    self.waiting[lane].push(places);
                }
                Happening::Ends(lane) if self.open[lane].is_empty() => {}
                Happening::Ends(lane) => drop(self.open[lane].remove(0)),
            }
            self.let_in();
        }
    }

    fn lives() -> impl Strategy<Value = (House, Vec<Happening>)> {
        (prop::collection::vec(1..=WEIGHT_MAX, 1..5), 5_usize..200).prop_flat_map(
            |(weights, places)| {
                let lanes = weights.len();
                (Just(house(places, &weights)), happenings(lanes))
            },
        )
    }

    proptest! {
        #[test]
        fn the_house_is_never_overfull_and_a_quiet_lane_always_finds_room((house, happenings) in lives()) {
            let shares_sum: usize = shares(&house).iter().sum();
            prop_assert!(shares_sum <= house.places);
            let mut life = Life::new(house);
            for happening in &happenings {
                life.happens(happening);
                let taken = |lane: usize| life.at(Lane(lane)).taken;
                let lanes = life.house.lanes.len();
                prop_assert!((0..lanes).map(taken).sum::<usize>() <= life.house.places);
                for (lane, allotment) in life.house.lanes() {
                    let room = life.house.room(lane, |lane| life.at(lane));
                    prop_assert!(taken(lane.0) + room >= allotment.kept, "{lane:?}");
                }
            }
        }

        /// As long as what is open ends, whoever wants its share gets it, and what others borrowed comes back.
        #[test]
        fn whoever_wants_its_share_has_it_once_the_others_ends_have_come((house, happenings) in lives()) {
            let mut life = Life::new(house);
            for happening in &happenings {
                life.happens(happening);
            }
            let lanes = life.house.lanes.len();
            for lane in 0..lanes {
                life.waiting[lane] = vec![1; life.house.places];
            }
            life.let_in();
            // Everyone ends one after the other, and everyone wants more.
            for _ in 0..life.house.places * 2 {
                for lane in 0..lanes {
                    life.waiting[lane].push(1);
                    life.happens(&Happening::Ends(lane));
                }
            }
            for lane in 0..lanes {
                let taken = life.at(Lane(lane)).taken;
                prop_assert!(taken >= life.house.share(Lane(lane)), "{lane}: {taken} of {:?}", life.house);
            }
        }

        /// Nothing that may be lent lies idle while somebody wants it.
        #[test]
        fn nobody_is_kept_out_while_there_is_what_may_be_lent((house, happenings) in lives()) {
            let mut life = Life::new(house);
            for happening in &happenings {
                life.happens(happening);
                let held = |n: usize| life.at(Lane(n)).taken.max(life.house.lanes[n].kept);
                for lane in 0..life.house.lanes.len() {
                    let others: usize = (0..life.house.lanes.len()).filter(|n| *n != lane).map(held).sum();
                    let Use { taken, next, .. } = life.at(Lane(lane));
                    let owner_waits = (0..life.house.lanes.len())
                        .any(|n| n != lane && life.at(Lane(n)).wants && life.at(Lane(n)).taken < life.house.share(Lane(n)));
                    if let Some(places) = next && !owner_waits {
                        prop_assert!(others + taken + places > life.house.places);
                    }
                }
            }
        }
    }
}
