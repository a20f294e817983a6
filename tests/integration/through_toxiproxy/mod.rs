//! What needs connections that fail.

mod post_mortem;
mod toxics;
