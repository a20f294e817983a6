//! Decides how many requests may leave in which time: by a token bucket where the account's rate is known; and where it is
//! not, by a ramp after each pause, since nobody knows how many the provider will take then.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use crate::domain::time::Timestamp;

/// What a second after a pause begins with, where no rate is known; it doubles with each second.
const RAMP_FROM: f64 = 1.0;
/// So many a second are no limit any more.
const RAMP_TO: f64 = 1_024.0;

/// What an account may send, over all instances of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Requests a second.
    pub per_second: NonZeroU32,
    /// Requests at once after a quiet time; a tenth of a second's if nobody says.
    pub burst: Option<NonZeroU32>,
}

/// What part of the partitions of all lanes is ours: the part of the account's rate that we may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Partitions assigned to this instance, at least one.
    pub assigned: NonZeroU32,
    /// All partitions, at least `assigned`.
    pub of: NonZeroU32,
}

/// A token bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    limit: RateLimit,
    share: Share,
    limiter: Limiter,
}

type Limiter = RateLimiter<NotKeyed, InMemoryState, Moment, NoOpMiddleware<Duration>>;

/// A clock that stands where it was set.
#[derive(Debug, Default)]
struct Moment(Cell<Duration>);

impl Clock for Moment {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.get()
    }
}

impl Share {
    /// All of it.
    pub const WHOLE: Self = Self {
        assigned: NonZeroU32::MIN,
        of: NonZeroU32::MIN,
    };

    /// `assigned` of `of` partitions; `None` while none is assigned. More than there are, are all.
    pub fn new(assigned: usize, of: usize) -> Option<Self> {
        let number = |count: usize| u32::try_from(count).ok().and_then(NonZeroU32::new);
        Some(Self {
            assigned: number(assigned)?,
            of: number(of.max(assigned))?,
        })
    }

    /// From one token of this share to the next.
    fn period(self, per_second: NonZeroU32) -> Duration {
        let nanos = 1_000_000_000 * u64::from(self.of.get())
            / (u64::from(per_second.get()) * u64::from(self.assigned.get()));
        Duration::from_nanos(nanos.max(1))
    }

    /// This share of `burst`, rounded up.
    fn of_burst(self, burst: NonZeroU32) -> NonZeroU32 {
        let part = u64::from(burst.get()) * u64::from(self.assigned.get());
        let part = u32::try_from(part.div_ceil(u64::from(self.of.get())));
        part.ok().and_then(NonZeroU32::new).unwrap_or(burst)
    }
}

impl Bucket {
    /// A full one.
    pub(super) fn new(limit: RateLimit) -> Self {
        Self {
            limit,
            share: Share::WHOLE,
            limiter: limiter(limit, Share::WHOLE, Duration::ZERO),
        }
    }

    /// Takes a token, or tells when there is one.
    pub(super) fn take(&self, now: Timestamp) -> Result<(), Timestamp> {
        let moment = since_epoch(now);
        self.limiter.clock().0.set(moment);
        self.limiter.check().map_err(|not_until| {
            let wait = not_until.wait_time_from(moment);
            // Up to the next whole millisecond: no earlier moment has the token.
            now.plus(wait + Duration::from_nanos(999_999))
        })
    }

    /// From now on it is filled by this share, and empty.
    pub(super) fn share(&mut self, share: Share, now: Timestamp) {
        if share != self.share {
            self.share = share;
            self.empty(now);
        }
    }

    /// Takes out what is in it.
    pub(super) fn empty(&mut self, now: Timestamp) {
        self.limiter = limiter(self.limit, self.share, since_epoch(now));
        let burst = self.share.of_burst(self.limit.burst());
        // A new one is full, so they are all there.
        let _ = self.limiter.check_n(burst);
    }
}

impl RateLimit {
    fn burst(self) -> NonZeroU32 {
        let tenth = NonZeroU32::new(self.per_second.get() / 10).unwrap_or(NonZeroU32::MIN);
        self.burst.unwrap_or(tenth)
    }
}

fn limiter(limit: RateLimit, share: Share, from: Duration) -> Limiter {
    let period = share.period(limit.per_second);
    let burst = share.of_burst(limit.burst());
    // A period is never zero; with a burst of one, a token a period is what is left.
    let quota = Quota::with_period(period).unwrap_or(Quota::per_second(limit.per_second));
    RateLimiter::direct_with_clock(quota.allow_burst(burst), Moment(Cell::new(from)))
}

fn since_epoch(moment: Timestamp) -> Duration {
    moment.since(Timestamp::EPOCH)
}

/// How those who waited for a pause come back, where no rate is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ramp {
    began: Timestamp,
    from: f64,
    next_at: Timestamp,
}

impl Ramp {
    /// One that begins now. After a pause that a ramp itself has run into, it begins at half of what that had come to.
    pub(super) fn after_pause(former: Option<Self>, paused_at: Timestamp, now: Timestamp) -> Self {
        let from = former.map_or(RAMP_FROM, |former| {
            (former.per_second(paused_at) / 2.0).max(RAMP_FROM)
        });
        Self {
            began: now,
            from,
            next_at: now,
        }
    }

