//! Restarts: as a new instance and in place.

mod crashes;
mod runs;
mod states;
