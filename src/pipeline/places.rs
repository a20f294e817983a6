//! Decides who may make a request next where only so many may be in flight: of the lane whose turn it is, the record that was
//! read first. A retry would else stand behind everything that was read since, and hold back what may be committed. While
//! ranks are heeded, attempts of every lane go before look-ups, and within a lane the lowest rank goes first.
//!
//! It does not know what a request is, nor whether the account may be asked: that is the account's gate. Which lane's turn it
//! is, is decided in `domain::lanes`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::domain::lanes::{FairTurns, Lane, Weight};

/// Where a record stands among all that this process has read; no two are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOrder {
    /// Its lane.
    pub lane: Lane,
    /// When it was read.
    pub number: u64,
}

/// What leave is asked for, which decides who goes first while it is being found out whether the provider is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// An attempt. Who has found the provider down more often goes later, so that probes are shared out.
    Send {
        /// How often its intent has found the provider down.
        outages: u32,
    },
    /// A look-up. It goes behind every attempt: what it finds says hardly anything of the part that takes messages.
    LookUp {
        /// How often its intent has found the provider down.
        outages: u32,
    },
}

/// So many places, and those who wait for one.
#[derive(Debug)]
pub struct Places(Mutex<Queue>);

#[derive(Debug)]
struct Queue {
    free: usize,
    /// By the number of their record. A lane stays once somebody of it has waited.
    waiting: BTreeMap<Lane, BTreeMap<u64, Waiter>>,
    turns: FairTurns,
    heeds_ranks: bool,
}

#[derive(Debug)]
struct Waiter {
    rank: u64,
    told: oneshot::Sender<Place>,
}

/// Leave to make a request; dropping it gives the place to the next one.
#[derive(Debug)]
pub struct Place(Option<Arc<Places>>);

