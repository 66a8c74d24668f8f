//! Golden tests: each reader on hand-written fixtures, every cell compared. The comment above a snapshot says which
//! trap of the format each row stands for.
#![allow(clippy::unwrap_used)]

mod sacct;
mod sacct_json;
mod swf;
