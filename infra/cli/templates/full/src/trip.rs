//! The input and the output of `book-trip`.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What to book: the input of `book-trip`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trip {
    pub traveller: String,
    /// The legs in order, like "Oslo to Bergen".
    pub legs: Vec<String>,
    pub price_cents: u64,
    /// How long the seats are held for the traveller's confirmation.
    #[serde(default = "one_hour")]
    pub hold_seconds: u64,
}

impl Trip {
    /// Reads an input; the error says what is wrong with it.
    pub fn parse(input: &str) -> Result<Trip, String> {
        serde_json::from_str(input).map_err(|error| format!("the input is not a trip: {error}"))
    }

    pub fn hold(&self) -> Duration {
        Duration::from_secs(self.hold_seconds)
    }
}

fn one_hour() -> u64 {
    60 * 60
}

/// How it ended: the output of `book-trip`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The traveller has these seats and this receipt.
    Booked { seats: Vec<String>, receipt: String },
    /// The traveller has no seat and has paid nothing.
    Cancelled { reason: String },
}
