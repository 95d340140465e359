//! The viewer: its API over real connections, and its page in a real browser.

mod answers;
mod api;
mod browser;
mod door;
mod viewer;
mod work;
