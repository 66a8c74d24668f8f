//! The container of model files: one line of JSON, then sections, each compressed with zstd and known by its SHA-256.
//!
//! The line says the format, its version, the program that wrote it, what the format has to say of its own, and the sections' names, sizes and
//! hashes. A later version of the program reads earlier versions of a format, back to its oldest; an earlier one refuses a later file by its version. What sections mean
//! is for the formats: [`duration::predictor`](crate::duration::predictor), [`demand::predictor`](crate::demand::predictor) and
//! [`interference::predictor`](crate::interference::predictor).
//!
//! O(bytes). Worked example: two sections of 3,000 bytes that compress to 100 and 120 make a file of one line and 220 bytes; flip a bit of the
//! last byte, and it is refused, as the hash of the second section differs.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tracecast_analytics::ingest::sha256;

use crate::error::{Error, Result};

/// Longest first line looked for, bytes.
const LONGEST_LINE: usize = 1 << 20;

/// Longest model file read, bytes.
const LONGEST_FILE: u64 = 4 << 30;
/// Largest ratio by which the sections of a file may expand when unpacked, and the size they always
/// may have, bytes. Sections of models unpack to three to thirty times their bytes.
const MOST_EXPANSION: u64 = 1000;
const ALWAYS: u64 = 64 << 20;
/// Most sections of a file.
const MOST_SECTIONS: usize = 4096;

/// Reads the first line of a model file, and what of the file came with it; `.2` is where that line
/// ends.
fn begin(path: &Path) -> Result<(File, Vec<u8>, usize, serde_json::Value)> {
    let mut file = File::open(path).map_err(|source| failed(path, source))?;
    let mut bytes = Vec::new();
    file.by_ref().take(LONGEST_LINE as u64).read_to_end(&mut bytes).map_err(|source| failed(path, source))?;
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or_else(|| refused(path, "this is no model file: its first line does not end within 1 MiB"))?;
    let head = serde_json::from_slice(bytes.get(..end).unwrap_or_default())
        .map_err(|_| refused(path, "this is no model file: its first line is no JSON"))?;
    Ok((file, bytes, end, head))
}

fn failed(path: &Path, source: std::io::Error) -> Error {
    Error::Io { action: "read", path: path.to_owned(), source }
}

fn refused(path: &Path, found: impl Into<String>) -> Error {
    let remedy = "name one that `tracecast model train` wrote".to_owned();
    Error::ModelFile { file: path.display().to_string(), found: found.into(), remedy }
}

/// First line of a model file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Heading {
    /// Name of the format, such as `tracecast-duration-model`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// Version of the program that wrote the file.
    pub tracecast: String,
    /// Training data of a model of run times.
    pub trained: Option<serde_json::Value>,
}

/// Reads the first line of a model file of any format. The model itself is neither read nor
/// checked.
///
/// # Errors
/// If the file cannot be read, or does not begin with the line of a model file.
pub fn heading(path: &Path) -> Result<Heading> {
    let (_, _, _, head) = begin(path)?;
    serde_json::from_value(head).map_err(|error| refused(path, format!("this is no model file: {error}")))
}

/// The bytes of a model file, of whatever format. The first line is read first: of what does not begin as a model file no more is.
///
/// # Errors
/// If it cannot be read, does not begin with a line of JSON of at most 1 MiB, or has more bytes than that line says (or than 4 GiB).
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let (file, mut bytes, end, head) = begin(path)?;
    let lengths = head.get("sections").and_then(serde_json::Value::as_array);
    let lengths = lengths.into_iter().flatten().filter_map(|section| section.get("bytes")?.as_u64());
    let expected = lengths.fold(end as u64 + 1, u64::saturating_add);
    if expected > LONGEST_FILE {
        return Err(refused(path, format!("its first line tells of {expected} bytes, and at most 4 GiB are read")));
    }
    // One more, so that a longer file is told from a whole one.
    let left = (expected + 1).saturating_sub(bytes.len() as u64);
    file.take(left).read_to_end(&mut bytes).map_err(|source| failed(path, source))?;
    if bytes.len() as u64 > expected {
        return Err(refused(path, format!("it has more than the {expected} bytes that its first line tells of")));
    }
    Ok(bytes)
}

