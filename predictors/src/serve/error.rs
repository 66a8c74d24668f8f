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
        /// Action that failed.
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
        /// Fault of the token.
        found: &'static str,
        /// Remedy for the user.
        remedy: &'static str,
    },
    /// A setting that makes no sense.
    #[error("setting {name}: {found}; {remedy}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// Value found.
        found: String,
        /// Remedy for the user.
        remedy: &'static str,
    },
    /// Another process writes the same journal.
    #[error("{}: another server writes this journal; stop it, or give this one its own folder", folder.display())]
    Locked {
        /// The folder of the journal.
        folder: PathBuf,
    },
    /// Learnt state cannot be read back.
    #[error("{}: {found}; {remedy}", path.display())]
    Memory {
        /// The snapshot or the journal file.
        path: PathBuf,
        /// Fault found, with the line where there is one.
        found: String,
        /// Remedy for the user.
        remedy: &'static str,
    },
}
