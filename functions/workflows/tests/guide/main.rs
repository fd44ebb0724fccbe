//! The code of docs/guide.md, compiled and run. The target `local_cloud` of the crate `tests` compares both.

mod children;
mod compensation;
mod eternal;
mod events;
mod first;
mod retries;
mod timers;
mod versions;
