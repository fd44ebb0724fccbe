use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::testing::Simulation;

async fn book(ctx: OrchestrationContext, trip: String) -> Result<String, String> {
    let mut undo = Vec::new();
    let booked = async {
        for (step, compensation) in [("book-flight", "cancel-flight"), ("book-hotel", "cancel-hotel")] {
            // Before the step: a step that fails may have had its effect.
            undo.push(compensation);
            ctx.schedule_activity(step, trip.clone()).await?;
        }
        Ok::<_, String>(())
    }
    .await;
    let Err(error) = booked else {
        return Ok("booked".to_owned());
    };
    for compensation in undo.into_iter().rev() {
        ctx.schedule_activity(compensation, trip.clone()).await?;
    }
    Ok(format!("cancelled: {error}"))
}

#[test]
fn a_trip_without_a_hotel_is_undone_last_first() {
    let orchestrations = OrchestrationRegistry::builder().register("book", book).build();
    let mut simulation = Simulation::of(orchestrations, ActivityRegistry::builder().build())
        .activity("book-flight", |_| Ok("LH 1".to_owned()))
        .activity("book-hotel", |_| Err("no room".to_owned()))
        .activity("cancel-hotel", |_| Ok(String::new()))
        .activity("cancel-flight", |_| Ok(String::new()));
    let ended = simulation.run("book", "Paris");
    assert!(ended.expect_completed().contains("no room"));
    let ran = ended.activities();
    assert_eq!(ran, ["book-flight", "book-hotel", "cancel-hotel", "cancel-flight"]);
}
