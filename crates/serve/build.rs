//! Lists the files of the page and of the second verifier, so that they are part of the program.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Where the files lie, and under which path they are served.
const PLACES: [(&str, &str); 2] =
    [("../../web/viewer", "/viewer"), ("../../web/verifier", "/verifier")];
/// What a browser is given.
const EXTENSIONS: [&str; 4] = ["css", "html", "mjs", "svg"];
/// The shell around the verifier for Node.
const NOT_FOR_BROWSERS: &str = "cli.mjs";

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let mut list = "[\n".to_owned();
    for (dir, served) in PLACES {
        let dir = root.join(dir).canonicalize()?;
        println!("cargo::rerun-if-changed={}", dir.display());
        for name in names(&dir)? {
            let file = dir.join(&name);
            let _ =
                writeln!(list, "    ({:?}, include_bytes!({file:?})),", format!("{served}/{name}"));
        }
    }
    list.push_str("]\n");
    fs::write(out.join("assets.in"), list)
}

fn names(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let known = name.rsplit_once('.').is_some_and(|(_, it)| EXTENSIONS.contains(&it));
        if known && name != NOT_FOR_BROWSERS {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}
