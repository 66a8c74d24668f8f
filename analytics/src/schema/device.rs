//! Names of GPUs in samples: the one home of how an instance of a GPU that is cut into several (MIG) is told from a whole one.
//!
//! ```text
//! 0                 a GPU
//! 0/1g.10gb:3       instance 3 of GPU 0, of the profile 1g.10gb
//! ```
//!
//! O(length) for a name. Worked example: the board of `0/1g.10gb:3` is `0`, its profile `1g.10gb`.

/// Whether a name is of an instance of a GPU.
pub(crate) fn is_instance(name: &str) -> bool {
    name.contains('/')
}

/// The GPU itself, without what it is cut into.
pub(crate) fn board(name: &str) -> &str {
    name.split_once('/').map_or(name, |(board, _)| board)
}

/// The profile of an instance; `None` of a whole GPU, or if it is unknown.
pub(crate) fn profile(name: &str) -> Option<&str> {
    let (_, instance) = name.split_once('/')?;
    instance.split(':').next().filter(|profile| !profile.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let name = "0/1g.10gb:3";
        assert_eq!((is_instance(name), board(name), profile(name)), (true, "0", Some("1g.10gb")));
        assert_eq!((is_instance("0"), board("0"), profile("0")), (false, "0", None));
        assert_eq!((board("0/"), profile("0/")), ("0", None));
    }
}
