//! The only writer: stores, keyring, recorder.

pub mod disk;
pub mod keyring;
pub mod known_roots;
pub mod store;
pub mod watch;
