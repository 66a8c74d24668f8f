//! GPUs that a job's command line or batch script names.
//!
//! Where the accounting does not track GPUs, what a user typed is all that tells that a job had some. How many it was given
//! does not stand there (`--gpus-per-task`, options in the environment and defaults of the site change it), so the count
//! is unknown, and not 0. Options: `--gres=gpu:…`, `-G`, `--gpus`, `--gpus-per-node` and its kin, `--tres-per-task`.
//!
//! Worked example: `sbatch -p a -G2 x.sh` names GPUs; `sbatch x.sh -G 2` does not, as what follows the script is its own.

/// Options whose value is a number of GPUs, perhaps after a type.
const COUNTS: [&str; 5] = ["--gpus", "--gpus-per-node", "--gpus-per-task", "--gpus-per-socket", "-G"];
/// Options whose value is a list of resources, GPUs among them.
const LISTS: [&str; 5] = ["--gres", "--tres-per-job", "--tres-per-node", "--tres-per-task", "--tres-per-socket"];

/// Whether a command line such as that of `SubmitLine` asks for GPUs.
pub(super) fn names_gpus(line: &str) -> bool {
    let mut words = line.split_whitespace().skip(1).peekable();
    while let Some(word) = words.next() {
        if !word.starts_with('-') || word == "--" {
            // The script or the program; what follows is for it.
            return false;
        }
        let (name, attached) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None if word.len() > 2 && !word.starts_with("--") => {
                word.split_at_checked(2).map_or((word, None), |(name, value)| (name, Some(value)))
            }
            None => (word, None),
        };
        // Whether an option without a value attached takes the next word is not known of all of them.
        let value = attached.or_else(|| words.peek().copied().filter(|next| !next.starts_with('-')));
        if attached.is_none() && value.is_some() {
            words.next();
        }
        let Some(value) = value.map(|value| value.trim_matches(['"', '\''])) else { continue };
        if (COUNTS.contains(&name) && is_some(value)) || (LISTS.contains(&name) && value.split(',').any(is_gpus)) {
            return true;
        }
    }
    false
}

/// Whether the `#SBATCH` lines of a batch script ask for GPUs.
pub(super) fn script_names_gpus(script: &str) -> bool {
    script
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("#SBATCH"))
        .any(|options| names_gpus(&format!("sbatch {options}")))
}

/// Whether an entry of a list of resources is GPUs: `gpu:2`, `gpu:a100:2`, `gres/gpu:2`, `gres:gpu=2`.
pub(super) fn is_gpus(entry: &str) -> bool {
    let entry = entry.trim();
    let entry = entry.strip_prefix("gres/").or_else(|| entry.strip_prefix("gres:")).unwrap_or(entry);
    let rest = entry.strip_prefix("gpu").filter(|rest| rest.is_empty() || rest.starts_with([':', '=']));
    rest.is_some_and(|rest| rest.is_empty() || is_some(rest))
}

/// Whether the number at the end of a text is not 0; what has no number is one.
fn is_some(value: &str) -> bool {
    value.rsplit([':', '=']).next().and_then(|count| count.parse::<f64>().ok()) != Some(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_ask_for_gpus() {
        for line in [
            "sbatch --gres=gpu:2 x.sh",
            "sbatch --gres gpu:a100:2 x.sh",
            "sbatch --gres=craynetwork:1,gpu x.sh",
            "srun --gpus=4 python train.py",
            "srun --gpus 4 python train.py",
            "salloc -p gpu -G 1",
            "sbatch -G2 --exclusive x.sh",
            "sbatch --gpus-per-node=a100:4 -N 2 x.sh",
            "sbatch --tres-per-task=cpu:4,gres/gpu:1 x.sh",
            "/usr/bin/sbatch --time=1:00 '--gres=gpu:1' x.sh",
        ] {
            assert!(names_gpus(&line.replace('\'', "")), "{line}");
        }
        for line in [
            "",
            "sbatch",
            "sbatch x.sh --gres=gpu:1",
            "sbatch --gres=gpu:0 x.sh",
            "sbatch --gres=none -G0 --gpus=0 x.sh",
            "srun -n 4 ./render --gpus 2",
            "sbatch --gpu-bind=closest --gpu-freq=high x.sh",
            "sbatch --gres=gpuless:2 x.sh",
            "sbatch -J gpu --comment=gpus x.sh",
        ] {
            assert!(!names_gpus(line), "{line}");
        }
        assert!(script_names_gpus("#!/bin/sh\n#SBATCH -N 1\n#SBATCH --gres=gpu:v100:1\nsrun -G 0 x\n"));
        assert!(!script_names_gpus("#!/bin/sh\n#SBATCH -N 1\n##SBATCH --gres=gpu:1\nsrun --gres=gpu:1 x\n"));
    }
}
