//! Flows: what an answer leads to, ways back, questions, budgets, and random flows to their end.
#![cfg(test)]

mod random;
mod rules;
mod trace;
