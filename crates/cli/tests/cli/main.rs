//! The real binary, run as people and programs run it. One module per command.

#![cfg(test)]

mod binary;
mod cases;
mod check;
mod forgery;
mod place;
mod workspace;
