//! Holds the intents of a template back at one provider while too many of them are rejected, and tells when that begins and
//! ends. When it is, is decided in `domain::rejection_limit`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::adapters::clock::BootMoment;
use crate::domain::intent::{Intent, Template};
use crate::domain::lanes::Weight;
use crate::domain::rejection_limit::{self, Change, Outcome, RejectionLimit, RejectionRules};
use crate::domain::time::{Timestamp, UnitFraction};
use crate::telemetry::metrics::ProviderMetrics;

use super::asking_again::asking_again;
use super::places::{Places, ReadOrder};

/// So many templates of a provider are watched at once: those that came last, and all that somebody waits for.
const WATCHED_MAX: usize = 256;

/// The templates of one provider.
pub struct Rejections {
    provider: Arc<str>,
    rules: RejectionRules,
    weights: Vec<Weight>,
    metrics: ProviderMetrics,
    /// When the limits' time began.
    opened: BootMoment,
    book: Mutex<Book>,
}

/// Which templates are watched. Intents without a template are watched together, as one.
#[derive(Default)]
struct Book {
    watched: HashMap<Option<Template>, Entry>,
    uses: u64,
}

struct Entry {
    watched: Arc<Watched>,
    used: u64,
}

/// One template.
struct Watched {
    template: Option<Template>,
    limit: Mutex<RejectionLimit>,
    /// Who asks next: one at a time.
    head: Arc<Places>,
    /// Something has changed for the one who asks.
    changed: Notify,
    provider: Arc<str>,
    metrics: ProviderMetrics,
    opened: BootMoment,
}

/// Leave to send one intent of a template; dropping it gives it back unused.
pub struct Leave {
    watched: Arc<Watched>,
    leave: Option<rejection_limit::Leave>,
}

impl Rejections {
    /// Watches nothing yet.
    pub fn new(
        provider: &Arc<str>,
        rules: RejectionRules,
        weights: &[Weight],
        metrics: ProviderMetrics,
    ) -> Self {
        Self {
            provider: Arc::clone(provider),
            rules,
            weights: weights.to_vec(),
            metrics,
            opened: BootMoment::now(),
            book: Mutex::default(),
        }
    }

    /// Waits until the intent's template may be sent. `None` where more templates are waited for than are watched: the one
    /// too many is not held back.
    ///
    /// Lanes take turns, and within a lane who was read first goes first.
    pub async fn admit(&self, intent: &Intent, order: ReadOrder) -> Option<Leave> {
        let watched = self.watched(&intent.template)?;
        let _head = watched.head.take(order).await;
        loop {
            let changed = watched.changed.notified();
            let asked = watched.limit().ask(watched.moment());
            match asked {
                Ok(leave) => {
                    return Some(Leave {
                        watched: Arc::clone(&watched),
                        leave: Some(leave),
                    });
                }
                Err(refusal) => asking_again(refusal, watched.moment(), changed).await,
            }
        }
    }

    #[allow(clippy::ref_option, reason = "it is a key of the book as it is")]
    fn watched(&self, template: &Option<Template>) -> Option<Arc<Watched>> {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.uses += 1;
        let used = book.uses;
        if let Some(entry) = book.watched.get_mut(template) {
            entry.used = used;
            return Some(Arc::clone(&entry.watched));
        }
        if book.watched.len() >= WATCHED_MAX {
            book.forget_one()?;
        }
        let watched = Arc::new(Watched {
            template: template.clone(),
            limit: Mutex::new(RejectionLimit::new(self.rules)),
            head: Places::new(1, &self.weights),
            changed: Notify::new(),
            provider: Arc::clone(&self.provider),
            metrics: self.metrics.clone(),
            opened: self.opened,
        });
        let entry = Entry {
            watched: Arc::clone(&watched),
            used,
        };
        book.watched.insert(template.clone(), entry);
        Some(watched)
    }
}

impl Book {
    /// Forgets the template that came longest ago of those that nobody waits for; `None` if there is none.
    fn forget_one(&mut self) -> Option<()> {
        let unused = self.watched.iter();
        let unused = unused.filter(|(_, entry)| Arc::strong_count(&entry.watched) == 1);
        let (oldest, _) = unused.min_by_key(|(_, entry)| entry.used)?;
        let oldest = oldest.clone();
        let forgotten = self.watched.remove(&oldest)?.watched;
        if forgotten.limit().is_paused() {
            forgotten.metrics.template_released();
        }
        Some(())
    }
}

impl Watched {
    fn limit(&self) -> MutexGuard<'_, RejectionLimit> {
        self.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limits' own time, by a clock that does not step.
    fn moment(&self) -> Timestamp {
        Timestamp::EPOCH.plus(self.opened.elapsed())
    }

