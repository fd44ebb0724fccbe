//! The line in CloudWatch's embedded metric format.

use super::metric::Metric;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
pub(super) struct Line<'a> {
    #[serde(rename = "_aws")]
    aws: Directive<'a>,
    #[serde(rename = "Function")]
    function: &'a str,
    #[serde(flatten)]
    values: BTreeMap<&'static str, Number>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Directive<'a> {
    timestamp: u64,
    cloud_watch_metrics: [MetricSet<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct MetricSet<'a> {
    namespace: &'a str,
    dimensions: [[&'static str; 1]; 1],
    metrics: Vec<Definition>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Definition {
    name: &'static str,
    unit: &'static str,
}

/// A value as it is written: counts are whole, and a sum of charges has no digits that only rounding made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Number {
    Whole(u64),
    Fraction(f64),
}

impl<'a> Line<'a> {
    /// A line with these values of a function's invocation.
    pub(super) fn new(namespace: &'a str, function: &'a str, timestamp: u64, values: &[(Metric, f64)]) -> Line<'a> {
        let metrics = values.iter().map(|(metric, _)| Definition {
            name: metric.name(),
            unit: metric.unit(),
        });
        let set = MetricSet {
            namespace,
            dimensions: [["Function"]],
            metrics: metrics.collect(),
        };
        Line {
            aws: Directive {
                timestamp,
                cloud_watch_metrics: [set],
            },
            function,
            values: values
                .iter()
                .map(|(metric, value)| (metric.name(), rounded(*value)))
                .collect(),
        }
    }
}

fn rounded(value: f64) -> Number {
    let rounded = (value * 1000.0).round() / 1000.0;
    if rounded.fract() == 0.0 {
        Number::Whole(rounded as u64)
    } else {
        Number::Fraction(rounded)
    }
}
