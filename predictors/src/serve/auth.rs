//! The one secret that admits a client, and the comparison that does not tell how much of a guess was right.
//!
//! Formats: `Authorization: Bearer <token>` (RFC 6750), and for kube-scheduler, which can send no bearer token to an extender but does
//! turn the user part of its `urlPrefix` into `Authorization: Basic` (RFC 7617), the user `tracecast` with the token as password:
//! `urlPrefix: http://tracecast:<token>@127.0.0.1:7420/scheduler`. No users, roles or expiry: a proxy in front is the place for those.
//!
//! A comparison reads every byte of both sides, so its time depends on the lengths alone.
//!
//! Worked example: for the token `open sesame` nothing is admitted, as a blank cannot be sent; for `sesame`, the password form is
//! base64("tracecast:sesame") = `dHJhY2VjYXN0OnNlc2FtZQ==`.

use std::fmt;
use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::path::Path;

use super::error::{ServeError, ServeResult};

/// The user name of the password form.
const USER: &str = "tracecast";

/// Tokens of fewer characters can be guessed.
const SHORT: usize = 16;
/// Longest token file, bytes.
const LONGEST_FILE: u64 = 4096;

/// A bearer token: one or more visible ASCII characters. Never printed.
#[derive(Clone)]
pub struct Token {
    bearer: Vec<u8>,
    basic: Vec<u8>,
    warnings: Vec<String>,
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token(…)")
    }
}

impl Token {
    /// A token given as text. Blanks around it are cut off, as a file ends with a line break.
    ///
    /// # Errors
    /// If nothing is left, or if it holds what a header cannot carry.
    pub fn new(text: &str) -> ServeResult<Self> {
        Self::checked(text, || "the token given".to_owned())
    }