    fn tell(&self, change: Change) {
        let template = self.template.as_ref().map(|template| &*template.name);
        let version = self.template.as_ref();
        let version = version.and_then(|template| template.version.as_deref());
        match change {
            Change::Paused { rejected, of } => {
                self.metrics.template_paused();
                tracing::error!(
                    provider = %self.provider, template, version, rejected, of,
                    "too many intents of this template are rejected: the others wait unsent. Mend the template or the provider's \
                     profile; one is tried every retry.probe_interval, and the first that is accepted releases the others"
                );
            }
            Change::StillRejected => tracing::warn!(
                provider = %self.provider, template, version,
                "the intent that was tried was rejected too: its template stays paused"
            ),
            Change::Released => {
                self.metrics.template_released();
                tracing::info!(
                    provider = %self.provider, template, version,
                    "an intent of the paused template was accepted: the others follow"
                );
            }
        }
    }
}

impl Leave {
    /// Whether the intent may still be sent: its template was not paused since.
    pub fn holds(&self) -> bool {
        let limit = self.watched.limit();
        self.leave.as_ref().is_some_and(|leave| limit.holds(leave))
    }

    /// Takes note of what the intent came to.
    pub fn ended(mut self, outcome: Outcome, jitter: UnitFraction) {
        let Some(leave) = self.leave.take() else {
            return;
        };
        let watched = &self.watched;
        let moment = watched.moment();
        let change = watched.limit().ended(leave, outcome, moment, jitter);
        if let Some(change) = change {
            watched.tell(change);
        }
        watched.changed.notify_one();
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        if let Some(leave) = self.leave.take() {
            self.watched.limit().unused(leave);
            self.watched.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::telemetry::metrics::Metrics;

    fn rejections(metrics: &Metrics) -> Rejections {
        let rules = RejectionRules {
            outcomes: 1,
            share_percent: 100,
            probe_interval: Duration::from_secs(60),
        };
        let provider = Arc::from("captifi");
        Rejections::new(
            &provider,
            rules,
            &[Weight::MIN],
            metrics.provider("captifi"),
        )
    }

    fn template(number: usize) -> Option<Template> {
        Some(Template {
            name: "t".into(),
            version: Some(number.to_string().into()),
        })
    }

    fn watched_count(rejections: &Rejections) -> usize {
        rejections.book.lock().unwrap().watched.len()
    }

    #[test]
    fn so_many_templates_are_watched_and_those_that_came_last_are_kept() {
        let metrics = Metrics::new(["captifi"], ["send-intents"]).unwrap();
        let rejections = rejections(&metrics);
        assert!(rejections.watched(&None).is_some());
        for number in 1..WATCHED_MAX {
            assert!(rejections.watched(&template(number)).is_some());
        }
        let first = rejections.watched(&None).unwrap();
        let kept = Arc::downgrade(&first);
        drop(first);
        for number in WATCHED_MAX..WATCHED_MAX + 100 {
            assert!(rejections.watched(&template(number)).is_some());
            assert_eq!(watched_count(&rejections), WATCHED_MAX);
        }
        assert!(kept.upgrade().is_some(), "it came again in between");
    }

    #[test]
    fn nobody_who_waits_is_forgotten_and_one_too_many_is_not_held_back() {
        let metrics = Metrics::new(["captifi"], ["send-intents"]).unwrap();
        let rejections = rejections(&metrics);
        let waiting: Vec<_> = (0..WATCHED_MAX)
            .map(|number| rejections.watched(&template(number)).unwrap())
            .collect();
        assert!(rejections.watched(&template(WATCHED_MAX)).is_none());
        drop(waiting);
        assert!(rejections.watched(&template(WATCHED_MAX)).is_some());
    }

    #[test]
    fn a_paused_template_that_is_forgotten_is_shown_no_more() {
        let metrics = Metrics::new(["captifi"], ["send-intents"]).unwrap();
        let rejections = rejections(&metrics);
        let watched = rejections.watched(&template(0)).unwrap();
        let leave = watched.limit().ask(watched.moment()).unwrap();
        let leave = Leave {
            watched,
            leave: Some(leave),
        };
        leave.ended(Outcome::Rejected, UnitFraction::ZERO);
        let paused = "sendonce_templates_paused{provider=\"captifi\"}";
        assert!(metrics.render().unwrap().contains(&format!("{paused} 1")));
        for number in 1..=WATCHED_MAX {
            rejections.watched(&template(number));
        }
        let shown = metrics.render().unwrap();
        assert!(shown.contains(&format!("{paused} 0")), "{shown}");
    }
}