    /// Takes leave for one request, or tells when there is one.
    pub(super) fn take(&mut self, now: Timestamp) -> Result<(), Timestamp> {
        if now < self.next_at {
            return Err(self.next_at);
        }
        let apart = Duration::from_secs_f64(1.0 / self.per_second(now));
        self.next_at = now.plus(apart.max(Duration::from_millis(1)));
        Ok(())
    }

    /// Whether it limits nothing any more.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.per_second(now) >= RAMP_TO
    }

    fn per_second(&self, now: Timestamp) -> f64 {
        let seconds = now.since(self.began).as_secs_f64().min(30.0);
        (self.from * seconds.exp2()).min(RAMP_TO)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limit(per_second: u32, burst: Option<u32>) -> RateLimit {
        RateLimit {
            per_second: NonZeroU32::new(per_second).unwrap(),
            burst: burst.map(|burst| NonZeroU32::new(burst).unwrap()),
        }
    }

    /// When each of the first `count` tokens is had by one who always waits for the next.
    fn times(bucket: &Bucket, from: Timestamp, count: usize) -> Vec<i64> {
        let mut now = from;
        let mut taken = Vec::new();
        while taken.len() < count {
            match bucket.take(now) {
                Ok(()) => taken.push(now.as_millis() - from.as_millis()),
                Err(then) => {
                    assert!(then > now);
                    now = then;
                }
            }
        }
        taken
    }

    #[test]
    fn a_burst_leaves_at_once_and_then_one_a_period() {
        let bucket = Bucket::new(limit(10, Some(3)));
        let from = Timestamp::from_millis(5_000);
        assert_eq!(times(&bucket, from, 6), [0, 0, 0, 100, 200, 300]);
    }

    #[test]
    fn without_a_burst_a_tenth_of_a_second_s_requests_leave_at_once() {
        let bucket = Bucket::new(limit(20, None));
        assert_eq!(times(&bucket, Timestamp::EPOCH, 4), [0, 0, 50, 100]);
    }

    #[test]
    fn an_instance_gets_the_rate_s_share_of_its_partitions_and_no_burst_for_a_rebalance() {
        let mut bucket = Bucket::new(limit(10, Some(4)));
        let now = Timestamp::from_millis(60_000);
        bucket.share(Share::new(2, 8).unwrap(), now);
        assert_eq!(times(&bucket, now, 3), [400, 800, 1_200]);
        let later = Timestamp::from_millis(90_000);
        assert_eq!(times(&bucket, later, 2), [0, 400], "a quarter of the burst");
        bucket.share(Share::new(8, 8).unwrap(), later);
        assert_eq!(times(&bucket, later, 2), [100, 200]);
    }

    #[test]
    fn a_share_is_never_zero_while_something_is_assigned() {
        assert_eq!(Share::new(0, 8), None);
        let most = Share::new(1, 10_000).unwrap();
        assert_eq!(most.period(NonZeroU32::MIN), Duration::from_secs(10_000));
        assert_eq!(most.of_burst(NonZeroU32::MIN), NonZeroU32::MIN);
        assert_eq!(Share::new(3, 2), Share::new(3, 3));
    }

    #[test]
    fn where_no_rate_is_known_a_pause_is_followed_by_twice_as_many_each_second() {
        let mut now = Timestamp::EPOCH;
        let mut ramp = Ramp::after_pause(None, now, now);
        let mut by_second = [0; 6];
        while now < Timestamp::from_millis(6_000) {
            match ramp.take(now) {
                Ok(()) => by_second[usize::try_from(now.as_millis() / 1_000).unwrap()] += 1,
                Err(then) => now = then,
            }
        }
        assert_eq!(by_second, [1, 3, 5, 12, 23, 47]);
        assert!(!ramp.is_over(Timestamp::from_millis(9_999)));
        assert!(ramp.is_over(Timestamp::from_millis(10_000)));
        let at = Timestamp::from_millis(4_000);
        let again = Ramp::after_pause(Some(ramp), at, Timestamp::from_millis(60_000));
        assert!((again.from - 8.0).abs() < 0.001, "half of sixteen");
    }

    proptest! {
        /// What instances send together in any second is the account's rate and its burst, however partitions are shared,
        /// but for a part of a request for each of them.
        #[test]
        fn instances_together_keep_to_the_rate(
            per_second in 1_u32..200, burst in prop::option::of(1_u32..20),
            partitions in prop::collection::vec(1_usize..6, 1..5),
        ) {
            let all: usize = partitions.iter().sum();
            let mut together = Vec::new();
            for assigned in &partitions {
                let mut bucket = Bucket::new(limit(per_second, burst));
                bucket.share(Share::new(*assigned, all).unwrap(), Timestamp::EPOCH);
                let ours = times(&bucket, Timestamp::from_millis(7), 400);
                together.extend(ours.into_iter().filter(|at| *at < 3_000));
            }
            together.sort_unstable();
            let burst = limit(per_second, burst).burst().get();
            let allowed = usize::try_from(per_second + burst).unwrap() + 2 * partitions.len();
            for from in &together {
                let within = together.iter().filter(|at| (*from..from + 1_000).contains(*at));
                prop_assert!(within.count() <= allowed);
            }
        }
    }
}
