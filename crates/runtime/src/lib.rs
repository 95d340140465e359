//! The only writer: stores, keyring, recorder.

pub mod disk;
pub mod store;
pub mod watch;
