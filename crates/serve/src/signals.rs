//! When the process is told to end.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// True once somebody asked the process to end, by a signal that can be answered.
pub(crate) fn told_to_end() -> io::Result<watch::Receiver<bool>> {
    let (told, tells) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        told.send_replace(true);
        // Whoever waits for the change must not be told instead that nobody will make it.
        told.closed().await;
    });
    Ok(tells)
}
