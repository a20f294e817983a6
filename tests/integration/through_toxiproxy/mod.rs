//! What needs connections that fail.

mod toxics;
