//! Explain: prepared situations on the real store, each with its cause, whether it needs attention, and the essential words.
//!
//! The functions run in this process, one wakeup at a time, so that an instance stays exactly where a test has put it. Where no step
//! leads to a state (a document of a newer release, a lost one), the document is written by hand.

mod activities;
mod children;
mod cost;
mod ends;
mod paused;
mod random;
mod scene;
mod turns;
mod waits;
