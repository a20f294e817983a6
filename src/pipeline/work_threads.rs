//! Decides on which thread a record is worked on. There is one for each processor, each with a runtime of its own, and a record
//! stays on one from its turn to its end, with the connection that its request goes over.
//!
//! In one runtime for all threads, tasks wander: whoever is idle takes over what another has begun, and finds neither the
//! record nor the connection in its caches. That costs an eighth more processor time an intent.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::Instant;

/// Spawns work on one runtime after the other, since a record is as much work as another.
pub struct Spawner {
    runtimes: Vec<Handle>,
    spawned: AtomicUsize,
}

impl Spawner {
    /// For these runtimes, of which there must be one.
    pub fn on(runtimes: Vec<Handle>) -> Self {
        Self {
            runtimes,
            spawned: AtomicUsize::new(0),
        }
    }

    /// Spawns `work` on the next one.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let count = self.runtimes.len().max(1);
        let next = self.spawned.fetch_add(1, Ordering::Relaxed) % count;
        if let Some(runtime) = self.runtimes.get(next) {
            runtime.spawn(work);
        }
    }
}

/// The threads that records are worked on.
pub struct WorkThreads(Vec<Runtime>);

impl WorkThreads {
    /// Starts one for each processor that this process may use; one, if that cannot be told.
    pub fn start() -> io::Result<Self> {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let start = |_| {
            Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .thread_name("worker")
                .build()
        };
        (0..count).map(start).collect::<io::Result<_>>().map(Self)
    }

    /// Spawns work on them.
    pub fn spawner(&self) -> Spawner {
        let handles = self.0.iter().map(Runtime::handle);
        Spawner::on(handles.cloned().collect())
    }

    /// Ends them, and what still waits on a socket, within `patience`.
    pub fn end(self, patience: Duration) {
        let until = Instant::now() + patience;
        for runtime in self.0 {
            runtime.shutdown_timeout(until.saturating_duration_since(Instant::now()));
        }
    }
}
