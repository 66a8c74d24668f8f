//! Files that the user already has, and patches to them: what plans write beside the files that they emit anew.
//!
//! Only the values that a plan is about are set; other comments and keys and the order of lines stay. A patch begins with what is to be expected, then each change with its
//! reason, then what of the plan could not be put into the files, and why. `patch -p1` and `git apply` take it; with `-R` it is taken back.
//!
//! [`SlurmFiles`](super::slurm::SlurmFiles) changes several of Slurm's together; objects of Kubernetes are changed as YAML.
//!
//! O(bytes × changes). Worked example: `QOS=a # ours` whose value becomes `b` gives the lines `-QOS=a # ours` and `+QOS=b # ours`, and above them "slurm.conf: QOS a → b: why".

use similar::TextDiff;
use tracecast_analytics::report::format;
use tracecast_analytics::report::quote::comments;

use super::Emitted;
use crate::error::{Error, Result};
use crate::yaml::amend::Amended;

/// A file of the user's.
#[derive(Debug, Clone)]
pub struct OwnFile {
    /// Name of the file, as the user wrote it.
    pub name: String,
    /// Text of the file.
    pub text: String,
    /// The parsed objects; none if the name says that the file is Slurm's.
    pub objects: Option<Amended>,
}

impl OwnFile {
    /// A file and what is in it.
    ///
    /// # Errors
    /// If a patch cannot name it, or if it is not Slurm's and no YAML; then the line is told.
    pub fn new(name: String, text: String) -> Result<Self> {
        let is_slurm = name.ends_with(".conf");
        let objects = (!is_slurm).then(|| Amended::new(&name, &text)).transpose().map_err(|error| match error {
            Error::Replay(tracecast_replay::Error::File { file, line, what }) => {
                let what = format!("{what} (a template has to be rendered first; Slurm's files end in .conf)");
                Error::file(file, line, what)
            }
            other => other,
        })?;
        let file = Self { name, text, objects };
        if file.path().split('/').any(|part| part == "..") || file.name.chars().any(char::is_control) {
            let remedy = "name it from a folder above it, or from /".to_owned();
            return Err(Error::malformed("name of a file to be patched", file.name, remedy));
        }
        Ok(file)
    }

    /// Whether the file is Slurm's, by its name: all others are YAML or JSON.
    pub fn is_slurm(&self) -> bool {
        self.objects.is_none()
    }

    /// Name of the file within a patch.
    pub fn path(&self) -> &str {
        path_of(&self.name)
    }
}

/// The name of a file within a patch.
pub fn path_of(name: &str) -> &str {
    name.trim_start_matches("./").trim_start_matches('/')
}

/// Returns a sentence for each part of the plan that a patch leaves out.
pub fn left_in_words(left: &[String]) -> impl Iterator<Item = String> {
    left.iter().map(|left| format!("**Not in slurm.patch**: {left}."))
}

/// A patch, and how much of the plan is in it.
#[derive(Debug, Clone)]
pub struct Patch {
    /// Name and text of the patch.
    pub file: Emitted,
    /// Values that it sets.
    pub made: usize,
    /// Parts of the plan that could not be put in, and why, as the patch says at its head.
    pub left: Vec<String>,
}

impl Patch {
    /// A patch that changes something, or has nothing left to change, as where some of the files have all of it already (`is_in`).
    ///
    /// # Errors
    /// If nothing of the plan can be put in, with all reasons.
    pub fn whole_or_told(self, is_in: bool) -> Result<Self> {
        if is_in || self.left.is_empty() {
            return Ok(self);
        }
        Err(Error::NotEmitted(format!("nothing of the plan can be put into your files: {}", self.left.join("; "))))
    }

    /// Returns a line that counts the changes, and the parts that could not be put in.
    pub fn told(&self) -> String {
        let (name, _) = &self.file;
        let made = match self.made {
            0 => "nothing to change in your files".to_owned(),
            made => format!("{} to your files", format::counted(made as u64, "change", "changes")),
        };
        match self.left.len() {
            0 => format!("{name}: {made}"),
            left => {
                let left = format::counted(left as u64, "part", "parts");
                format!("{name}: {made}; {left} of the plan could not be put in, its head says which and why")
            }
        }
    }
}

/// The changes of a patch, and the parts that it leaves out.
#[derive(Debug, Default)]
pub struct Changes {
    /// Each change and its reason.
    pub made: Vec<String>,
    /// Parts that could not be changed, and why.
    pub left: Vec<String>,
}

/// A patch called `name` of files, each with its path, its text and its new text. It begins with what is said `about` the plan; `steps` are what has to be done beside it.
pub fn patch<'f>(
    name: &str,
    about: Vec<String>,
    (changes, steps): (&Changes, &str),
    files: impl Iterator<Item = ([&'f str; 2], String)>,
) -> Patch {
    let mut lines = about;
    if changes.made.is_empty() {
        lines.push("Nothing in the files is to be changed.".to_owned());
    } else {
        lines.push(format!(
            "Apply, in the folder that the files were named from (in / if their names begin with it): patch -p1 --dry-run < PATH/{name}, then the same without --dry-run. \
             To take it back: with -R."
        ));
        lines.extend((!steps.is_empty()).then(|| steps.to_owned()));
        lines.push("Then load the files as usual.".to_owned());
        lines.push("Changes (comments beside them may no longer be true):".to_owned());
        lines.extend(changes.made.iter().map(|change| format!("  {change}.")));
    }
    if !changes.left.is_empty() {
        lines.push("Not in this patch:".to_owned());
        lines.extend(changes.left.iter().map(|left| format!("  {left}.")));
    }
    let mut content = comments("#", &lines);
    for ([path, before], now) in files {
        // Lines as patch has them, which do not end at a lone carriage return.
        let (old, new): (Vec<&str>, Vec<&str>) =
            (before.split_inclusive('\n').collect(), now.split_inclusive('\n').collect());
        let diff = TextDiff::configure().newline_terminated(true).diff_slices(&old, &new);
        // With a tab behind it, a name may hold blanks.
        let tab = if path.contains(' ') { "\t" } else { "" };
        let (from, to) = (format!("a/{path}{tab}"), format!("b/{path}{tab}"));
        content.push_str(&diff.unified_diff().header(&from, &to).to_string());
    }
    Patch { file: (name.to_owned(), content), made: changes.made.len(), left: changes.left.clone() }
}
