//! Programs that tools run, in the sandbox of the real binary.

mod aliases;
mod bounds;
mod ends;
mod levels;
mod place;
mod recorder;
mod start;
mod unprivileged;
