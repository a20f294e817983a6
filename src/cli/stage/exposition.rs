//! Reads numbers from metrics in Prometheus' text format. It does not judge them.
//!
//! The format: <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format> (read 2026-11-30).

/// The sum of a metric over all of its labels; 0 when it is absent.
pub fn sum(text: &str, metric: &str) -> f64 {
    samples(text, metric).map(|(_, value)| value).sum()
}

/// The value below which a share of a histogram's observations lie, by interpolation within its bucket as Prometheus'
/// `histogram_quantile` does it, over all of its labels. `None` when nothing was observed, or the share lies beyond the
/// last bucket's bound.
pub fn quantile(text: &str, histogram: &str, share: f64) -> Option<f64> {
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    for (labels, count) in samples(text, &format!("{histogram}_bucket")) {
        let bound = label(labels, "le")?.parse().ok()?;
        match buckets
            .iter_mut()
            .find(|(known, _)| known.total_cmp(&bound).is_eq())
        {
            Some((_, total)) => *total += count,
            None => buckets.push((bound, count)),
        }
    }
    buckets.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let rank = share
        * buckets
            .last()
            .map(|(_, total)| *total)
            .filter(|total| *total > 0.0)?;
    let (mut bound_below, mut count_below) = (0.0, 0.0);
    for (bound, count) in buckets {
        if count >= rank {
            let within = if count > count_below {
                (rank - count_below) / (count - count_below)
            } else {
                0.0
            };
            return bound
                .is_finite()
                .then_some(bound_below + (bound - bound_below) * within);
        }
        (bound_below, count_below) = (bound, count);
    }
    None
}

/// The labels and values of a metric.
fn samples<'a>(text: &'a str, metric: &str) -> impl Iterator<Item = (&'a str, f64)> {
    text.lines().filter_map(move |line| {
        let (series, value) = line.rsplit_once(' ')?;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        (name == metric).then_some((labels, value.parse().ok()?))
    })
}

/// The value of one label, which must not contain quotes.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = labels.split_once(&format!("{name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP requests Requests.
# TYPE requests counter
requests{kind=\"a\"} 3
requests{kind=\"b\"} 4
requests_other 9
alone 2.5
wait_bucket{provider=\"x\",le=\"0.1\"} 10
wait_bucket{provider=\"x\",le=\"0.5\"} 30
wait_bucket{provider=\"x\",le=\"+Inf\"} 40
wait_bucket{provider=\"y\",le=\"0.1\"} 10
wait_bucket{provider=\"y\",le=\"0.5\"} 50
wait_bucket{provider=\"y\",le=\"+Inf\"} 60
wait_sum{provider=\"x\"} 4
";

    fn near(found: Option<f64>, meant: f64) -> bool {
        found.is_some_and(|found| (found - meant).abs() < 1e-9)
    }

    #[test]
    fn a_metric_is_summed_over_its_labels_and_no_other_is() {
        assert!(near(Some(sum(TEXT, "requests")), 7.0));
        assert!(near(Some(sum(TEXT, "alone")), 2.5));
        assert!(near(Some(sum(TEXT, "nosuch")), 0.0));
    }

    #[test]
    fn a_quantile_is_interpolated_within_its_bucket() {
        // 20 of 100 lie below 0.1 and 80 below 0.5.
        assert!(near(quantile(TEXT, "wait", 0.1), 0.05));
        assert!(near(quantile(TEXT, "wait", 0.5), 0.3));
        assert!(near(quantile(TEXT, "wait", 0.8), 0.5));
    }

    #[test]
    fn a_quantile_that_the_buckets_do_not_tell_is_none() {
        assert_eq!(quantile(TEXT, "wait", 0.99), None);
        assert_eq!(quantile(TEXT, "nosuch", 0.5), None);
    }
}
