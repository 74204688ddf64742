//! Attacks on the real binary: what one tenant, endpoint or client without a key may do, done at its worst, while a neighbor goes on with its work.
//!
//! The server runs with limits on its memory and its open files, so that a regression fails instead of freezing the machine. Each test asserts
//! bounds that hold on a busy machine with a debug build; with `EVERHOOK_TEST_STRICT=1` and a release build (`EVERHOOK_TEST_BINARY`) it asserts those
//! of `docs/reliability.md`. What was measured is written to standard error in either case.

mod answers;
mod arena;
mod bodies;
mod calls;
mod connections;
mod descriptors;
mod filters;
mod growth;
mod hints;
mod lanes;
mod reads;
mod schemas;
mod source_keys;
mod sources;
