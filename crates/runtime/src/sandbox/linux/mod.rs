//! What needs Linux: namespaces, mounts, Landlock, and finding processes.

mod hidden;
mod loopback;
mod mount_table;
mod mounts;
mod namespaces;
mod privileges;
mod processes;
mod ruleset;
mod stages;

pub(super) use namespaces::map_users;
pub(super) use processes::{descriptor_of, end_survivors, signal_all};
pub(super) use stages::{ADOPTS_ORPHANS, confine, enter, stdin_of};
