//! `countersign check`.

mod envelope;
mod event;
mod exit_signal;
mod input;
mod json;
mod migrate;
mod receipt;
mod screen;
mod terminal;
