//! Decides what is told of a request that has lost its key. No profile promises anything here: it is looked at because a
//! gateway that drops a header should not do so in silence.

use super::report::{Check, Standing};
use super::seen::Seen;

const NAME: &str = "missing_key";
const CLAIM: &str = "no profile says what a request without its key gets";

/// What is told where the profile makes no request without its key.
pub fn without_variant() -> Check {
    Check::not_applicable(NAME, CLAIM, "the profile cannot do without its key")
}

/// Tells the answer to a request without its key.
pub fn judge(seen: &Seen) -> Check {
    let told = seen.told();
    let observed = if seen.is_accepted() {
        format!("accepted without protection ({told})")
    } else if seen.is_refused() {
        format!("refused ({told})")
    } else {
        told
    };
    Check {
        check: NAME,
        claim: CLAIM.to_owned(),
        observed,
        verdict: Standing::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::super::seen::tests::{accepted, answered};
    use super::*;
    use crate::domain::attempt::Verdict;

    #[test]
    fn it_is_told_and_not_judged() {
        for (seen, observed) in [
            (answered(400, Verdict::Rejected), "refused (400, rejected)"),
            (accepted("a"), "accepted without protection (201, accepted)"),
            (answered(500, Verdict::Unknown), "500, unknown"),
        ] {
            let check = judge(&seen);
            assert_eq!(check.observed, observed);
            assert_eq!(check.verdict, Standing::Unknown);
        }
    }
}
