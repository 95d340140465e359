//! The real binary, run as people and programs run it. One module per command.

#![cfg(test)]

mod binary;
mod cap;
mod cases;
mod check;
mod check_task;
mod ci;
mod coverage;
mod damaged;
mod doctor;
mod flow;
mod forgery;
mod gate;
mod hook;
mod keys;
mod mcp;
mod place;
mod proof;
mod proxy;
mod report;
#[cfg(target_os = "linux")]
mod sandbox;
mod schema_1_0;
mod serve;
mod session;
mod trace_diff;
mod trace_follow;
mod trace_for;
mod verify;
mod watch;
mod work;
mod workspace;
