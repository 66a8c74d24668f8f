//! Strips symbols from the command. Cargo takes `strip` of a profile back for a package that has a line of its own in it, as this one has for its
//! `opt-level`; without them the program is 71 MB smaller.
#![allow(clippy::print_stdout, reason = "so a build script tells cargo what to do")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("PROFILE", "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
}
