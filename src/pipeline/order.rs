//! Decides who works now among intents that must not overtake each other, or must not be worked on at once.
//!
//! A queue is a chain: whoever enters waits for the one that entered before it to leave. Nobody waits in two chains in
//! opposite orders, because every record first waits for its turn by Kafka key and only then by idempotency key, whose
//! holder waits for nobody.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Chains by name. Names without anyone in their chain take no memory.
pub struct Queues<K: Eq + Hash>(Arc<Mutex<HashMap<K, Arc<Link>>>>);

/// One place in a chain. Whoever leaves before its turn leaves its `before` to those behind.
struct Link {
    left: AtomicBool,
    told: Notify,
    before: Mutex<Option<Arc<Link>>>,
}

/// A place in a chain; dropping it lets the next one work.
pub struct Turn<K: Eq + Hash> {
    queues: Arc<Mutex<HashMap<K, Arc<Link>>>>,
    name: Option<K>,
    link: Arc<Link>,
}

impl<K: Eq + Hash> Default for Queues<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Eq + Hash + Clone> Queues<K> {
    /// Enters the chain of this name, behind all who are in it.
    pub fn enter(&self, name: K) -> Turn<K> {
        let mut tails = locked(&self.0);
        let link = match tails.entry(name.clone()) {
            Entry::Occupied(mut tail) => {
                let link = Link::behind(Some(Arc::clone(tail.get())));
                tail.insert(Arc::clone(&link));
                link
            }
            Entry::Vacant(tail) => Arc::clone(tail.insert(Link::behind(None))),
        };
        Turn {
            queues: Arc::clone(&self.0),
            name: Some(name),
            link,
        }
    }

    /// Whether someone is in the chain of this name.
    pub fn has(&self, name: &K) -> bool {
        locked(&self.0).contains_key(name)
    }

    /// Chains with someone in them.
    pub fn len(&self) -> usize {
        locked(&self.0).len()
    }

    /// Whether nobody is in any chain.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Eq + Hash> Turn<K> {
    /// Whether someone who entered before us has not been seen to leave.
    pub fn is_behind(&self) -> bool {
        locked(&self.link.before).is_some()
    }

    /// Resolves once everyone who entered before has left. Safe to drop and to call again.
    pub async fn reached(&self) {
        loop {
            let before = locked(&self.link.before).clone();
            let Some(before) = before else { return };
            before.leaving().await;
            let further = locked(&before.before).clone();
            *locked(&self.link.before) = further;
        }
    }
}

impl<K: Eq + Hash> Drop for Turn<K> {
    fn drop(&mut self) {
        let mut tails = locked(&self.queues);
        self.link.left.store(true, Ordering::SeqCst);
        self.link.told.notify_waiters();
        let Some(name) = self.name.take() else { return };
        if let Entry::Occupied(mut tail) = tails.entry(name)
            && Arc::ptr_eq(tail.get(), &self.link)
        {
            match self.link.last_present() {
                Some(present) => drop(tail.insert(present)),
                None => drop(tail.remove()),
            }
        }
    }
}

impl Link {
    fn behind(before: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicBool::new(false),
            told: Notify::new(),
            before: Mutex::new(before),
        })
    }

    /// Resolves once it has left.
    async fn leaving(&self) {
        loop {
            // Whoever leaves after this line tells us.
            let told = self.told.notified();
            if self.left.load(Ordering::SeqCst) {
                return;
            }
            told.await;
        }
    }

    /// The nearest one before this that has not left.
    fn last_present(&self) -> Option<Arc<Self>> {
        let mut before = locked(&self.before).clone();
        while let Some(link) = &before {
            if !link.left.load(Ordering::SeqCst) {
                break;
            }
            let further = locked(&link.before).clone();
            before = further;
        }
        before
    }
}

impl Drop for Link {
    /// Takes a long chain apart link by link: dropping it through its own pointers could exhaust the stack.
    fn drop(&mut self) {
        let mut before = locked(&self.before).take();
        while let Some(link) = before {
            before = Arc::into_inner(link).and_then(|link| locked(&link.before).take());
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_of_one_name_come_in_the_order_of_entry_and_other_names_do_not_wait() {
        let queues = Queues::default();
        let first = queues.enter("a");
        let second = queues.enter("a");
        let third = queues.enter("a");
        let other = queues.enter("b");
        other.reached().await;
        assert!(!other.is_behind());

        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |name: &'static str| {
            let order = Arc::clone(&order);
            move || order.lock().unwrap().push(name)
        };
        let (note_third, note_second) = (note("third"), note("second"));
        let waiting_third = tokio::spawn(async move {
            third.reached().await;
            note_third();
        });
        let waiting_second = tokio::spawn(async move {
            second.reached().await;
            note_second();
        });
        tokio::task::yield_now().await;
        assert!(order.lock().unwrap().is_empty());
        drop(first);
        waiting_third.await.unwrap();
        waiting_second.await.unwrap();
        assert_eq!(*order.lock().unwrap(), ["second", "third"]);
    }

    #[tokio::test]
    async fn one_who_leaves_the_middle_of_a_chain_does_not_let_the_next_one_past_those_before() {
        let queues = Queues::default();
        let first = queues.enter(1);
        let second = queues.enter(1);
        let third = queues.enter(1);
        drop(second);
        let early = tokio::time::timeout(std::time::Duration::ZERO, third.reached()).await;
        assert!(early.is_err(), "the first one is still at work");
        drop(first);
        third.reached().await;
    }

    #[test]
    fn a_long_chain_that_is_given_up_unreached_is_taken_apart_without_exhausting_the_stack() {
        let queues = Queues::default();
        let mut turns: Vec<_> = (0..100_000).map(|_| queues.enter(())).collect();
        let last = turns.pop();
        drop(turns);
        drop(last);
        let next = queues.enter(());
        assert!(is_ready(next.reached()), "all before it have left");
    }

    fn is_ready(future: impl Future<Output = ()>) -> bool {
        let mut future = std::pin::pin!(future);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        future.as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn a_chain_without_anyone_takes_no_memory() {
        let queues = Queues::default();
        let turns: Vec<_> = (0..100).map(|name| queues.enter(name % 10)).collect();
        assert_eq!(queues.len(), 10);
        drop(turns);
        assert!(queues.is_empty());
        let mut turns: Vec<_> = (0..100).map(|name| queues.enter(name % 10)).collect();
        turns.reverse();
        drop(turns);
        assert!(
            queues.is_empty(),
            "those who leave unreached and last first leave nothing either"
        );
    }
}
