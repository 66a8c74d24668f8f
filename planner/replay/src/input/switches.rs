//! Where nodes lie in a Slurm cluster: `topology.conf`, or what `scontrol show topology` prints of it.
//!
//! * **`SwitchName=… Nodes=…`** is a leaf switch, **`SwitchName=… Switches=…`** one above others (its `Nodes`, which `scontrol` adds, say nothing new: one that is on no leaf below is an error). The height of a switch is 1 if it has nodes, else one more than that of
//!   the highest below it. Levels are `leaf` (1), `spine` (2), `core` (3), `tier4` and so on. Where a branch has no switch of a height, the next lower one stands for it.
//! * **`BlockName=… Nodes=…`** is a block, the level `block`. `BlockSizes=18,36,72` makes levels of 2 and of 4 blocks that follow each other in the file, `block36` and `block72`, as the plugin topology/block joins them. `scontrol` prints no sizes, and `AggregatedBlock=b[0-1] BlockSize=36` for each that is joined: these make the same levels. A block that is in none of a level lies alone there, with those that a smaller one joins.
//!
//! As Slurm reads it: keys count in either case, blanks may stand around `=`, `#` begins a comment, and a line goes on behind a `\` at its end. Anything else is an error with its line: places that are wrong make a wrong replay. O(nodes × levels).
//!
//! Worked example: `SwitchName=s0 Nodes=n[1-2]`, `SwitchName=s1 Nodes=n[3-4]`, `SwitchName=top Switches=s[0-1]`: n3 lies in the spine `top` and in the leaf `s1`.

use std::collections::BTreeMap;

use tracecast_analytics::ingest::slurm::hostlist::{self, HostlistError};

use super::place::NodePlaces;
use crate::error::{Error, Result};
use tracecast_sim::topology::{LEAF, MOST_LEVELS};

/// Most nodes of a list, and most switches.
const MOST: usize = 1_000_000;
/// Most switches above a node.
const DEEPEST: usize = 32;
/// Keys that say nothing of where nodes lie.
const PASSED: [&str; 3] = ["linkspeed", "level", "blockindex"];
/// Remedy for a file that cannot be read.
const REMEDY: &str = "give topology.conf, or what `scontrol show topology` prints";
/// Remedy for joined blocks that cannot be.
const REMEDY_OF_BLOCKS: &str = "give topology.conf, whose BlockSizes say it";

/// A switch or a block.
#[derive(Debug, Clone, Default)]
struct Part {
    line: u64,
    name: String,
    nodes: Vec<String>,
    /// Switches below it, or blocks that it joins, by name.
    below: Vec<String>,
    /// Nodes of a block, as `scontrol` prints them; 0 if it does not say.
    size: u64,
}

/// A file on its way.
struct Reading<'f> {
    file: &'f str,
    switches: Vec<Part>,
    blocks: Vec<Part>,
    /// Blocks that are joined, as `scontrol` prints them.
    joined: Vec<Part>,
    /// The line of each switch and block.
    known: BTreeMap<String, u64>,
    /// The sizes of blocks in nodes, with their line.
    sizes: Option<(u64, Vec<u64>)>,
}

impl NodePlaces {
    /// Reads a `topology.conf` called `file`.
    ///
    /// # Errors
    /// Names the line and what would mend it: if a line is no switch or block, a list cannot be read, a node lies in two places, or switches make no tree.
    pub fn of_slurm(file: &str, text: &str) -> Result<Self> {
        let mut reading = Reading {
            file,
            switches: Vec::new(),
            blocks: Vec::new(),
            joined: Vec::new(),
            known: BTreeMap::new(),
            sizes: None,
        };
        for (line, content) in lines(text) {
            reading.line(line, &content)?;
        }
        let (levels, of) = match (reading.switches.as_slice(), reading.blocks.as_slice()) {
            ([], []) => {
                return Err(reading.wrong(1, format!("it holds no SwitchName and no BlockName; {REMEDY}")));
            }
            ([], _) => reading.in_blocks()?,
            (_, []) => reading.below_switches()?,
            ([first, ..], _) => {
                return Err(reading.wrong(first.line, "it holds switches beside blocks; leave either".to_owned()));
            }
        };
        if levels.len() >= MOST_LEVELS {
            let what = format!(
                "it has {} levels of switches or blocks, and {} are the most; leave out the highest",
                levels.len(),
                MOST_LEVELS - 1
            );
            return Err(reading.wrong(1, what));
        }
        Ok(Self { basis: file.to_owned(), levels, of })
    }
}

