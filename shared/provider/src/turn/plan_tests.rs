//! Table tests of the planner are below.
