//! What an instance has used, compared with what the emulator has counted.

mod api;
mod functions;
mod releases;
mod steps;
mod support;
