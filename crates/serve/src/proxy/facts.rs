//! What a call of somebody else's tool would do. What a server says of its tools may not make a call
//! look milder than this.

pub(super) use crate::arguments::Facts;
