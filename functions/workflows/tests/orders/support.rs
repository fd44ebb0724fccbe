//! Orders, and how to have them fulfilled.

use duroxide_lambda::testing::{Instance, Simulation};
use workflows::ledger::Ledger;
use workflows::{APPROVAL, Decision, FULFIL_ORDER, Line, Order, Outcome, Parcel};

pub const HOUR_MS: u64 = 3_600_000;
pub const DAY_MS: u64 = 24 * HOUR_MS;

/// The sample on this shop.
pub fn simulation(ledger: &Ledger) -> Simulation {
    Simulation::of(workflows::orchestrations(), workflows::activities_on(ledger.clone()))
}

/// Has one order fulfilled on this shop.
pub fn fulfil(ledger: &Ledger, order: &Order) -> Instance {
    fulfil_in(&mut simulation(ledger), order)
}

/// Starts an order as the instance of its id, and waits for its end.
pub fn fulfil_in(simulation: &mut Simulation, order: &Order) -> Instance {
    simulation.start_typed(&order.id, FULFIL_ORDER, order);
    let ended = simulation.run_to_end(&order.id);
    ended.expect_deterministic();
    ended
}

/// How an order ended; `Err` is the error of a failed instance.
pub fn outcome(ended: &Instance) -> Result<Outcome, String> {
    match ended.outcome() {
        duroxide_lambda::testing::Outcome::Failed(_) => Err(ended.expect_failed()),
        _ => Ok(ended.expect_completed_typed()),
    }
}

/// Sends a decision.
pub fn decide(simulation: &mut Simulation, instance: &str, approved: bool) {
    let by = "grace".to_owned();
    let decision = serde_json::to_string(&Decision { approved, by }).expect("a decision has a JSON form");
    simulation.enqueue(instance, APPROVAL, decision);
}

/// An order that nothing happens to.
pub fn order(id: &str) -> Order {
    Order {
        id: id.to_owned(),
        customer: "ada".to_owned(),
        total_cents: 4200,
        lines: vec![Line {
            sku: "teapot".to_owned(),
            quantity: 1,
        }],
        parcels: vec![to("12 Mill Lane")],
        cooling_off_ms: Some(HOUR_MS),
        approval_timeout_ms: Some(7 * DAY_MS),
        retry_delay_ms: Some(60_000),
    }
}

/// An order that needs an approval.
pub fn large_order(id: &str) -> Order {
    Order {
        total_cents: workflows::order::APPROVAL_FROM_CENTS,
        ..order(id)
    }
}

/// A parcel.
pub fn to(address: &str) -> Parcel {
    Parcel {
        address: address.to_owned(),
    }
}
