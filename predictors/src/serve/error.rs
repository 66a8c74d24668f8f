//! Why the server could not start or go on. What a client did wrong is not here: that is a `Refusal`, told to the client.
//!
//! Worked example: a token file of two blanks gives [`ServeError::Token`], "token.txt: the token is empty; write one line of at least
//! one visible character".

use std::net::SocketAddr;
use std::path::PathBuf;

/// Result of the fallible functions of this module.
pub type ServeResult<T, E = ServeError> = std::result::Result<T, E>;

/// Why the server could not start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The operating system refused a file or folder.
    #[error("{action} {}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's own reason.
        #[source]
        source: std::io::Error,
    },
    /// The address cannot be listened on.
    #[error("listen on {address}")]
    Listen {
        /// The address and port.
        address: SocketAddr,
        /// The system's own reason.
        #[source]
        source: std::io::Error,
    },
    /// The event loop could not be started.
    #[error("start the event loop")]
    Runtime(#[source] std::io::Error),
    /// A token that cannot guard anything.
    #[error("{origin}: {found}; {remedy}")]
    Token {
        /// The file it came from, or "the token given".
        origin: String,
        /// What is wrong with it.
        found: &'static str,
        /// What would fix it.
        remedy: &'static str,
    },
    /// A setting that makes no sense.
    #[error("setting {name}: {found}; {remedy}")]
    Setting {
        /// Its name.
        name: &'static str,
        /// What was found.
        found: String,
        /// What would fix it.
        remedy: &'static str,
    },
    /// Another process writes the same journal.
    #[error("{}: another server writes this journal; stop it, or give this one its own folder", folder.display())]
    Locked {
        /// The folder of the journal.
        folder: PathBuf,
    },
    /// What was learnt cannot be read back.
    #[error("{}: {found}; {remedy}", path.display())]
    Memory {
        /// The snapshot or the journal file.
        path: PathBuf,
        /// What was found, with the line where there is one.
        found: String,
        /// What would fix it.
        remedy: &'static str,
    },
}
