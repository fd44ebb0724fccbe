//! `book-trip` on a simulated cloud: no server, no network, and time that skips. An hour's wait takes
//! milliseconds.

use duroxide_lambda::testing::{self, Instance, Simulation};
use std::time::Duration;
use workflows::activities::{CHARGE_TRAVELLER, RELEASE_SEAT, REMIND_TRAVELLER, RESERVE_SEAT};
use workflows::trip::{Outcome, Trip};
use workflows::{activities, book_trip, orchestrations};

const MINUTE: Duration = Duration::from_secs(60);

fn trip(traveller: &str, legs: &[&str]) -> Trip {
    Trip {
        traveller: traveller.to_owned(),
        legs: legs.iter().map(|leg| (*leg).to_owned()).collect(),
        price_cents: 12_900,
        hold_seconds: 60 * 60,
    }
}

fn two_legs() -> Trip {
    trip("ada", &["Oslo to Bergen", "Bergen to Tromsø"])
}

fn cloud() -> Simulation {
    Simulation::of(orchestrations(), activities())
}

fn cancelled(ended: &Instance) -> String {
    match ended.expect_completed_typed() {
        Outcome::Cancelled { reason } => reason,
        booked => panic!("{booked:?}"),
    }
}

#[test]
fn a_confirmed_trip_is_booked() {
    let mut cloud = cloud().enqueue_after(10 * MINUTE, book_trip::CONFIRMATION, "yes");
    let ended = cloud.run_typed(book_trip::NAME, &two_legs());
    let Outcome::Booked { seats, .. } = ended.expect_completed_typed() else {
        panic!("it was cancelled");
    };
    assert_eq!(
        seats,
        ["Oslo to Bergen, seat 12A", "Bergen to Tromsø, seat 12A"]
    );
    assert_eq!(ended.runs_of(REMIND_TRAVELLER), 0);
    assert_eq!(ended.custom_status(), Some("booked"));
    ended.expect_deterministic();
}

#[test]
fn a_reservation_without_an_answer_is_tried_again() {
    let mut cloud = cloud()
        .fail_activity(RESERVE_SEAT, 1..=2, "no answer")
        .enqueue_when_waiting(book_trip::CONFIRMATION, "yes");
    let ended = cloud.run_typed(book_trip::NAME, &trip("ada", &["Oslo to Bergen"]));
    assert!(matches!(
        ended.expect_completed_typed(),
        Outcome::Booked { .. }
    ));
    assert_eq!(ended.runs_of(RESERVE_SEAT), 3);
}

#[test]
fn a_traveller_who_does_not_answer_is_reminded_and_gets_no_seat() {
    let ended = cloud().run_typed(book_trip::NAME, &two_legs());
    assert_eq!(cancelled(&ended), "there was no answer in time");
    assert_eq!(ended.runs_of(REMIND_TRAVELLER), 1);
    assert_eq!(ended.runs_of(RELEASE_SEAT), 2);
    assert!((60 * MINUTE..61 * MINUTE).contains(&ended.elapsed()));
}

#[test]
fn an_answer_after_the_reminder_is_in_time() {
    let mut cloud = cloud().enqueue_after(40 * MINUTE, book_trip::CONFIRMATION, "yes");
    let ended = cloud.run_typed(book_trip::NAME, &two_legs());
    assert!(matches!(
        ended.expect_completed_typed(),
        Outcome::Booked { .. }
    ));
    assert_eq!(ended.runs_of(REMIND_TRAVELLER), 1);
}

#[test]
fn a_sold_out_leg_releases_the_others() {
    let ended = cloud().run_typed(
        book_trip::NAME,
        &trip("ada", &["Oslo to Bergen", "Atlantis"]),
    );
    assert_eq!(cancelled(&ended), "Atlantis is sold out");
    assert_eq!(ended.runs_of(RELEASE_SEAT), 1);
}

#[test]
fn a_declined_card_releases_the_seats_the_last_one_first() {
    let mut cloud = cloud().enqueue_when_waiting(book_trip::CONFIRMATION, "yes");
    let ended = cloud.run_typed(
        book_trip::NAME,
        &trip("penniless", &["Oslo to Bergen", "Bergen to Tromsø"]),
    );
    assert_eq!(cancelled(&ended), "the card was declined");
    let released = ended.inputs_of(RELEASE_SEAT);
    assert!(
        released[0].contains("leg-2") && released[1].contains("leg-1"),
        "{released:?}"
    );
}

#[test]
fn a_seat_that_cannot_be_released_is_left_to_a_person() {
    let mut cloud = cloud()
        .enqueue_when_waiting(book_trip::CONFIRMATION, "no")
        .fail_activity(RELEASE_SEAT, .., "no answer");
    let error = cloud
        .run_typed(book_trip::NAME, &two_legs())
        .expect_failed();
    assert!(error.contains("do this by hand: release-seat"), "{error}");
}

#[test]
fn a_wrong_input_fails_with_the_name_of_the_field() {
    let ended = cloud().run(book_trip::NAME, r#"{"traveller": "ada"}"#);
    assert!(ended.expect_failed().contains("missing field `legs`"));
}

#[test]
fn a_trip_is_booked_whatever_crashes() {
    testing::at_every_crash(|crash| {
        let mut cloud = cloud()
            .enqueue_when_waiting(book_trip::CONFIRMATION, "yes")
            .crashes(crash);
        let ended = cloud.run_typed(book_trip::NAME, &two_legs());
        assert!(matches!(
            ended.expect_completed_typed(),
            Outcome::Booked { .. }
        ));
        assert!(ended.runs_of(CHARGE_TRAVELLER) <= 2);
        ended
    });
}