    /// The token in a file.
    ///
    /// # Errors
    /// Errors of [`Token::new`], or if the file cannot be read or has more than 4,096 bytes.
    pub fn from_file(path: &Path) -> ServeResult<Self> {
        let failed = |source| ServeError::Io { action: "read the token file", path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let open_to_others = file.metadata().is_ok_and(|found| found.is_file() && others_read(&found));
        let mut text = Vec::new();
        file.take(LONGEST_FILE + 1).read_to_end(&mut text).map_err(failed)?;
        let wrong = |found| ServeError::Token {
            origin: path.display().to_string(),
            found,
            remedy: "write one line of visible ASCII characters, for instance from `openssl rand -hex 32`",
        };
        if text.len() as u64 > LONGEST_FILE {
            return Err(wrong("the file has more than 4,096 bytes"));
        }
        let text = String::from_utf8(text).map_err(|_| wrong("the file is no text"))?;
        let mut token = Self::checked(&text, || path.display().to_string())?;
        if open_to_others {
            token
                .warnings
                .push(format!("{} can be read by other users of this machine; `chmod 600` it", path.display()));
        }
        Ok(token)
    }

    /// Warnings for the token's owner, one sentence each.
    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn checked(text: &str, origin: impl Fn() -> String) -> ServeResult<Self> {
        let text = text.trim();
        let wrong = |found| ServeError::Token {
            origin: origin(),
            found,
            remedy: "write one line of visible ASCII characters, for instance from `openssl rand -hex 32`",
        };
        if text.is_empty() {
            return Err(wrong("the token is empty"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("the token holds a blank or a character that a header cannot carry"));
        }
        let basic = base64(format!("{USER}:{text}").as_bytes());
        let short = || format!("the token has {} characters, which can be guessed; use {SHORT} or more", text.len());
        let warnings = (text.len() < SHORT).then(short).into_iter().collect();
        Ok(Self { bearer: text.as_bytes().to_vec(), basic, warnings })
    }

    /// Whether the value of an `Authorization` header carries this token.
    pub(super) fn admits(&self, header: Option<&[u8]>) -> bool {
        let Some(header) = header else { return false };
        let Some(blank) = header.iter().position(|byte| *byte == b' ') else { return false };
        let (scheme, given) = header.split_at(blank);
        let given = given.trim_ascii();
        if scheme.eq_ignore_ascii_case(b"bearer") {
            same(given, &self.bearer)
        } else if scheme.eq_ignore_ascii_case(b"basic") {
            same(given, &self.basic)
        } else {
            false
        }
    }
}

/// Whether others than the file's owner may read it.
#[cfg(unix)]
fn others_read(result: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    result.permissions().mode() & 0o044 != 0
}

#[cfg(not(unix))]
fn others_read(_: &std::fs::Metadata) -> bool {
    false
}

/// Whether two byte strings are equal, in a time that depends on their lengths alone.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    let mut differing = u8::from(given.len() != wanted.len());
    for (index, byte) in given.iter().enumerate() {
        // Past the end of the token it is compared with 0, which no header carries.
        differing |= black_box(byte ^ wanted.get(index).copied().unwrap_or(0));
    }
    black_box(differing) == 0
}

/// Base64 with padding (RFC 4648 §4).
fn base64(bytes: &[u8]) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().chain([0, 0].iter()).take(3).fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        for place in 0..4usize {
            let digit = (word >> (18 - 6 * place)) & 63;
            let letter = ALPHABET.get(digit as usize).copied().unwrap_or(b'=');
            text.push(if place <= group.len() { letter } else { b'=' });
        }
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_in_the_examples_of_its_standard() {
        // RFC 4648 §10.
        for (plain, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")]
        {
            assert_eq!(base64(plain.as_bytes()), text.as_bytes(), "{plain}");
        }
        assert_eq!(base64(b"tracecast:sesame"), b"dHJhY2VjYXN0OnNlc2FtZQ==");
    }

    #[test]
    fn only_the_token_itself_is_admitted() {
        let token = Token::new("sesame\n").unwrap();
        for header in ["Bearer sesame", "bearer sesame", "BEARER  sesame ", "Basic dHJhY2VjYXN0OnNlc2FtZQ=="] {
            assert!(token.admits(Some(header.as_bytes())), "{header}");
        }
        let wrong = [
            "",
            "Bearer",
            "Bearer ",
            "Bearer sesam",
            "Bearer sesame2",
            "Bearer sesame\0",
            "Bearer Sesame",
            "sesame",
            "Digest sesame",
            "Basic sesame",
        ];
        for header in wrong {
            assert!(!token.admits(Some(header.as_bytes())), "{header}");
        }
        assert!(!token.admits(None));
    }

    #[test]
    fn a_token_that_guards_nothing_is_refused() {
        for text in ["", " \n", "two words", "naïve", "a\nb"] {
            assert!(matches!(Token::new(text), Err(ServeError::Token { .. })), "{text:?}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(Token::from_file(file.path()), Err(ServeError::Token { .. })));
        std::fs::write(file.path(), "sesame\r\n").unwrap();
        assert!(Token::from_file(file.path()).unwrap().admits(Some(b"Bearer sesame")));
    }

    #[test]
    fn a_token_file_is_bounded_and_weak_ones_are_warned_of() {
        use std::os::unix::fs::PermissionsExt as _;
        let refused = Token::from_file(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(refused.contains("more than 4,096 bytes"), "{refused}");
        let file = tempfile::NamedTempFile::new().unwrap();
        let warnings = |text: &str, mode| {
            std::fs::write(file.path(), text).unwrap();
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            Token::from_file(file.path()).unwrap().warnings().to_vec()
        };
        assert_eq!(warnings("0123456789abcdef\n", 0o600), [""; 0]);
        let told = warnings("sesame", 0o644);
        assert!(told.len() == 2 && told[0].contains("6 characters") && told[1].contains("chmod 600"), "{told:?}");
    }

    #[test]
    fn a_token_is_not_printed() {
        assert!(!format!("{:?}", Token::new("sesame").unwrap()).contains("sesame"));
    }
}
