//! `countersign verify` of a proof: of one event, or of equivocation.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use countersign_format::proof::{PROOF_BYTES_MAX, PROOF_PREFIX, PortableProof};
use countersign_verify::{
    FileSource, equivocation_exit_status, inclusion_exit_status, refuse_proof, render_equivocation,
    render_inclusion, verify_equivocation,
};

use super::logs::add_log;
use super::{VerifyArgs, exit, options};
use crate::{Caller, CommandError, DocumentSource, Exit, Format};

/// Whether `name` is a file that begins like a proof. Nothing that could block is opened.
pub(crate) fn is_proof(name: &str) -> bool {
    let path = Path::new(name);
    let mut beginning = [0; PROOF_PREFIX.len()];
    fs::metadata(path).is_ok_and(|data| data.is_file())
        && File::open(path).and_then(|mut file| file.read_exact(&mut beginning)).is_ok()
        && beginning == PROOF_PREFIX
}

pub(super) fn run(
    name: &str,
    args: &VerifyArgs,
    caller: &mut Caller,
) -> Result<Exit, CommandError> {
    let options = options(args, caller)?;
    let status = match read_proof(Path::new(name))? {
        Ok(PortableProof::Event(proof)) => {
            let mut kept = FileSource {
                events: PathBuf::from(name),
                log: None,
                checkpoints: Vec::new(),
                store: None,
            };
            for log in &args.log {
                add_log(&mut kept, log)?;
            }
            let report = countersign_verify::verify_proof(&proof, &kept, &options);
            let report = report.map_err(CommandError::failed)?;
            let status = inclusion_exit_status(&report);
            show(caller, &report, || render_inclusion(&report))?;
            status
        }
        Ok(PortableProof::Equivocation(proof)) => {
            let report = verify_equivocation(&proof, &options);
            let status = equivocation_exit_status(&report);
            show(caller, &report, || render_equivocation(&report))?;
            status
        }
        Err(fault) => {
            let report = refuse_proof(&fault, &options);
            show(caller, &report, || render_inclusion(&report))?;
            inclusion_exit_status(&report)
        }
    };
    Ok(exit(status))
}

/// Reads a proof, or says what is wrong with it.
pub(crate) fn read_proof(
    path: &Path,
) -> Result<Result<PortableProof, countersign_format::proof::NoProof>, CommandError> {
    let document = DocumentSource::File(path.to_owned()).read(PROOF_BYTES_MAX)?;
    Ok(PortableProof::read(&document.bytes))
}

fn show(
    caller: &mut Caller,
    report: &impl serde::Serialize,
    text: impl FnOnce() -> String,
) -> Result<(), CommandError> {
    match caller.output.format() {
        Format::Json => caller.output.json(report),
        Format::Text => caller.output.block(text()),
    }
}
