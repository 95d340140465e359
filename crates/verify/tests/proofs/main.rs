//! Proofs of single events and of equivocation: honest ones, and every way to make a false one.

#![cfg(test)]

mod compromise;
mod equivocation;
mod forge;
mod honest;
mod hostile;
mod mutation;
mod prefix;
mod published;
