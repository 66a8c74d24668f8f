//! The lines for Slurm's `job_submit.lua`: which jobs ask for a part of a GPU in place of a whole one.
//!
//! A job's type is told by its name, as the plan was told: by the first line of the user's file of types that matches, else by the name itself. The script matches by itself, in the number of letters of the pattern
//! times those of the name at most, as it runs while Slurm's controller waits. A letter is one of UTF-8, as it is in the plan.
//!
//! A part has the type of its GPU: a job that asks for `gpu:v100:1` asks for `shard:v100:1` then, which the Slurm 22.05 of Debian 12 takes where it takes the first, and refuses for another type
//! (`tests/e2e/sharing.rs`). A job that asks for a GPU of another type than the plan's keeps it: only GPUs of that type have parts.
//!
//! O(lines + job types). Worked example: with the lines `bert-*,BERT` and `*,ResNet-18`, and a class of `ResNet-18` alone, a job `bert-1` takes a whole GPU, and every other a part.

use tracecast_analytics::report::quote::lua as quoted;

use super::{SlurmPart, word};
use crate::one_gpu::types::TypeOfNames;
use crate::replay::input::plain_type;

/// Whether a pattern matches a name, from one letter to the next. Where it goes wrong behind a `*`, this stands for a letter more.
const MATCHES: &str = r#"local function after(name, at)
  at = at + 1
  while at <= #name and string.byte(name, at) >= 128 and string.byte(name, at) < 192 do
    at = at + 1
  end
  return at
end
local function matches(pattern, name)
  local p, n, star, from = 1, 1, 0, 1
  while n <= #name do
    local letter = string.sub(pattern, p, p)
    if letter == "*" then
      star, from, p = p, n, p + 1
    elseif letter == "?" then
      p, n = p + 1, after(name, n)
    elseif letter ~= "" and letter == string.sub(name, n, n) then
      p, n = p + 1, n + 1
    elseif star > 0 then
      from = after(name, from)
      p, n = star + 1, from
    else
      return false
    end
  end
  while string.sub(pattern, p, p) == "*" do
    p = p + 1
  end
  return p > #pattern
end
"#;

/// Lines that find `job_type`, the type of a job.
fn job_type(types: &[TypeOfNames]) -> String {
    if types.is_empty() {
        return "-- A job is of the type that its name says.\nlocal job_type = job_desc.name or \"\"\n".to_owned();
    }
    let mut lines = String::from(
        "-- Types of jobs by their names, as in the file that the plan was made with: * stands for any text, ? for one letter, case counts, and the first line that matches counts.\n\
         -- A job that no line matches is of the type that its name says. Change the lines here where you change that file.\nlocal types = {\n",
    );
    for line in types {
        lines.push_str(&format!("  {{ {}, {} }},\n", quoted(&line.name), quoted(&line.job_type)));
    }
    lines.push_str("}\n");
    lines.push_str(MATCHES);
    lines.push_str(
        "local job_type = job_desc.name or \"\"\n\
         for _, line in ipairs(types) do\n  if job_type ~= \"\" and matches(line[1], job_type) then\n    job_type = line[2]\n    break\n  end\nend\n",
    );
    lines
}