/// Lines with their numbers, those that go on joined, without comments; empty ones left out.
fn lines(text: &str) -> Vec<(u64, String)> {
    let mut result: Vec<(u64, String)> = Vec::new();
    let mut open = false;
    for (number, line) in (1u64..).zip(text.lines()) {
        let said = line.split_once('#').map_or(line, |(said, _)| said).trim();
        let (said, goes_on) = said.strip_suffix('\\').map_or((said, false), |rest| (rest.trim_end(), true));
        match result.last_mut().filter(|_| open) {
            Some((_, before)) => {
                before.push(' ');
                before.push_str(said);
            }
            None => result.push((number, said.to_owned())),
        }
        open = goes_on;
    }
    result.retain(|(_, said)| !said.trim().is_empty());
    result
}

/// The keys, in lower case, and values of a line; the word that is none, if there is one.
fn pairs(line: &str) -> std::result::Result<Vec<(String, &str)>, &str> {
    let mut found = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let end = rest.find(|letter: char| letter == '=' || letter.is_whitespace()).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        let value = after.trim_start().strip_prefix('=').filter(|_| !key.is_empty()).ok_or(rest)?.trim_start();
        let end = value.find(char::is_whitespace).unwrap_or(value.len());
        found.push((key.to_ascii_lowercase(), &value[..end]));
        rest = value[end..].trim_start();
    }
    Ok(found)
}

/// Levels, and the path of each node.
type Found = (Vec<String>, BTreeMap<String, Vec<String>>);

