//! Logs and checkpoints that were kept elsewhere.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use countersign_format::note::{NOTE_BYTES_MAX, SignedNote};
use countersign_verify::{FileSource, open_regular, read_regular};

use crate::CommandError;

/// Adds a log or a checkpoint that was kept elsewhere. Of several logs the longest counts, and the
/// others must be what it begins with.
pub(crate) fn add_log(source: &mut FileSource, path: &Path) -> Result<(), CommandError> {
    let doing =
        |error| CommandError::failed_doing(format!("cannot read `{}`", path.display()), error);
    let mut file = open_regular(path).map_err(doing)?;
    let mut beginning = [0; 12];
    let length = file.read(&mut beginning).map_err(doing)?;
    if length == 0 {
        return Err(CommandError::failed(format!("`{}` is empty", path.display())));
    }
    if beginning.get(..length) == Some(b"countersign/") {
        // What somebody kept and names must be read; only the workspace's own may be torn.
        let bytes = read_regular(path, NOTE_BYTES_MAX as u64).map_err(doing)?;
        SignedNote::parse(&bytes).map_err(|error| {
            let doing = format!("`{}` is no checkpoint that can be read", path.display());
            CommandError::failed_doing(doing, error)
        })?;
        source.checkpoints.push(path.to_owned());
        return Ok(());
    }
    let Some(known) = source.log.take() else {
        source.log = Some(path.to_owned());
        return Ok(());
    };
    if beginning.first() != Some(&b'{') {
        let error = format!("`{}` is neither a log nor a checkpoint of one", path.display());
        return Err(CommandError::failed(error));
    }
    match first_difference(&known, path).map_err(doing)? {
        Difference::None | Difference::FirstIsLonger => source.log = Some(known),
        Difference::SecondIsLonger => source.log = Some(path.to_owned()),
        Difference::At(byte) => {
            let error = format!("the two logs contradict each other from byte {byte} on");
            return Err(CommandError::no(error).with_details([
                format!("one is `{}`", known.display()),
                format!("the other is `{}`", path.display()),
            ]));
        }
    }
    Ok(())
}

enum Difference {
    None,
    FirstIsLonger,
    SecondIsLonger,
    At(u64),
}

fn first_difference(first: &Path, second: &Path) -> std::io::Result<Difference> {
    let mut first = BufReader::new(open_regular(first)?);
    let mut second = BufReader::new(open_regular(second)?);
    let mut at = 0;
    loop {
        let (a, b) = (first.fill_buf()?, second.fill_buf()?);
        match (a.is_empty(), b.is_empty()) {
            (true, true) => return Ok(Difference::None),
            (false, true) => return Ok(Difference::FirstIsLonger),
            (true, false) => return Ok(Difference::SecondIsLonger),
            (false, false) => {}
        }
        let length = a.len().min(b.len());
        if let Some(place) = a.iter().zip(b).position(|(a, b)| a != b) {
            return Ok(Difference::At(at + place as u64));
        }
        first.consume(length);
        second.consume(length);
        at += length as u64;
    }
}
