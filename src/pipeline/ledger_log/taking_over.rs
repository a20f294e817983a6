//! How a tenure becomes the owner of its partition in the log: its marker, what this machine still owes the log, and the log read
//! up to there.

use std::sync::Arc;

use crate::adapters::ledger::Ledger;
use crate::domain::ledger_log::{Claim, Logged};

use super::LedgerLog;
use crate::pipeline::tenure::Tenure;

impl LedgerLog {
    /// Makes this tenure the owner of its partition in the log, and says so to the tenure. Resolves once everything that was
    /// appended before is in the ledger, or the tenure is over, or another one has come after it.
    pub async fn take_over(self: &Arc<Self>, ledger: &Arc<dyn Ledger>, tenure: &Tenure) -> Claim {
        let (partition, writer) = (&tenure.partition, tenure.writer);
        let taking = async {
            self.append_profiles(partition).await;
            let marker = self.append(partition, &Logged::Owner(writer)).await;
            self.pay(ledger, tenure).await;
            if self.claim(tenure, marker).await != Claim::Good {
                return Claim::Fenced;
            }
            tenure.own(self.clock.now());
            // The follower ends no tenure that does not own its partition: a marker that it read before `own` is found here.
            self.claim(tenure, marker).await
        };
        let claim = tokio::select! {
            claim = taking => claim,
            () = tenure.over() => Claim::Fenced,
        };
        if claim != Claim::Good {
            tenure.end();
        }
        claim
    }
}
