//! Decides whether a provider takes a new message, under a key that nobody has used where it recognises keys.

use super::report::{Check, Standing};
use super::seen::Seen;

/// Its name, for programs.
pub const NAME: &str = "first_send";

/// Judges the answers to one request, in their order. `id_promised` tells that the profile says where the message's id is.
pub fn judge(series: &[Seen], id_promised: bool) -> Check {
    let claim = match id_promised {
        true => "a new message is accepted, with its id",
        false => "a new message is accepted",
    };
    let tries = match series.len() {
        0 | 1 => String::new(),
        more => format!(", at attempt {more}"),
    };
    let (observed, verdict) = match (series.first(), series.last()) {
        (Some(first), _) if first.replay => (
            format!("answered from memory: {}", first.told()),
            Standing::Broken,
        ),
        (Some(_), Some(seen)) if seen.is_accepted() => match (&seen.message_id, id_promised) {
            (None, true) => (
                format!("{}, no id where the profile says{tries}", seen.told()),
                Standing::Broken,
            ),
            (Some(_), _) | (None, false) => (format!("{}{tries}", seen.told()), Standing::Holds),
        },
        (_, Some(seen)) => (
            format!("not accepted: {}{tries}", seen.told()),
            Standing::Unknown,
        ),
        (_, None) => ("not sent".to_owned(), Standing::Unknown),
    };
    Check {
        check: NAME,
        claim: claim.to_owned(),
        observed,
        verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::super::seen::tests::{accepted, answered, replayed, without_id};
    use super::*;
    use crate::domain::attempt::Verdict;

    fn standing(series: &[Seen], id_promised: bool) -> (Standing, String) {
        let check = judge(series, id_promised);
        (check.verdict, check.observed)
    }

    #[test]
    fn an_acceptance_holds_if_its_id_is_where_it_was_promised() {
        assert_eq!(
            standing(&[accepted("a")], true),
            (Standing::Holds, "201, accepted".to_owned())
        );
        let without = [without_id(accepted("a"))];
        assert_eq!(standing(&without, true).0, Standing::Broken);
        assert_eq!(standing(&without, false).0, Standing::Holds);
    }

    #[test]
    fn a_key_that_nobody_has_used_has_no_replay() {
        assert_eq!(
            standing(&[replayed("a")], true),
            (
                Standing::Broken,
                "answered from memory: 201, accepted, a replay".to_owned()
            )
        );
    }

    #[test]
    fn what_was_not_accepted_proves_nothing_about_the_profile() {
        let series = [
            answered(429, Verdict::Throttled),
            answered(401, Verdict::Misconfigured),
        ];
        assert_eq!(
            standing(&series, true),
            (
                Standing::Unknown,
                "not accepted: 401, misconfigured, at attempt 2".to_owned()
            )
        );
    }
}