impl Reading<'_> {
    fn wrong(&self, line: u64, what: String) -> Error {
        Error::File { file: self.file.to_owned(), line, what }
    }

    fn expanded(&self, line: u64, list: &str) -> Result<Vec<String>> {
        hostlist::expand(list, MOST).map_err(|failure| {
            let what = match failure {
                HostlistError::Syntax => format!("`{list}` is no list of names, such as n[1-16,20]"),
                HostlistError::TooMany => format!("`{list}` stands for more than {MOST} names"),
            };
            self.wrong(line, what)
        })
    }

    fn line(&mut self, line: u64, content: &str) -> Result<()> {
        let pairs = pairs(content).map_err(|word| {
            let yaml = word.starts_with('-') || word.starts_with("topology");
            let form = if yaml { "topology.yaml is not read" } else { "no KEY=VALUE" };
            self.wrong(line, format!("`{}`: {form}; {REMEDY}", word.chars().take(60).collect::<String>()))
        })?;
        let mut part = Part { line, ..Part::default() };
        let (mut kind, mut has_nodes) = ("", false);
        for (key, value) in pairs {
            match key.as_str() {
                "switchname" | "blockname" | "aggregatedblock" if kind.is_empty() => {
                    kind = match key.as_str() {
                        "switchname" => "SwitchName",
                        "blockname" => "BlockName",
                        _ => "AggregatedBlock",
                    };
                    value.clone_into(&mut part.name);
                }
                "nodes" => {
                    has_nodes = true;
                    if value.eq_ignore_ascii_case("ALL") {
                        return Err(self.wrong(line, "`Nodes=ALL` does not say which: name them".to_owned()));
                    }
                    part.nodes = self.expanded(line, value)?;
                }
                "switches" => part.below = self.expanded(line, value)?,
                "blocksize" => part.size = value.parse().unwrap_or(0),
                "blocksizes" => {
                    let sizes: Option<Vec<u64>> =
                        value.split(',').map(|size| size.parse().ok().filter(|size| *size > 0)).collect();
                    let wrong = || self.wrong(line, format!("`{value}` are no numbers of nodes, such as 18,36,72"));
                    self.sizes = Some((line, sizes.ok_or_else(wrong)?));
                }
                passed if PASSED.contains(&passed) => {}
                other => {
                    let known = "SwitchName, Switches, Nodes, LinkSpeed, BlockName and BlockSizes";
                    return Err(
                        self.wrong(line, format!("`{other}` is no key that is read here; there are {known}; {REMEDY}"))
                    );
                }
            }
        }
        let name = part.name.clone();
        match kind {
            "SwitchName" | "BlockName" | "AggregatedBlock" if name.is_empty() => {
                Err(self.wrong(line, format!("{kind} names nothing; write {kind}=NAME")))
            }
            "SwitchName" if part.nodes.is_empty() && part.below.is_empty() => {
                Err(self.wrong(line, format!("switch {name} has no Nodes and no Switches; write one of them")))
            }
            "BlockName" if !has_nodes => Err(self.wrong(line, format!("block {name} has no Nodes; name them"))),
            "AggregatedBlock" if part.size == 0 => {
                Err(self.wrong(line, format!("AggregatedBlock={name} has no BlockSize above 0; {REMEDY_OF_BLOCKS}")))
            }
            "AggregatedBlock" => {
                part.below = self.expanded(line, &name)?;
                self.joined.push(part);
                Ok(())
            }
            "SwitchName" => self.put(part, true),
            "BlockName" => self.put(part, false),
            _ if !has_nodes && part.below.is_empty() => Ok(()),
            _ => {
                Err(self.wrong(line, "the line names no switch and no block; write SwitchName=NAME before".to_owned()))
            }
        }
    }

    fn put(&mut self, part: Part, is_switch: bool) -> Result<()> {
        if let Some(line) = self.known.insert(part.name.clone(), part.line) {
            let what = format!("{} was described in line {line}; give each its own name", part.name);
            return Err(self.wrong(part.line, what));
        }
        if is_switch {
            self.switches.push(part);
        } else {
            self.blocks.push(part);
        }
        Ok(())
    }

    /// The path of each node of `parts`, which lie in `paths`.
    fn nodes<'p>(&self, parts: impl Iterator<Item = (&'p Part, Vec<String>)>) -> Result<BTreeMap<String, Vec<String>>> {
        let mut of: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (part, path) in parts {
            for node in &part.nodes {
                if let Some(known) = of.insert(node.clone(), path.clone()) {
                    let other = known.last().map_or("", String::as_str);
                    let what = format!("node {node} lies in {other} already; a node lies in one place");
                    return Err(self.wrong(part.line, what));
                }
            }
        }
        Ok(of)
    }

    /// The levels of joined blocks as `scontrol` prints them, the narrowest first: of each what it is called, and the first of those that a block is joined with, for each block of the file. O(blocks × levels).
    fn printed(&self) -> Result<Vec<(String, Vec<String>)>> {
        let index: BTreeMap<&str, usize> =
            self.blocks.iter().enumerate().map(|(at, block)| (block.name.as_str(), at)).collect();
        let mut of_size: BTreeMap<u64, Vec<&Part>> = BTreeMap::new();
        for part in &self.joined {
            of_size.entry(part.size).or_default().push(part);
        }
        let mut before: Vec<String> = self.blocks.iter().map(|block| block.name.clone()).collect();
        let mut result = Vec::new();
        for (size, parts) in of_size {
            // Whom no one joins lies where it lay.
            let mut domains = before.clone();
            let mut in_line: Vec<Option<u64>> = vec![None; domains.len()];
            for part in parts {
                let Some(first) = part.below.first() else { continue };
                for name in &part.below {
                    let at = index.get(name.as_str()).copied().ok_or_else(|| {
                        let what = format!("block {name}, which is joined here, is not described; {REMEDY_OF_BLOCKS}");
                        self.wrong(part.line, what)
                    })?;
                    if let Some(line) = in_line.get_mut(at).and_then(|line| line.replace(part.line)) {
                        let what = format!(
                            "block {name} is joined to others of {size} nodes in line {line}, too; {REMEDY_OF_BLOCKS}"
                        );
                        return Err(self.wrong(part.line, what));
                    }
                    if let Some(domain) = domains.get_mut(at) {
                        domain.clone_from(first);
                    }
                }
            }
            // What is together in a smaller one stays together.
            let mut wider: BTreeMap<String, String> = BTreeMap::new();
            for ((inner, outer), line) in before.iter().zip(&domains).zip(&in_line) {
                if wider.insert(inner.clone(), outer.clone()).is_some_and(|other| other != *outer) {
                    let what = format!("what is joined with block {inner} is parted here; {REMEDY_OF_BLOCKS}");
                    return Err(self.wrong(line.unwrap_or(1), what));
                }
            }
            result.push((format!("block{size}"), domains.clone()));
            before = domains;
        }
        Ok(result)
    }

    fn in_blocks(&self) -> Result<Found> {
        // Who writes sizes has said all.
        if self.sizes.is_none() && !self.joined.is_empty() {
            let printed = self.printed()?;
            let path = |at: usize, block: &Part| {
                let wider = printed.iter().rev().filter_map(|(_, domains)| domains.get(at).cloned());
                wider.chain([block.name.clone()]).collect::<Vec<String>>()
            };
            let of = self.nodes(self.blocks.iter().enumerate().map(|(at, block)| (block, path(at, block))))?;
            let levels = printed.iter().rev().map(|(name, _)| name.clone()).chain(["block".to_owned()]);
            return Ok((levels.collect(), of));
        }
        let mut joined: Vec<(String, usize)> = Vec::new();
        if let Some((line, sizes)) = &self.sizes
            && let Some((base, wider)) = sizes.split_first()
        {
            let mut before = *base;
            for size in wider {
                if size % base != 0 || *size <= before {
                    let what = format!(
                        "a block of {size} nodes is not made of whole blocks of {base}, or no larger than the one before; write each as a multiple of the first, such as 18,36,72"
                    );
                    return Err(self.wrong(*line, what));
                }
                before = *size;
                joined.push((format!("block{size}"), (size / base) as usize));
            }
        }
        joined.reverse();
        let path = |(at, block): (usize, &Part)| {
            let wider = joined.iter().map(|(_, blocks)| {
                let first = at / blocks * blocks;
                self.blocks.get(first).map_or_else(String::new, |block| block.name.clone())
            });
            wider.chain([block.name.clone()]).collect::<Vec<String>>()
        };
        let of = self.nodes(self.blocks.iter().enumerate().map(|(at, block)| (block, path((at, block)))))?;
        Ok((joined.iter().map(|(name, _)| name.clone()).chain(["block".to_owned()]).collect(), of))
    }

    /// Checks that nodes of a switch above others are on leaves below it. `ways` are the leaves, with the switches above each.
    fn no_nodes_of_their_own(&self, ways: &[(&Part, Vec<usize>)]) -> Result<()> {
        let mut above: BTreeMap<&str, &[usize]> = BTreeMap::new();
        for (leaf, up) in ways {
            above.extend(leaf.nodes.iter().map(|node| (node.as_str(), up.as_slice())));
        }
        for (at, switch) in self.switches.iter().enumerate().filter(|(_, switch)| !switch.below.is_empty()) {
            let is_below = |node: &&String| above.get(node.as_str()).is_some_and(|up| up.contains(&at));
            if let Some(node) = switch.nodes.iter().find(|node| !is_below(node)) {
                let what = format!(
                    "node {node} of switch {} is on no switch below it; describe the switch that it is on, SwitchName=NAME Nodes={node}, and name that in Switches",
                    switch.name
                );
                return Err(self.wrong(switch.line, what));
            }
        }
        Ok(())
    }

    fn below_switches(&self) -> Result<Found> {
        let index: BTreeMap<&str, usize> =
            self.switches.iter().enumerate().map(|(at, switch)| (switch.name.as_str(), at)).collect();
        let mut above: Vec<Option<usize>> = vec![None; self.switches.len()];
        for (at, switch) in self.switches.iter().enumerate() {
            for name in &switch.below {
                let child = index.get(name.as_str()).copied().ok_or_else(|| {
                    let what = format!(
                        "switch {name}, which is to be below {}, is not described; add SwitchName={name}",
                        switch.name
                    );
                    self.wrong(switch.line, what)
                })?;
                let other = above.get_mut(child).and_then(|above| above.replace(at)).filter(|other| *other != at);
                if let Some(other) = other.and_then(|other| self.switches.get(other)) {
                    let what = format!(
                        "switch {name} is below {} and below {}; leave one, so that switches make a tree",
                        other.name, switch.name
                    );
                    return Err(self.wrong(switch.line, what));
                }
            }
        }
        // Those above a switch, itself first; too many steps are a circle.
        let way = |from: usize| {
            let mut way = vec![from];
            while let Some(up) = way.last().and_then(|at| above.get(*at).copied().flatten()) {
                if way.len() > DEEPEST {
                    return None;
                }
                way.push(up);
            }
            Some(way)
        };
        let mut ways = Vec::with_capacity(self.switches.len());
        let mut heights: Vec<usize> = vec![0; self.switches.len()];
        for (at, switch) in self.switches.iter().enumerate() {
            let up = way(at).ok_or_else(|| {
                self.wrong(
                    switch.line,
                    format!(
                        "switch {} is below itself, or below more than {DEEPEST} others; correct the Switches",
                        switch.name
                    ),
                )
            })?;
            if switch.below.is_empty() {
                for (steps, place) in up.iter().enumerate() {
                    if let Some(height) = heights.get_mut(*place) {
                        *height = (*height).max(steps + 1);
                    }
                }
                ways.push((switch, up));
            }
        }
        let highest = heights.iter().copied().max().unwrap_or(1);
        let name = |height: usize| match height {
            1 => LEAF.to_owned(),
            2 => "spine".to_owned(),
            3 => "core".to_owned(),
            _ => format!("tier{height}"),
        };
        let path = |up: &[usize]| {
            let at = |height: usize| {
                let reached = up.iter().rfind(|place| heights.get(**place).is_some_and(|known| *known <= height));
                reached
                    .and_then(|place| self.switches.get(*place))
                    .map_or_else(String::new, |switch| switch.name.clone())
            };
            (1..=highest).rev().map(at).collect::<Vec<String>>()
        };
        let of = self.nodes(ways.iter().map(|(switch, up)| (*switch, path(up))))?;
        self.no_nodes_of_their_own(&ways)?;
        Ok(((1..=highest).rev().map(name).collect(), of))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> NodePlaces {
        NodePlaces::of_slurm("topology.conf", text).unwrap()
    }

    fn path(places: &NodePlaces, node: &str) -> String {
        places.of.get(node).unwrap().join("/")
    }

    #[test]
    fn a_tree_of_switches_has_a_level_for_each_height() {
        let text = "# the site\nSwitchName=s0 Nodes=n[1-2]\nswitchname = s1 nodes = n[3-4] LinkSpeed=900\nSwitchName=mid \\\n  Switches=s[0-1] # both\nSwitchName=s2 Nodes=n5\nSwitchName=top Switches=mid,s2\n";
        let places = read(text);
        assert_eq!(places.levels, ["core", "spine", "leaf"]);
        assert_eq!([path(&places, "n1"), path(&places, "n4")], ["top/mid/s0", "top/mid/s1"]);
        // Above s2 there is no spine, so it stands for one.
        assert_eq!((path(&places, "n5"), places.of.len()), ("top/s2/s2".to_owned(), 5));
        // As scontrol prints the same.
        let printed = "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]\nSwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[3-4]\nSwitchName=mid Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[0-1]\nSwitchName=s2 Level=0 LinkSpeed=1 Nodes=n5\nSwitchName=top Level=2 LinkSpeed=1 Nodes=n[1-5] Switches=mid,s2\n";
        assert_eq!(read(printed), places);
        assert_eq!(read("SwitchName=s0 Nodes=n1").levels, ["leaf"]);
    }

    #[test]
    fn blocks_that_follow_each_other_are_joined() {
        let text = "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockName=b3 Nodes=n[9-12]\nBlockSizes=4,8\n";
        let places = read(text);
        assert_eq!(places.levels, ["block8", "block"]);
        assert_eq!([path(&places, "n4"), path(&places, "n5"), path(&places, "n9")], ["b1/b1", "b1/b2", "b3/b3"]);
        assert_eq!(read("BlockName=b1 Nodes=n[1-4]\nBlockSizes=4").levels, ["block"]);
    }

    #[test]
    fn joined_blocks_are_read_as_scontrol_prints_them() {
        let conf = "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockName=b3 Nodes=n[5-6]\nBlockName=b4 Nodes=n[7-8]\nBlockName=b5 Nodes=n[9-10]\nBlockSizes=2,4,8\n";
        let printed = "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2 \nBlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2 \nBlockName=b3 BlockIndex=2 Nodes=n[5-6] BlockSize=2 \nBlockName=b4 BlockIndex=3 Nodes=n[7-8] BlockSize=2 \nBlockName=b5 BlockIndex=4 Nodes=n[9-10] BlockSize=2 \nAggregatedBlock=b[1-2] BlockIndex=5 Nodes=n[1-4] BlockSize=4 \nAggregatedBlock=b[3-4] BlockIndex=6 Nodes=n[5-8] BlockSize=4 \nAggregatedBlock=b[1-4] BlockIndex=7 Nodes=n[1-8] BlockSize=8 \n";
        assert_eq!(read(printed), read(conf));
        assert_eq!([path(&read(printed), "n7"), path(&read(printed), "n9")], ["b1/b3/b4", "b5/b5/b5"]);
    }

    #[test]
    fn what_is_wrong_has_its_line_and_a_remedy() {
        let told = |text: &str| NodePlaces::of_slurm("t.conf", text).unwrap_err().to_string();
        for (text, line, what) in [
            ("", 1, "no SwitchName and no BlockName"),
            ("\nSwitchName=s0 Nodes=n[1-\n", 2, "such as n[1-16,20]"),
            ("SwitchName=s0 Nodes=n[1-99999999]", 1, "more than"),
            ("SwitchName=s0", 1, "no Nodes and no Switches"),
            ("SwitchName=", 1, "names nothing"),
            ("SwitchName=s0 Nodes=n1\nSwitchName=s0 Nodes=n2", 2, "line 1"),
            ("SwitchName=s0 Nodes=n1\nSwitchName=s1 Nodes=n1", 2, "node n1 lies in s0 already"),
            ("SwitchName=s0 Nodes=n1\nSwitchName=t Switches=s[0-1]", 2, "SwitchName=s1"),
            ("SwitchName=s0 Nodes=n1\nSwitchName=t Switches=s0\nSwitchName=u Switches=s0", 3, "make a tree"),
            ("SwitchName=a Switches=b\nSwitchName=b Switches=a", 1, "below itself"),
            ("SwitchName=s0 Nodes=ALL", 1, "name them"),
            ("Nodes=n1", 1, "SwitchName=NAME"),
            ("NodeName=n1 Gres=gpu:8", 1, "`nodename`"),
            ("- topology: tree", 1, "topology.yaml is not read"),
            ("SwitchName=s0 Nodes=n1\nBlockName=b Nodes=n2", 1, "leave either"),
            ("BlockName=b Nodes=n1\nBlockSizes=4,6", 2, "multiple of the first"),
            ("BlockName=b Nodes=n1\nBlockSizes=four", 2, "such as 18,36,72"),
            ("BlockName=b", 1, "has no Nodes"),
            ("SwitchName=s0 Nodes=n1\nSwitchName=t Switches=s0 Nodes=n[1-2]", 2, "node n2 of switch t"),
            (
                "SwitchName=s0 Nodes=n1\nSwitchName=s1 Nodes=n2\nSwitchName=t Switches=s0 Nodes=n2\nSwitchName=u Switches=s1",
                3,
                "node n2 of switch t",
            ),
            ("BlockName=b Nodes=n1\nAggregatedBlock=b Nodes=n1", 2, "no BlockSize"),
            ("BlockName=b Nodes=n1\nAggregatedBlock=b,c BlockSize=4", 2, "block c"),
            ("BlockName=b Nodes=n1\nAggregatedBlock=b BlockSize=4\nAggregatedBlock=b BlockSize=4", 3, "line 2"),
            (
                "BlockName=a Nodes=n1\nBlockName=b Nodes=n2\nBlockName=c Nodes=n3\nAggregatedBlock=a,b BlockSize=2\nAggregatedBlock=b,c BlockSize=4",
                5,
                "parted",
            ),
        ] {
            let message = told(text);
            assert!(message.contains(&format!("t.conf, line {line}")) && message.contains(what), "{text}: {message}");
        }
    }

    #[test]
    fn there_may_be_no_more_levels_than_a_topology_has() {
        let tower = |switches: usize| {
            let above = (1..switches).map(|at| format!("SwitchName=s{at} Switches=s{}\n", at - 1));
            ["SwitchName=s0 Nodes=n1\n".to_owned()].into_iter().chain(above).collect::<String>()
        };
        assert_eq!(read(&tower(7)).levels.first().map(String::as_str), Some("tier7"));
        for switches in [8, 40] {
            let message = NodePlaces::of_slurm("t.conf", &tower(switches)).unwrap_err().to_string();
            assert!(message.contains("t.conf, line 1") && !message.contains("cluster.toml"), "{message}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "((SwitchName|BlockName|AggregatedBlock|Nodes|Switches|BlockSizes|BlockSize|=|s[0-3]|n\\[1-3\\]|,|2|#|\\\\|\n| ){0,4}){0,12}") {
            if let Ok(places) = NodePlaces::of_slurm("t", &text) {
                prop_assert!(places.of.values().all(|path| path.len() == places.levels.len()));
            }
        }
    }
}
