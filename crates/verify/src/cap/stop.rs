//! Why a file was not read to its end.

use std::io;

use countersign_format::cap::{CapError, CapFault};

/// Why a file was not read to its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The bytes could not be had.
    Io(io::Error),
    /// What the file is refused for.
    Refused(String),
}

/// A refusal on its way through readers that know of input and output only.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refusal(String);

impl From<CapFault> for Stop {
    fn from(fault: CapFault) -> Self {
        Self::Refused(fault.to_string())
    }
}

impl From<CapError> for Stop {
    fn from(error: CapError) -> Self {
        match error {
            CapError::Io(error) => Self::from(error),
            CapError::Refused(fault) => Self::from(fault),
        }
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        let error = match error.downcast::<Refusal>() {
            Ok(Refusal(message)) => return Self::Refused(message),
            Err(error) => error,
        };
        match error.downcast::<CapFault>() {
            Ok(fault) => Self::from(fault),
            Err(error) => Self::Io(error),
        }
    }
}

impl From<String> for Stop {
    fn from(message: String) -> Self {
        Self::Refused(message)
    }
}

impl From<Stop> for io::Error {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Io(error) => error,
            Stop::Refused(message) => Self::new(io::ErrorKind::InvalidData, Refusal(message)),
        }
    }
}
