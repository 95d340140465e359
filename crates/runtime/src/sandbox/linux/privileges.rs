//! Capabilities: what the process inside still needs, and what a tool of root may keep.

use rustix::io::{Errno, Result};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// What root needs to work on files of others and to run as others. All that reaches past the mounts
/// (by handles, devices, other processes) or past Landlock is left out.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Has the next program keep the right to mount: only a process inside can mount its `/proc`, and a
/// user other than root loses all rights with the program.
pub(super) fn hand_on_mounting() -> Result<()> {
    let mut sets = capabilities(None)?;
    sets.inheritable |= CapabilitySet::SYS_ADMIN;
    set_capabilities(None, sets)?;
    configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)
}

/// Gives up all capabilities but [`KEPT`], for this process and all that it starts.
pub(super) fn give_up() -> Result<()> {
    clear_ambient_capability_set()?;
    let ours = capabilities(None)?;
    // Root gets with each program whatever this set has.
    if rustix::process::geteuid().is_root() {
        for bit in 0..u64::BITS {
            let capability = CapabilitySet::from_bits_retain(1 << bit);
            match capability_is_in_bounding_set(capability) {
                Ok(true) if !KEPT.contains(capability) => {
                    remove_capability_from_bounding_set(capability)?;
                }
                Ok(_) => {}
                // The last one that the kernel knows was the one before.
                Err(Errno::INVAL) => break,
                Err(error) => return Err(error),
            }
        }
    }
    let kept = if rustix::process::geteuid().is_root() { KEPT } else { CapabilitySet::empty() };
    let permitted = ours.permitted & kept;
    set_capabilities(
        None,
        CapabilitySets { effective: permitted, permitted, inheritable: CapabilitySet::empty() },
    )
}
