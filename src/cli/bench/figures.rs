//! Concludes from the rounds: medians, and the ratio between bare client and pipeline.

use anyhow::Context;
use comfy_table::Table;
use serde::Serialize;

use crate::cli::stage::board::board;

/// What one half of the bare client measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bare {
    /// Requests accepted each second.
    pub per_second: f64,
}

/// What one half of the pipeline measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pipeline {
    /// Messages accepted each second.
    pub per_second: f64,
    /// Half of the requests take at most this.
    pub p50_ms: f64,
    /// All but one in a hundred take at most this.
    pub p99_ms: f64,
    /// CPU time of the process, from its start to its last commit.
    pub cpu_seconds_per_1000: f64,
    /// The peak of its resident memory.
    pub rss_mib_peak: f64,
    /// Flushes of its ledger, each of which waits for the disk.
    pub fsyncs: f64,
}

/// The medians of all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Requests that the bare client has accepted each second.
    pub bare_per_second: f64,
    /// Messages that the pipeline has accepted each second.
    pub pipeline_per_second: f64,
    /// The pipeline's figure divided by the bare client's.
    pub ratio: f64,
    /// Half of the pipeline's requests take at most this.
    pub p50_ms: f64,
    /// All but one in a hundred take at most this.
    pub p99_ms: f64,
    /// The pipeline's CPU time for 1,000 intents.
    pub cpu_seconds_per_1000: f64,
    /// The peak of the pipeline's resident memory, the highest of all rounds.
    pub rss_mib_peak: f64,
    /// Flushes of the ledger for all intents of a round.
    pub fsyncs: f64,
}

/// Concludes.
///
/// # Errors
///
/// When there are no rounds.
pub fn conclude(bare: &[Bare], pipeline: &[Pipeline]) -> anyhow::Result<Figures> {
    let of = |measure: fn(&Pipeline) -> f64| {
        median(pipeline.iter().map(measure).collect()).context("no rounds")
    };
    let bare_per_second =
        median(bare.iter().map(|half| half.per_second).collect()).context("no rounds")?;
    let pipeline_per_second = of(|half| half.per_second)?;
    Ok(Figures {
        bare_per_second: rounded(bare_per_second, 1.0),
        pipeline_per_second: rounded(pipeline_per_second, 1.0),
        ratio: rounded(pipeline_per_second / bare_per_second, 1_000.0),
        p50_ms: rounded(of(|half| half.p50_ms)?, 100.0),
        p99_ms: rounded(of(|half| half.p99_ms)?, 100.0),
        cpu_seconds_per_1000: rounded(of(|half| half.cpu_seconds_per_1000)?, 10_000.0),
        rss_mib_peak: rounded(
            pipeline
                .iter()
                .map(|half| half.rss_mib_peak)
                .fold(0.0, f64::max),
            10.0,
        ),
        fsyncs: of(|half| half.fsyncs)?,
    })
}

/// The figures for people.
pub fn table(figures: &Figures, for_terminal: bool) -> Table {
    let rows = [
        (
            "bare client, per second",
            format!("{:.0}", figures.bare_per_second),
        ),
        (
            "pipeline, per second",
            format!("{:.0}", figures.pipeline_per_second),
        ),
        ("ratio", format!("{:.3}", figures.ratio)),
        ("one request, p50", format!("{:.2} ms", figures.p50_ms)),
        ("one request, p99", format!("{:.2} ms", figures.p99_ms)),
        (
            "CPU for 1,000 intents",
            format!("{:.4} s", figures.cpu_seconds_per_1000),
        ),
        ("peak memory", format!("{:.1} MiB", figures.rss_mib_peak)),
        ("ledger flushes", format!("{:.0}", figures.fsyncs)),
    ];
    board(rows, for_terminal)
}

/// The middle value, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

/// To a whole number of parts of one.
fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipeline(per_second: f64, rss_mib_peak: f64) -> Pipeline {
        Pipeline {
            per_second,
            p50_ms: 4.321,
            p99_ms: 12.345,
            cpu_seconds_per_1000: 0.043_21,
            rss_mib_peak,
            fsyncs: 400.0,
        }
    }

    fn figures() -> Figures {
        let bare = [40_000.0, 10_000.0, 42_000.0].map(|per_second| Bare { per_second });
        conclude(
            &bare,
            &[
                pipeline(20_000.0, 90.0),
                pipeline(25_000.0, 120.0),
                pipeline(30_000.0, 100.0),
            ],
        )
        .unwrap()
    }

    #[test]
    fn figures_are_medians_and_the_memory_is_the_highest_peak() {
        assert_eq!(
            serde_json::to_string(&figures()).unwrap(),
            r#"{"bare_per_second":40000.0,"pipeline_per_second":25000.0,"ratio":0.625,"p50_ms":4.32,"p99_ms":12.35,"cpu_seconds_per_1000":0.0432,"rss_mib_peak":120.0,"fsyncs":400.0}"#
        );
    }

    #[test]
    fn the_table_shows_every_figure() {
        insta::assert_snapshot!(table(&figures(), false));
    }

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_its_middle() {
        let near = |values: Vec<f64>, meant: f64| {
            median(values).is_some_and(|found| (found - meant).abs() < 1e-9)
        };
        assert!(near(vec![4.0, 1.0, 3.0, 2.0], 2.5));
        assert!(near(vec![7.0], 7.0));
        assert_eq!(median(vec![]), None);
    }
}
