//! The container of model files: one line of JSON, then sections, each compressed with zstd and known by its SHA-256.
//!
//! The line says the format, its version, the program that wrote it, what the format has to say of its own, and the sections' names, sizes and
//! hashes. A later version of the program reads earlier versions of a format; an earlier one refuses a later file by its version. What sections mean
//! is for the formats: [`duration::predictor`](crate::duration::predictor) and [`demand::predictor`](crate::demand::predictor).
//!
//! O(bytes). Worked example: two sections of 3,000 bytes that compress to 100 and 120 make a file of one line and 220 bytes; flip a bit of the
//! last byte, and it is refused, as the hash of the second section differs.

use std::collections::HashMap;
use std::io::Read as _;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tracecast_analytics::ingest::sha256;

use crate::error::{Error, Result};

/// Longest first line looked for, bytes.
const LONGEST_LINE: usize = 1 << 20;

/// One kind of model file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Format {
    /// Its name in the file.
    pub(crate) name: &'static str,
    /// Newest version that this program reads, and the one it writes.
    pub(crate) version: u32,
    /// Longest section taken from a file, bytes unpacked: what is beyond is cut off, and then damaged.
    pub(crate) longest: u64,
    /// What a file of it is a model of, as messages say it.
    pub(crate) of: &'static str,
    /// The command that makes one.
    pub(crate) command: &'static str,
}

#[derive(Debug, Serialize, Deserialize)]
struct Section {
    name: String,
    bytes: u64,
    sha256: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Header<E> {
    format: String,
    version: u32,
    tracecast: String,
    #[serde(flatten)]
    own: E,
    sections: Vec<Section>,
}

impl Format {
    /// The bytes of a file: what the format says of its own, and the sections in order. What is wrong is told in the words of the libraries.
    pub(crate) fn write<E: Serialize>(
        &self,
        own: E,
        sections: impl IntoIterator<Item = (String, impl AsRef<[u8]>)>,
    ) -> std::result::Result<Vec<u8>, String> {
        let (mut listed, mut body) = (Vec::new(), Vec::new());
        for (name, bytes) in sections {
            let packed = zstd::encode_all(bytes.as_ref(), 3).map_err(|error| error.to_string())?;
            listed.push(Section { name, bytes: packed.len() as u64, sha256: sha256(&packed) });
            body.extend(packed);
        }
        let header = Header {
            format: self.name.to_owned(),
            version: self.version,
            tracecast: env!("CARGO_PKG_VERSION").to_owned(),
            own,
            sections: listed,
        };
        let mut file = serde_json::to_vec(&header).map_err(|error| error.to_string())?;
        file.push(b'\n');
        file.extend(body);
        Ok(file)
    }

    /// What is in the bytes of a file; `file` is what to call it in messages.
    ///
    /// # Errors
    /// If it is no file of this format, is damaged, or of a later version.
    pub(crate) fn open<E: DeserializeOwned>(&self, file: &str, bytes: &[u8]) -> Result<Opened<E>> {
        let refusal = Refusal { file: file.to_owned(), command: self.command };
        let not_one = || {
            refusal.with(
                format!("this is no model file of {}", self.of),
                &format!("name one that `{}` wrote", self.command),
            )
        };
        let end = bytes.iter().take(LONGEST_LINE).position(|byte| *byte == b'\n').ok_or_else(not_one)?;
        let (head, mut rest) = bytes.split_at(end + 1);
        let head: serde_json::Value = serde_json::from_slice(head).map_err(|_| not_one())?;
        if head.get("format").and_then(serde_json::Value::as_str) != Some(self.name) {
            return Err(not_one());
        }
        let version = head.get("version").and_then(serde_json::Value::as_u64).unwrap_or(0);
        if version == 0 || version > u64::from(self.version) {
            let found = format!("the file is of version {version}, this program reads up to {}", self.version);
            return Err(refusal.with(found, "use the program that wrote it, or a later one"));
        }
        let header: Header<E> = serde_json::from_value(head).map_err(|error| refusal.damaged(error))?;
        let mut sections = HashMap::new();
        for section in header.sections {
            let length = usize::try_from(section.bytes).unwrap_or(usize::MAX);
            let Some((packed, tail)) = rest.split_at_checked(length) else {
                return Err(refusal.damaged(format!("the file ends within its section `{}`", section.name)));
            };
            if sha256(packed) != section.sha256 {
                let found = format!("section `{}` is damaged (its SHA-256 differs)", section.name);
                return Err(refusal.damaged(found));
            }
            let mut plain = Vec::new();
            let unpacked =
                zstd::Decoder::new(packed).and_then(|decoder| decoder.take(self.longest).read_to_end(&mut plain));
            unpacked.map_err(|error| refusal.damaged(format!("section `{}`: {error}", section.name)))?;
            sections.insert(section.name, plain);
            rest = tail;
        }
        Ok(Opened { own: header.own, refusal, sections })
    }
}

/// How a file is refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    file: String,
    command: &'static str,
}

