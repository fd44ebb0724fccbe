//! What an instance has used.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use utoipa::ToSchema;

/// A number with up to three decimals; in JSON a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decimal {
    /// The number, times a thousand.
    pub thousandths: u64,
}

impl Decimal {
    /// So many thousandths.
    pub fn of_thousandths(thousandths: u64) -> Decimal {
        Decimal { thousandths }
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.thousandths as f64 / 1_000.0)
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Decimal, D::Error> {
        let number = f64::deserialize(deserializer)?;
        Ok(Decimal::of_thousandths((number * 1_000.0).round() as u64))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.thousandths as f64 / 1_000.0)
    }
}

/// What an instance has used in all its executions. It is counted by the commits of its turns, so it is as new as the last one.
///
/// Not counted: the request units and bytes of the last commit; what a step has spent whose process was killed; requests of clients
/// other than those that started the instance or sent it a message; and requests of maintenance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Turns that were committed.
    pub turns: u64,
    /// Activities that ended and whose result a turn has taken. A cancelled activity is not counted.
    pub activities: u64,
    /// Attempts of those activities, those that were lost included.
    pub attempts: u64,
    /// Wakeups: one for each activity, message and timer that was announced. Some of them share an SQS message.
    pub wakeups: u64,
    /// Requests to Cosmos DB, repetitions included.
    pub requests: u64,
    /// Request units, as Cosmos DB reported them.
    #[schema(value_type = f64)]
    pub request_units: Decimal,
    /// Bytes of the answers of Cosmos DB.
    pub bytes_read: u64,
    /// Bytes of the requests to Cosmos DB: documents and queries.
    pub bytes_written: u64,
    /// Time in turns: from the first request of the turn to the answer of its commit.
    #[schema(value_type = f64)]
    pub turn_seconds: Decimal,
    /// Time in attempts of activities, each by itself: those that ran at the same time add up. Lost attempts are not in it.
    #[schema(value_type = f64)]
    pub activity_seconds: Decimal,
    /// From the acceptance of the start to the end of the instance, or to its last change if it has not ended.
    #[schema(value_type = f64)]
    pub elapsed_seconds: Decimal,
    /// `elapsedSeconds` less `turnSeconds` and `activitySeconds`, and not less than 0: the time in which no step ran, if no two steps ran at
    /// the same time. Otherwise it was more.
    #[schema(value_type = f64)]
    pub waiting_seconds: Decimal,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_is_a_number_in_json_and_comes_back() {
        for (thousandths, text) in [(0, "0.0"), (1_500, "1.5"), (23_456_789, "23456.789")] {
            let decimal = Decimal::of_thousandths(thousandths);
            assert_eq!(serde_json::to_string(&decimal).unwrap(), text);
            assert_eq!(serde_json::from_str::<Decimal>(text).unwrap(), decimal);
        }
        assert_eq!(serde_json::from_str::<Decimal>("-1").unwrap(), Decimal::default());
        assert_eq!(Decimal::of_thousandths(12_340).to_string(), "12.34");
    }
}
