//! The loopback of a new network namespace, which starts switched off.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, sendto,
    socket_with,
};

/// `RTM_NEWLINK`: change a link.
const NEW_LINK: u16 = 16;
/// `NLM_F_REQUEST | NLM_F_ACK`: ask, and want an answer.
const ASK: u16 = 1 | 4;
/// `NLMSG_ERROR`: the answer, good or bad.
const ANSWER: u16 = 2;
/// `IFF_UP`.
const UP: u32 = 1;
/// Loopback is the first link of every namespace.
const LOOPBACK: u32 = 1;

/// Programs, above all tests, talk to themselves over it.
pub(super) fn bring_up() -> rustix::io::Result<()> {
    // Links are the first protocol of this family, which is the one without a number.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let kernel = netlink::SocketAddrNetlink::new(0, 0);
    sendto(&socket, &request(), SendFlags::empty(), &kernel)?;
    let mut answer = [0; 256];
    let (count, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    answer_of(answer.get(..count).unwrap_or_default())
}

/// A header of sixteen bytes and a link of sixteen.
fn request() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    bytes.extend(32_u32.to_ne_bytes());
    bytes.extend(NEW_LINK.to_ne_bytes());
    bytes.extend(ASK.to_ne_bytes());
    // Sequence number and sender.
    bytes.extend([0; 8]);
    // Family and kind.
    bytes.extend([0; 4]);
    bytes.extend(LOOPBACK.to_ne_bytes());
    // Flags, and which of them to change.
    bytes.extend(UP.to_ne_bytes());
    bytes.extend(UP.to_ne_bytes());
    bytes
}

fn answer_of(answer: &[u8]) -> rustix::io::Result<()> {
    let kind = answer.get(4..6).and_then(|kind| kind.try_into().ok()).map(u16::from_ne_bytes);
    let error = answer.get(16..20).and_then(|error| error.try_into().ok()).map(i32::from_ne_bytes);
    match (kind, error) {
        (Some(ANSWER), Some(0)) => Ok(()),
        (Some(ANSWER), Some(error)) => Err(Errno::from_raw_os_error(error.wrapping_neg())),
        _ => Err(Errno::PROTO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_answer_is_taken_for_what_it_is() {
        let mut answer = vec![0; 36];
        answer[4] = 2;
        assert_eq!(answer_of(&answer), Ok(()));
        answer[16..20].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert_eq!(answer_of(&answer), Err(Errno::PERM));
        assert_eq!(answer_of(&answer[..10]), Err(Errno::PROTO));
        assert_eq!(request().len(), 32);
    }
}
