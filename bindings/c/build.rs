//! Gives the shared library its soname: programs find `libcommonhold.so.0` again, whatever the
//! version behind it. The library stays loaded: it installs handlers of signals and forks.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcommonhold.so.0");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