/// The lines, for the job types of a class on GPUs of a type.
pub(super) fn lines(job_types: &[String], types: &[TypeOfNames], part: SlurmPart, gpu: &str) -> String {
    let mut script = String::from(
        "-- Into slurm_job_submit of job_submit.lua: a job of one GPU whose type is of the class asks for a part of one.\nlocal shares = {\n",
    );
    for job_type in job_types {
        script.push_str(&format!("  [{}] = true,\n", quoted(job_type)));
    }
    script.push_str("}\n");
    script.push_str(&job_type(types));
    let (kind, count) = (part.kind, part.for_one());
    script.push_str(&format!(
        "-- What is asked for in one way only, and of one node. Slurm's versions differ in how a resource is written, so it is written as it was.\n\
         -- A part is of the type of its GPU, so that a type that was asked for is kept. Only GPUs of the type {} have parts: a job that asks for one of another type keeps it.\n\
         local per_node, per_job = job_desc.tres_per_node or \"\", job_desc.tres_per_job or \"\"\n\
         local asked = per_node .. per_job\n\
         local gres, gpu_type = string.match(asked, \"^(gres[/:])gpu:1$\"), \"\"\n\
         if not gres then\n  \
         gres, gpu_type = string.match(asked, \"^(gres[/:])gpu:([^:,]+:)1$\")\n  \
         if gres and string.gsub(string.lower(gpu_type), \"[^%w]\", \"\") ~= {} then\n    gres = false\n  end\nend\n\
         local one = (per_node == \"\") ~= (per_job == \"\")\n\
         if job_desc.min_nodes and job_desc.min_nodes ~= slurm.NO_VAL and job_desc.min_nodes > 1 then\n  one = false\nend\n\
         if one and gres and shares[job_type] then\n  \
         job_desc.tres_per_job = \"\"\n  job_desc.tres_per_node = gres .. \"{kind}:\" .. gpu_type .. \"{count}\"\nend\n",
        word(gpu),
        quoted(&plain_type(gpu))
    ));
    script
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;

    use super::*;
    use crate::one_gpu::types::TypesOfNames;

    const KINDS: [&str; 3] = ["BERT \"large\"", "ResNet-18 (batch size 16)", "%d"];

    fn types_of(lines: &[(String, usize)]) -> TypesOfNames {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("types.csv");
        let cell = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let rows: String =
            lines.iter().map(|(name, kind)| format!("{},{}\n", cell(name), cell(KINDS[*kind]))).collect();
        std::fs::write(&path, format!("name,job_type\n{rows}")).unwrap();
        TypesOfNames::read(&path, &KINDS.map(str::to_owned)).unwrap()
    }

    /// What jobs ask for once the script has seen them, of a name, and of what each asked for; `None` where there is no Lua.
    fn submitted(script: &str, jobs: &[(String, String)]) -> Option<Vec<String>> {
        let mut whole = format!(
            "slurm = {{ NO_VAL = 4294967294 }}\nlocal function submit(job_desc)\n{script}\nend\nlocal jobs = {{\n"
        );
        jobs.iter()
            .for_each(|(name, request)| whole.push_str(&format!("  {{ {}, {} }},\n", quoted(name), quoted(request))));
        whole.push_str(
            "}\nfor _, of in ipairs(jobs) do\n  local job = { tres_per_node = of[2] }\n  if of[1] ~= \"\" then job.name = of[1] end\n  submit(job)\n  print(job.tres_per_node)\nend\n",
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.lua");
        std::fs::write(&file, whole).unwrap();
        let result =
            ["lua", "lua5.4", "lua5.3", "lua5.1"].iter().find_map(|lua| Command::new(lua).arg(&file).output().ok())?;
        assert!(result.status.success(), "{script}\n{}", String::from_utf8_lossy(&result.stderr));
        let said: Vec<String> = String::from_utf8(result.stdout).unwrap().lines().map(str::to_owned).collect();
        assert_eq!(said.len(), jobs.len());
        Some(said)
    }

    /// For each name, whether its job asks for a part of a GPU.
    fn asks(script: &str, names: &[String]) -> Option<Vec<bool>> {
        let jobs: Vec<(String, String)> = names.iter().map(|name| (name.clone(), "gres/gpu:1".to_owned())).collect();
        Some(submitted(script, &jobs)?.iter().map(|said| said == "gres/shard:1").collect())
    }

    /// Regression test: a job that asked for a GPU of a type got a shard of any, also where it had
    /// asked for another type than the plan's.
    #[test]
    fn the_type_that_was_asked_for_is_kept() {
        let part = |part: SlurmPart| super::lines(&["here".to_owned()], &[], part, "A100 80GB");
        for (request, said) in [
            ("gres/gpu:1", "gres/shard:1"),
            ("gres:gpu:1", "gres:shard:1"),
            ("gres/gpu:a100-80gb:1", "gres/shard:a100-80gb:1"),
            ("gres:gpu:A100_80GB:1", "gres:shard:A100_80GB:1"),
            // Neither of these has parts.
            ("gres/gpu:v100:1", "gres/gpu:v100:1"),
            ("gres/gpu:a100:1", "gres/gpu:a100:1"),
            // More than one GPU, or more than a GPU.
            ("gres/gpu:a100-80gb:2", "gres/gpu:a100-80gb:2"),
            ("gres/gpu:2", "gres/gpu:2"),
            ("gres/gpu:a100-80gb:1,gres/nic:1", "gres/gpu:a100-80gb:1,gres/nic:1"),
        ] {
            let jobs = [("here".to_owned(), request.to_owned()), ("other".to_owned(), request.to_owned())];
            match submitted(&part(SlurmPart::SHARD), &jobs) {
                Some(result) => assert_eq!(result, [said, request], "{request}"),
                None => println!("not run: there is no Lua on this machine"),
            }
        }
        let jobs = [("here".to_owned(), "gres/gpu:a100-80gb:1".to_owned())];
        if let Some(result) = submitted(&part(SlurmPart::MPS), &jobs) {
            assert_eq!(result, ["gres/mps:a100-80gb:50"]);
        }
    }

    /// What the plan takes for a name's type shares, where it is of the class.
    fn planned(types: &TypesOfNames, class: &[String], name: &str) -> bool {
        let job_type = if name.is_empty() { None } else { Some(types.of(name).unwrap_or(name)) };
        job_type.is_some_and(|job_type| class.iter().any(|of| of == job_type))
    }

    /// Regression test: the script compared names with job types, so that with a file of types
    /// nothing was shared.
    #[test]
    fn the_script_finds_the_types_that_the_plan_found() {
        let lines = [("bert-*", 0), ("[x]?.%s", 2), ("*-%d-*", 2), ("gr?ße", 0), ("bert*", 1), ("a\tb\\", 0)];
        let types = types_of(&lines.map(|(name, kind)| (name.to_owned(), kind)));
        let class = [KINDS[0].to_owned(), KINDS[2].to_owned()];
        let script = lines_of(&class, &types);
        for (pattern, kind) in lines {
            assert!(script.contains(&format!("{{ {}, {} }},", quoted(pattern), quoted(KINDS[kind]))), "{script}");
        }
        let names = [
            "bert-1",
            "bert",
            "berta",
            "Bert-1",
            "[x]y.%s",
            "[x]é.%s",
            "[x].%s",
            "x-%d-1",
            "größe",
            "grüße",
            "gröe",
            "a\tb\\",
            "BERT \"large\"",
            "ResNet-18 (batch size 16)",
            "%d",
            "",
            "other",
        ]
        .map(str::to_owned);
        let expected = [
            true, false, false, false, true, true, false, true, true, true, false, true, true, false, true, false,
            false,
        ];
        assert_eq!(names.each_ref().map(|name| planned(&types, &class, name)), expected);
        match asks(&script, &names) {
            Some(said) => assert_eq!(said, expected, "{script}"),
            None => println!("not run: there is no Lua on this machine"),
        }
        // Without a file of types a job is of the type that its name says.
        let bare = super::lines(&class, &[], SlurmPart::SHARD, "v100");
        if let Some(said) = asks(&bare, &names) {
            assert_eq!(said.iter().filter(|asks| **asks).count(), 2);
        }
    }

    fn lines_of(class: &[String], types: &TypesOfNames) -> String {
        super::lines(class, &types.lines(), SlurmPart::SHARD, "v100")
    }

    /// Drawn patterns and names, most of them nearly alike.
    #[test]
    fn drawn_names_are_of_the_types_that_the_plan_finds() {
        let line = ("[ab.%é*?\\[\\-]{1,6}".prop_filter("two stars", |text| !text.contains("**")), 0..3usize);
        let drawn = (prop::collection::vec(line, 1..6), prop::collection::vec("[ab.%é\\[\\-]{0,7}", 60));
        let mut runner = TestRunner::deterministic();
        for _ in 0..40 {
            let (lines, names) = drawn.new_tree(&mut runner).unwrap().current();
            // Cells are read without the blanks around them, and none is empty.
            let types = types_of(&lines);
            let class = [KINDS[0].to_owned()];
            let Some(said) = asks(&lines_of(&class, &types), &names) else { return };
            let expected: Vec<bool> = names.iter().map(|name| planned(&types, &class, name)).collect();
            assert_eq!(said, expected, "{lines:?} {names:?}");
        }
    }
}
