//! What was found, as text and as JSON.

use super::super::answer::Failure;
use super::canary::Outcome;
use super::measure::Run;
use crate::terminal::table::{Cell, Look, Table, left, right};
use crate::terminal::text::{escape, escape_lines};
use comfy_table::Color;
use duroxide_lambda::doctor::percentile;
use duroxide_lambda_api::types::{Check, CheckState, Decimal, Diagnosis};
use serde_json::{Value, json};

/// See the module.
pub(super) struct Report {
    diagnosis: Diagnosis,
    checks: Vec<Check>,
    canary: Option<Canary>,
}

/// What the runs cost together.
struct Canary {
    runs: usize,
    completed: usize,
    requests: u64,
    request_units: Decimal,
    per_step: Decimal,
    elapsed: Decimal,
}

impl Canary {
    fn of(outcomes: &[Outcome]) -> Option<Canary> {
        let runs: Vec<&Run> = outcomes.iter().flatten().collect();
        let median = |of: fn(&Run) -> u64| -> Option<u64> {
            let values: Vec<u64> = runs.iter().map(|run| of(run)).collect();
            percentile(&values, 50)
        };
        let units = median(|run| run.usage.request_units.thousandths)?;
        let steps = median(|run| run.usage.turns + run.usage.activities)?;
        Some(Canary {
            runs: outcomes.len(),
            completed: runs.len(),
            requests: median(|run| run.usage.requests)?,
            request_units: Decimal::of_thousandths(units),
            per_step: Decimal::of_thousandths(units / steps.max(1)),
            elapsed: Decimal::of_thousandths(median(|run| run.usage.elapsed_seconds.thousandths)?),
        })
    }
}

impl Report {
    pub(super) fn new(diagnosis: Diagnosis, checks: Vec<Check>, outcomes: &[Outcome]) -> Report {
        Report {
            diagnosis,
            checks,
            canary: Canary::of(outcomes),
        }
    }

    /// The worst state of all checks.
    pub(super) fn worst(&self) -> CheckState {
        let states = self.checks.iter().map(|check| check.state);
        states.max().unwrap_or(CheckState::Ok)
    }

    pub(super) fn json(&self) -> Result<Value, Failure> {
        let written = |value: serde_json::Result<Value>| value.map_err(|error| Failure::error(error.to_string()));
        let canary = self.canary.as_ref().map(|canary| {
            json!({
                "runs": canary.runs,
                "completed": canary.completed,
                "medianRequests": canary.requests,
                "medianRequestUnits": canary.request_units,
                "requestUnitsPerStep": canary.per_step,
                "medianSeconds": canary.elapsed,
            })
        });
        Ok(json!({
            "state": self.worst().to_string(),
            "checks": written(serde_json::to_value(&self.checks))?,
            "operations": written(serde_json::to_value(&self.diagnosis.operations))?,
            "queues": written(serde_json::to_value(&self.diagnosis.queues))?,
            "function": written(serde_json::to_value(&self.diagnosis.function))?,
            "canary": canary,
        }))
    }

    pub(super) fn render(&self, look: Look) -> String {
        let mut text = self.checks_table(look);
        let advised = self.checks.iter().filter_map(|check| {
            let advice = check.advice.as_ref()?;
            Some(format!("{}: {}\n  {}\n", check.name, check.found, advice))
        });
        let advice: String = advised.map(|lines| escape_lines(&lines)).collect();
        if !advice.is_empty() {
            text = format!("{text}\n{advice}");
        }
        if !self.diagnosis.operations.is_empty() {
            text = format!("{text}\n{}", self.costs_table(look));
        }
        format!("{text}\n{}", self.summary())
    }

    fn checks_table(&self, look: Look) -> String {
        let mut table = Table::new([left("CHECK"), left("STATE"), left("FOUND"), left("PROMISED")]);
        for check in &self.checks {
            let colour = match check.state {
                CheckState::Ok => Color::Green,
                CheckState::Warning => Color::Yellow,
                CheckState::Failed => Color::Red,
            };
            let state = Cell::from(check.state.to_string()).coloured(colour);
            let (found, expected) = (check.found.as_str(), check.expected.as_str());
            table.row([Cell::from(&check.name), state, found.into(), expected.into()]);
        }
        table.render(look)
    }

    fn costs_table(&self, look: Look) -> String {
        let mut table = Table::new([
            left("OPERATION"),
            right("SAMPLES"),
            right("REQUESTS"),
            right("MEDIAN MS"),
            right("P99 MS"),
            right("REQUEST UNITS"),
        ]);
        for cost in &self.diagnosis.operations {
            table.row([
                Cell::from(&cost.name),
                cost.samples.to_string().into(),
                cost.requests.to_string().into(),
                cost.median_ms.to_string().into(),
                cost.p99_ms.to_string().into(),
                cost.request_units.to_string().into(),
            ]);
        }
        table.render(look)
    }

    fn summary(&self) -> String {
        let function = &self.diagnosis.function;
        let known = |value: &Option<String>| value.as_deref().map_or("not known".to_owned(), escape);
        let memory = function
            .memory_mb
            .map_or(String::new(), |memory| format!(", {memory} MB"));
        let mut lines = vec![format!(
            "api function: release {}, build {}, region {}, {}{memory}",
            escape(&function.version),
            known(&function.build),
            known(&function.region),
            escape(&function.architecture),
        )];
        lines.extend(self.canary.as_ref().map(|canary| {
            format!(
                "canary: {} of {} runs; medians of a run: {} requests, {} request units without the last commit ({} per step), {} s",
                canary.completed, canary.runs, canary.requests, canary.request_units, canary.per_step, canary.elapsed
            )
        }));
        let count = |state| self.checks.iter().filter(|check| check.state == state).count();
        lines.push(format!(
            "{} ok, {} warnings, {} failed",
            count(CheckState::Ok),
            count(CheckState::Warning),
            count(CheckState::Failed)
        ));
        lines.join("\n")
    }
}
