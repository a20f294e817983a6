//! What only the system calls of the real binary show. Left out where they cannot be traced, unless
//! `SENDONCE_TEST_STRACE=1` says that they must be.

mod order_of_calls;
mod strace;