impl Refusal {
    /// What was found, and what would mend it.
    pub(crate) fn with(&self, found: String, remedy: &str) -> Error {
        Error::ModelFile { file: self.file.clone(), found, remedy: remedy.to_owned() }
    }

    /// What was found in a file that is damaged.
    pub(crate) fn damaged(&self, found: impl ToString) -> Error {
        self.with(found.to_string(), &format!("copy it again, or train another (`{}`)", self.command))
    }
}

/// A model file that was read.
#[derive(Debug)]
pub(crate) struct Opened<E> {
    /// What the format says of its own.
    pub(crate) own: E,
    /// How it is refused if what is in it is wrong.
    pub(crate) refusal: Refusal,
    sections: HashMap<String, Vec<u8>>,
}

impl<E> Opened<E> {
    /// A section, which is then gone.
    ///
    /// # Errors
    /// If there is none of that name.
    pub(crate) fn take(&mut self, name: &str) -> Result<Vec<u8>> {
        self.sections.remove(name).ok_or_else(|| self.refusal.damaged(format!("there is no section `{name}`")))
    }

    /// A section of JSON.
    ///
    /// # Errors
    /// If there is none of that name, or it is something else.
    pub(crate) fn take_json<T: DeserializeOwned>(&mut self, name: &str) -> Result<T> {
        let bytes = self.take(name)?;
        serde_json::from_slice(&bytes).map_err(|error| self.refusal.damaged(error))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const FORMAT: Format =
        Format { name: "tracecast-test", version: 1, longest: 1 << 20, of: "tests", command: "tracecast test" };

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Own {
        jobs: u32,
    }

    #[test]
    fn what_is_written_is_read_and_damage_is_told() {
        let sections = [("a".to_owned(), vec![1; 3000]), ("b".to_owned(), b"[7]".to_vec())];
        let bytes = FORMAT.write(Own { jobs: 5 }, sections).unwrap();
        let mut opened = FORMAT.open::<Own>("m", &bytes).unwrap();
        assert_eq!((opened.own.jobs, opened.take("a").unwrap()), (5, vec![1; 3000]));
        assert_eq!(opened.take_json::<Vec<u32>>("b").unwrap(), vec![7]);
        let again = opened.take("a").unwrap_err().to_string();
        assert!(again.contains("no section `a`") && again.contains("`tracecast test`"), "{again}");
        let told = |bytes: &[u8]| FORMAT.open::<Own>("m", bytes).unwrap_err().to_string();
        let mut flipped = bytes.clone();
        *flipped.last_mut().unwrap() ^= 1;
        assert!(told(&flipped).contains("`b` is damaged"));
        assert!(told(&bytes[..bytes.len() - 1]).contains("ends within its section `b`"));
        assert!(told(b"{\"format\":\"other\"}\n").contains("no model file of tests"));
    }
}