impl Places {
    /// So many places, all of them free, for lanes of these weights.
    pub fn new(count: usize, weights: &[Weight]) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Queue {
            free: count,
            waiting: BTreeMap::new(),
            turns: FairTurns::new(weights),
            heeds_ranks: false,
        })))
    }

    /// Waits for a place. Of those of a lane who wait, the one that was read first gets it. A record waits for one place at a
    /// time.
    pub async fn take(self: &Arc<Self>, order: ReadOrder) -> Place {
        self.take_ranked(order, 0).await
    }

    /// Likewise; while ranks are heeded, it goes behind every lower rank of its lane.
    pub async fn take_ranked(self: &Arc<Self>, order: ReadOrder, rank: u64) -> Place {
        let mut waiting = {
            let mut queue = self.queue();
            if queue.free > 0 {
                queue.free -= 1;
                return Place(Some(Arc::clone(self)));
            }
            let (told, given) = oneshot::channel();
            let lane = queue.waiting.entry(order.lane).or_default();
            lane.insert(order.number, Waiter { rank, told });
            Waiting {
                places: self,
                order,
                given,
                is_over: false,
            }
        };
        let given = (&mut waiting.given).await;
        waiting.is_over = true;
        match given {
            Ok(place) => place,
            // Only one who waits in the same record's name can have taken it out: there is none.
            Err(_) => std::future::pending().await,
        }
    }

    /// Whether no place is free.
    pub fn is_full(&self) -> bool {
        self.queue().free == 0
    }

    /// Whether ranks are heeded from now on, by those too who wait already. At first they are not.
    pub fn heed_ranks(&self, heeded: bool) {
        self.queue().heeds_ranks = heeded;
    }

    /// Hands a place that is no longer needed to the next one who still waits for it.
    fn pass_on(self: Arc<Self>) {
        let mut place = Place(None);
        loop {
            let next = {
                let mut queue = self.queue();
                let next = queue.next();
                if next.is_none() {
                    queue.free += 1;
                }
                next
            };
            let Some(next) = next else { return };
            place.0 = Some(Arc::clone(&self));
            match next.told.send(place) {
                Ok(()) => return,
                Err(mut refused) => {
                    // It is handed on here, not by being dropped.
                    refused.0 = None;
                    place = refused;
                }
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Precedence {
    /// How often its intent has found the provider down.
    pub const fn outages(self) -> u32 {
        match self {
            Self::Send { outages } | Self::LookUp { outages } => outages,
        }
    }

    /// Its rank: the lowest goes first.
    pub fn rank(self) -> u64 {
        match self {
            Self::Send { outages } => outages.into(),
            Self::LookUp { outages } => LOOK_UPS + u64::from(outages),
        }
    }
}

/// The first rank of look-ups.
const LOOK_UPS: u64 = 1 << 32;

impl Queue {
    /// Takes out the one whose turn it is.
    fn next(&mut self) -> Option<Waiter> {
        if self.heeds_ranks {
            return self.next_by_rank();
        }
        let lanes = self.waiting.iter();
        let lanes = lanes.filter(|(_, waiting)| !waiting.is_empty());
        let lane = self.turns.choose(lanes.map(|(lane, _)| *lane))?;
        let (_, next) = self.waiting.get_mut(&lane)?.pop_first()?;
        Some(next)
    }

    /// All are looked through: ranks are heeded while hardly anybody is let in.
    fn next_by_rank(&mut self) -> Option<Waiter> {
        let lowest = |waiting: &BTreeMap<u64, Waiter>| {
            let waiting = waiting.iter();
            waiting.map(|(number, waiter)| (waiter.rank, *number)).min()
        };
        let first_of: Vec<(Lane, (u64, u64))> = self
            .waiting
            .iter()
            .filter_map(|(lane, waiting)| Some((*lane, lowest(waiting)?)))
            .collect();
        let looks_up = |(_, (rank, _)): &(Lane, (u64, u64))| *rank >= LOOK_UPS;
        let only_look_ups = first_of.iter().all(looks_up);
        let foremost = first_of.iter();
        let foremost = foremost.filter(|first| only_look_ups || !looks_up(first));
        let lane = self.turns.choose(foremost.map(|(lane, _)| *lane))?;
        let (_, (_, number)) = first_of.iter().find(|(of, _)| *of == lane)?;
        self.waiting.get_mut(&lane)?.remove(number)
    }

    fn leave(&mut self, order: ReadOrder) {
        if let Some(waiting) = self.waiting.get_mut(&order.lane) {
            waiting.remove(&order.number);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(places) = self.0.take() {
            places.pass_on();
        }
    }
}

/// One who waits; whoever stops waiting leaves the queue.
struct Waiting<'a> {
    places: &'a Places,
    order: ReadOrder,
    given: oneshot::Receiver<Place>,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.places.queue().leave(self.order);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use proptest::prelude::*;

    use super::*;

    type Taking = Pin<Box<dyn Future<Output = Place>>>;

    /// So many places for lanes of these weights.
    fn places(count: usize, weights: &[u32]) -> Arc<Places> {
        let weight = |weight: &u32| Weight::new(*weight).unwrap();
        let weights: Vec<Weight> = weights.iter().map(weight).collect();
        Places::new(count, &weights)
    }

    fn taking_in(lane: usize, places: &Arc<Places>, number: u64, rank: u64) -> Taking {
        let places = Arc::clone(places);
        let lane = Lane(lane);
        let order = ReadOrder { lane, number };
        Box::pin(async move { places.take_ranked(order, rank).await })
    }

    fn taking(places: &Arc<Places>, number: u64) -> Taking {
        taking_in(0, places, number, 0)
    }

    impl Places {
        fn count_waiting(&self) -> usize {
            self.queue().waiting.values().map(BTreeMap::len).sum()
        }
    }

    /// Who is served one after the other, by what they were given as names, while each leaves at once.
    fn served<N: Copy>(mut waiting: Vec<(N, Taking)>) -> Vec<N> {
        let mut came = Vec::new();
        while let Some(at) = waiting
            .iter_mut()
            .position(|(_, taking)| poll(taking).is_some())
        {
            came.push(waiting.remove(at).0);
        }
        came
    }

    fn poll(taking: &mut Taking) -> Option<Place> {
        match taking
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_retry_of_an_old_record_goes_before_all_that_was_read_since() {
        let places = places(1, &[1]);
        let held = poll(&mut taking(&places, 5)).expect("a free place");
        let mut waiting: Vec<(u64, Taking)> = [7, 3, 6]
            .map(|order| (order, taking(&places, order)))
            .into();
        assert!(waiting.iter_mut().all(|(_, taking)| poll(taking).is_none()));
        drop(held);
        assert_eq!(served(waiting), [3, 6, 7]);
    }

    #[test]
    fn lanes_take_turns_whoever_was_read_first_and_each_keeps_its_reading_order() {
        let places = places(1, &[1, 1]);
        let held = poll(&mut taking_in(1, &places, 0, 0)).expect("a free place");
        let backlog = (1..6).map(|number| (1, number));
        let of_both = backlog.chain([(0, 7), (0, 6), (0, 8)]);
        let mut waiting: Vec<((usize, u64), Taking)> = of_both
            .map(|(lane, number)| ((lane, number), taking_in(lane, &places, number, 0)))
            .collect();
        assert!(waiting.iter_mut().all(|(_, taking)| poll(taking).is_none()));
        drop(held);
        let came = [
            (0, 6),
            (1, 1),
            (0, 7),
            (1, 2),
            (0, 8),
            (1, 3),
            (1, 4),
            (1, 5),
        ];
        assert_eq!(served(waiting), came);
    }

    #[test]
    fn while_ranks_are_heeded_lanes_take_turns_and_the_look_ups_of_all_go_last() {
        let places = places(1, &[1, 1]);
        places.heed_ranks(true);
        let held = poll(&mut taking_in(1, &places, 0, 0)).expect("a free place");
        let look_up = Precedence::LookUp { outages: 0 }.rank();
        let of_both = [
            (0, 1, look_up),
            (0, 2, 3),
            (1, 3, 0),
            (1, 4, 0),
            (1, 5, look_up),
            (1, 6, 1),
        ];
        let mut waiting: Vec<(u64, Taking)> = of_both
            .map(|(lane, number, rank)| (number, taking_in(lane, &places, number, rank)))
            .into();
        assert!(waiting.iter_mut().all(|(_, taking)| poll(taking).is_none()));
        drop(held);
        assert_eq!(served(waiting), [2, 3, 4, 6, 1, 5]);
    }

    #[test]
    fn ranks_go_before_reading_order_only_while_they_are_heeded() {
        let places = places(1, &[1]);
        let mut held = poll(&mut taking(&places, 0));
        let mut waiting: Vec<(u64, Taking)> = [(1, 2), (2, 2), (3, 1), (4, 0), (5, 0)]
            .map(|(order, rank)| (order, taking_in(0, &places, order, rank)))
            .into();
        assert!(waiting.iter_mut().all(|(_, taking)| poll(taking).is_none()));
        let mut came = Vec::new();
        for heeded in [true, true, false, true, true] {
            places.heed_ranks(heeded);
            drop(held.take());
            for (order, taking) in &mut waiting {
                if !came.contains(order)
                    && let Some(place) = poll(taking)
                {
                    came.push(*order);
                    held = Some(place);
                }
            }
        }
        assert_eq!(came, [4, 5, 1, 3, 2]);
    }

    #[test]
    fn a_place_that_was_given_to_one_who_no_longer_wants_it_goes_to_the_next() {
        let places = places(1, &[1]);
        let held = poll(&mut taking(&places, 1)).expect("a free place");
        let (mut second, mut third) = (taking(&places, 2), taking(&places, 3));
        assert!(poll(&mut second).is_none() && poll(&mut third).is_none());
        drop(held);
        drop(second);
        assert!(poll(&mut third).is_some());
        assert!(poll(&mut taking(&places, 4)).is_some(), "and is free again");
    }

    #[test]
    fn one_who_stops_waiting_leaves_nothing_behind() {
        let places = places(1, &[1]);
        let held = poll(&mut taking(&places, 1)).expect("a free place");
        let mut second = taking(&places, 2);
        assert!(poll(&mut second).is_none());
        drop(second);
        assert_eq!(places.count_waiting(), 0);
        drop(held);
        assert_eq!(places.queue().free, 1);
    }

    proptest! {
        /// Oracle: a list of holders and a sorted map of those who wait.
        #[test]
        fn no_place_is_lost_and_the_oldest_is_served_first(
            count in 1_usize..4,
            steps in prop::collection::vec((0_u8..3, any::<prop::sample::Index>()), 1..80),
        ) {
            let places = places(count, &[1]);
            let mut held: Vec<Place> = Vec::new();
            let mut waiting: BTreeMap<u64, Taking> = BTreeMap::new();
            for (order, (step, which)) in steps.into_iter().enumerate() {
                match step {
                    0 => {
                        // Every second one is a record that was read long ago.
                        let order = if order % 2 == 0 { order as u64 } else { 1_000 - order as u64 };
                        let mut taking = taking(&places, order);
                        match poll(&mut taking) {
                            Some(place) => held.push(place),
                            None => drop(waiting.insert(order, taking)),
                        }
                    }
                    1 if !held.is_empty() => {
                        drop(held.swap_remove(which.index(held.len())));
                        if let Some((_, mut oldest)) = waiting.pop_first() {
                            held.push(poll(&mut oldest).expect("the oldest is served"));
                        }
                    }
                    2 if !waiting.is_empty() => {
                        let order = *waiting.keys().nth(which.index(waiting.len())).unwrap();
                        drop(waiting.remove(&order));
                    }
                    _ => {}
                }
                for taking in waiting.values_mut() {
                    prop_assert!(poll(taking).is_none());
                }
                prop_assert!(held.len() <= count);
                prop_assert!(waiting.is_empty() || held.len() == count);
                prop_assert_eq!(places.count_waiting(), waiting.len());
                prop_assert_eq!(places.queue().free, count - held.len());
            }
        }
    }
}