/// A kind of model file.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// Name of the format in the file.
    pub name: &'static str,
    /// Newest version that this program reads, and the one it writes.
    pub version: u32,
    /// Oldest version that this program reads: what older ones hold cannot be continued.
    pub oldest: u32,
    /// Longest section taken from a file, bytes unpacked.
    pub longest: u64,
    /// Subject of the model in messages.
    pub of: &'static str,
    /// The command that makes one.
    pub command: &'static str,
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
    fields: E,
    sections: Vec<Section>,
}

impl Format {
    /// The bytes of a file: what the format says of its own, and the sections in order. Errors are
    /// given in the words of the libraries.
    ///
    /// # Errors
    /// If it cannot be packed.
    pub fn write<E: Serialize>(
        &self,
        fields: E,
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
            fields,
            sections: listed,
        };
        let mut file = serde_json::to_vec(&header).map_err(|error| error.to_string())?;
        file.push(b'\n');
        file.extend(body);
        Ok(file)
    }

    /// Opens the bytes of a file; `file` is its name in messages.
    ///
    /// # Errors
    /// If it is no file of this format, is damaged, or of a later version or one too old.
    pub fn open<E: DeserializeOwned>(&self, file: &str, bytes: &[u8]) -> Result<Opened<E>> {
        let refusal = FileRefusal { file: file.to_owned(), command: self.command };
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
        if version > 0 && version < u64::from(self.oldest) {
            let problem = format!("the file is of version {version}, whose model this program does not continue");
            return Err(refusal.with(problem, &format!("make it again (`{}`)", self.command)));
        }
        if version == 0 || version > u64::from(self.version) {
            let problem = format!("the file is of version {version}, this program reads up to {}", self.version);
            return Err(refusal.with(problem, "use the program that wrote it, or a later one"));
        }
        let header: Header<E> = serde_json::from_value(head).map_err(|error| refusal.damaged(error))?;
        if header.sections.len() > MOST_SECTIONS {
            let result =
                format!("it has {} sections, and no model has more than {MOST_SECTIONS}", header.sections.len());
            return Err(refusal.damaged(result));
        }
        let mut sections = HashMap::new();
        let mut left = ALWAYS.max((bytes.len() as u64).saturating_mul(MOST_EXPANSION));
        for section in header.sections {
            let length = usize::try_from(section.bytes).unwrap_or(usize::MAX);
            let Some((packed, tail)) = rest.split_at_checked(length) else {
                return Err(refusal.damaged(format!("the file ends within its section `{}`", section.name)));
            };
            if sha256(packed) != section.sha256 {
                let problem = format!("section `{}` is damaged (its SHA-256 differs)", section.name);
                return Err(refusal.damaged(problem));
            }
            let mut plain = Vec::new();
            let most = left.min(self.longest);
            // A byte more than may be, so that a longer section is told from one of that length.
            let unpacked =
                zstd::Decoder::new(packed).and_then(|decoder| decoder.take(most + 1).read_to_end(&mut plain));
            unpacked.map_err(|error| refusal.damaged(format!("section `{}`: {error}", section.name)))?;
            if plain.len() as u64 > most {
                let problem = format!(
                    "section `{}` unpacks to more than {} MiB, the most that is read",
                    section.name,
                    most >> 20
                );
                return Err(refusal.with(problem, "it is no model that this program wrote; train another"));
            }
            left -= plain.len() as u64;
            sections.insert(section.name, plain);
            rest = tail;
        }
        Ok(Opened { version: header.version, fields: header.fields, refusal, sections })
    }
}

/// Refusal of a file.
#[derive(Debug)]
pub struct FileRefusal {
    file: String,
    command: &'static str,
}

impl FileRefusal {
    /// Error with what was found, and its remedy.
    pub fn with(&self, found: String, remedy: &str) -> Error {
        Error::ModelFile { file: self.file.clone(), found, remedy: remedy.to_owned() }
    }

    /// Error about a damaged file.
    #[expect(clippy::needless_pass_by_value, reason = "an error at hand, in a closure that gets it by value")]
    pub fn damaged(&self, result: impl ToString) -> Error {
        self.with(result.to_string(), &format!("copy it again, or train another (`{}`)", self.command))
    }
}

/// A model file that was read.
#[derive(Debug)]
pub struct Opened<E> {
    /// Version of the format.
    pub version: u32,
    /// Fields of the format.
    pub fields: E,
    /// Refusal to use if the contents are wrong.
    pub refusal: FileRefusal,
    sections: HashMap<String, Vec<u8>>,
}

