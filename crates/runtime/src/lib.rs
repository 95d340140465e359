//! The only writer.

pub mod keyring;
