//! The only writer.

pub mod keyring;
pub mod known_roots;