impl<E> Opened<E> {
    /// Whether there is a section of that name.
    pub fn has(&self, name: &str) -> bool {
        self.sections.contains_key(name)
    }

    /// A section, which is then gone.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn take(&mut self, name: &str) -> Result<Vec<u8>> {
        self.sections.remove(name).ok_or_else(|| self.refusal.damaged(format!("there is no section `{name}`")))
    }

    /// A section of JSON.
    ///
    /// # Errors
    /// If there is none of that name, or it is something else.
    pub fn take_json<T: DeserializeOwned>(&mut self, name: &str) -> Result<T> {
        let bytes = self.take(name)?;
        serde_json::from_slice(&bytes).map_err(|error| self.refusal.damaged(error))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const FORMAT: Format = Format {
        name: "tracecast-test",
        version: 2,
        oldest: 2,
        longest: 1 << 20,
        of: "tests",
        command: "tracecast test",
    };

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Fields {
        jobs: u32,
    }

    #[test]
    fn what_is_written_is_read_and_damage_is_told() {
        let sections = [("a".to_owned(), vec![1; 3000]), ("b".to_owned(), b"[7]".to_vec())];
        let bytes = FORMAT.write(Fields { jobs: 5 }, sections).unwrap();
        let mut opened = FORMAT.open::<Fields>("m", &bytes).unwrap();
        assert_eq!((opened.fields.jobs, opened.take("a").unwrap()), (5, vec![1; 3000]));
        assert_eq!(opened.take_json::<Vec<u32>>("b").unwrap(), vec![7]);
        let again = opened.take("a").unwrap_err().to_string();
        assert!(again.contains("no section `a`") && again.contains("`tracecast test`"), "{again}");
        let told = |bytes: &[u8]| FORMAT.open::<Fields>("m", bytes).unwrap_err().to_string();
        let mut flipped = bytes.clone();
        *flipped.last_mut().unwrap() ^= 1;
        assert!(told(&flipped).contains("`b` is damaged"));
        assert!(told(&bytes[..bytes.len() - 1]).contains("ends within its section `b`"));
        assert!(told(b"{\"format\":\"other\"}\n").contains("no model file of tests"));
        for (version, remedy) in [(1, "make it again (`tracecast test`)"), (3, "or a later one")] {
            let other = told(format!("{{\"format\":\"tracecast-test\",\"version\":{version}}}\n").as_bytes());
            assert!(other.contains(&format!("version {version}")) && other.contains(remedy), "{other}");
        }
    }

    /// Found under attack: a section of 128 KiB that unpacks to 4 GiB took 6 to 9 GB of memory.
    #[test]
    fn a_section_that_swells_is_refused() {
        let format = Format { longest: 1 << 40, ..FORMAT };
        let swelling = format.write(Fields { jobs: 5 }, [("a".to_owned(), vec![0; 100 << 20])]).unwrap();
        assert!(swelling.len() < 1 << 16);
        let told = format.open::<Fields>("m", &swelling).unwrap_err().to_string();
        assert!(told.contains("`a` unpacks to more than 64 MiB"), "{told}");
        // Nor by several that are each below the bound.
        let half = || vec![0; 40 << 20];
        let sections = [("a".to_owned(), half()), ("b".to_owned(), half())];
        let told = format.open::<Fields>("m", &format.write(Fields { jobs: 5 }, sections).unwrap()).unwrap_err();
        assert!(told.to_string().contains("`b` unpacks to more than 24 MiB"), "{told}");
    }

    #[test]
    fn a_file_that_never_ends_is_not_read_to_its_end() {
        let told = read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(told.contains("first line does not end within 1 MiB"), "{told}");
        let bytes = FORMAT.write(Fields { jobs: 5 }, [("a".to_owned(), vec![1; 3000])]).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        assert_eq!(read(file.path()).unwrap(), bytes);
        std::fs::write(file.path(), [&bytes[..], b"x"].concat()).unwrap();
        assert!(read(file.path()).unwrap_err().to_string().contains("more than the"));
        std::fs::write(file.path(), b"{\"sections\":[{\"bytes\":9000000000}]}\n").unwrap();
        assert!(read(file.path()).unwrap_err().to_string().contains("at most 4 GiB"));
        std::fs::write(file.path(), b"no JSON\n").unwrap();
        assert!(read(file.path()).unwrap_err().to_string().contains("no JSON"));
    }
}
