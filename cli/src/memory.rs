//! Ends the program with a sentence where a query takes more memory than there is: the engine has no bound, and where an allocation fails the
//! process is gone without a word.
//!
//! The bound is three quarters of what is free when the query begins: of the machine, of its control group, and of the address space that the shell allows
//! (`ulimit -v`), each as Linux tells it. Elsewhere there is none.
//!
//! Worked example: with 20 GiB available the query may add 15 GiB; a cross join that wants 60 ends after a few seconds, with exit code 1.

use std::fs::read_to_string;
use std::io::Write as _;
use std::time::Duration;

use tracecast_analytics::report::format;
use tracecast_analytics::storage::Unfinished;

/// Time between two looks.
const EVERY: Duration = Duration::from_millis(10);

/// Memory that the process holds: memory that no file backs, and address space, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    anonymous: u64,
    address_space: u64,
}

/// The amount in kB behind `key` in a table as those of `/proc`, in bytes.
fn amount(table: &str, key: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()?.saturating_mul(1024))
}

fn held() -> Option<Held> {
    let status = read_to_string("/proc/self/status").ok()?;
    Some(Held { anonymous: amount(&status, "RssAnon")?, address_space: amount(&status, "VmSize")? })
}

/// Bytes that are free for this process: of the machine and of its control group.
fn free() -> Option<u64> {
    let machine = amount(&read_to_string("/proc/meminfo").ok()?, "MemAvailable")?;
    let bytes = |file: &str| read_to_string(format!("/sys/fs/cgroup/{file}")).ok()?.trim().parse::<u64>().ok();
    let group = bytes("memory.max").zip(bytes("memory.current")).map(|(most, now)| most.saturating_sub(now));
    Some(group.map_or(machine, |group| group.min(machine)))
}

/// Most address space that the shell allows; `None` if it sets no limit.
fn most_address_space() -> Option<u64> {
    let limits = read_to_string("/proc/self/limits").ok()?;
    limits.lines().find_map(|line| line.strip_prefix("Max address space"))?.split_whitespace().next()?.parse().ok()
}

/// The bound: what the process may hold, from what it holds now and what is free.
fn bound(now: Held, free: u64, most_address_space: Option<u64>) -> Held {
    let more = |free: u64| free / 4 * 3;
    let space = most_address_space
        .map_or(u64::MAX, |most| now.address_space.saturating_add(more(most.saturating_sub(now.address_space))));
    Held { anonymous: now.anonymous.saturating_add(more(free)), address_space: space }
}

/// Watches what the process takes from now on; `remedy` is what to do where it is too much.
pub(crate) fn watch(what: &'static str, remedy: &'static str) {
    let Some((now, free)) = held().zip(free()) else { return };
    let bound = bound(now, free, most_address_space());
    let watch = move || {
        while let Some(held) = held() {
            if held.anonymous > bound.anonymous || held.address_space > bound.address_space {
                Unfinished::remove_all();
                let taken = format::bytes(held.anonymous);
                // If stderr is gone, there is nobody left to tell.
                let _ = writeln!(
                    std::io::stderr().lock(),
                    "tracecast: {what} holds {taken} of memory, more than three quarters of what was free; {remedy}"
                );
                #[expect(clippy::exit, reason = "the main thread waits for the engine, which nothing stops")]
                std::process::exit(1);
            }
            std::thread::sleep(EVERY);
        }
    };
    // Without a thread there is no bound, as on other systems.
    let _ = std::thread::Builder::new().name("memory".to_owned()).spawn(watch);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        const GIB: u64 = 1 << 30;
        let now = Held { anonymous: GIB, address_space: 2 * GIB };
        assert_eq!(bound(now, 20 * GIB, None), Held { anonymous: 16 * GIB, address_space: u64::MAX });
        assert_eq!(bound(now, 20 * GIB, Some(6 * GIB)).address_space, 5 * GIB);
        assert_eq!(bound(now, 0, Some(GIB)).address_space, 2 * GIB);
        let table = "VmSize:\t  123 kB\nRssAnon:\t 4 kB\n";
        assert_eq!((amount(table, "RssAnon"), amount(table, "VmRSS")), (Some(4096), None));
    }
}
