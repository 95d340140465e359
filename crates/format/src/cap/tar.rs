//! One block of a tar: the header of a member.

use super::name::{NameFault, check_name};
use super::{BLOCK_BYTES, CapFault};

pub(super) type Block = [u8; BLOCK_BYTES];

const NAME: (usize, usize) = (0, 100);
const SIZE: (usize, usize) = (124, 12);
const CHECKSUM: (usize, usize) = (148, 8);
const KIND: usize = 156;
const LINK: (usize, usize) = (157, 100);
const MAGIC: (usize, usize) = (257, 8);
const PREFIX: (usize, usize) = (345, 155);

const USTAR: &[u8] = b"ustar\x0000";
const GNU: &[u8] = b"ustar  \0";
const OLD: &[u8] = &[0; 8];

/// What a header describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Header {
    /// A plain file.
    File { name: String, size: u64 },
    /// What is said of the next one beyond what its own header can say.
    Extended { size: u64 },
}

/// Takes a header apart.
pub(super) fn parse(block: &Block, offset: u64) -> Result<Header, CapFault> {
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    let stored = field(block, CHECKSUM);
    let own: u32 = stored.iter().map(|&byte| u32::from(byte)).sum();
    // The sum is taken with blanks in place of itself.
    if octal(stored).ok() != Some(u64::from(sum - own + 8 * u32::from(b' '))) {
        return Err(CapFault::HeaderChecksum(offset));
    }
    let prefix = match field(block, MAGIC) {
        USTAR => text(block, PREFIX, offset)?,
        OLD if field(block, PREFIX).iter().all(|&byte| byte == 0) => &[],
        GNU => return Err(CapFault::Dialect { offset, what: "GNU's, not POSIX's" }),
        _ => return Err(CapFault::Dialect { offset, what: "in no dialect that is known" }),
    };
    let bare = text(block, NAME, offset)?;
    let full = match prefix {
        [] => bare.to_vec(),
        _ => [prefix, b"/", bare].concat(),
    };
    let shown = String::from_utf8_lossy(&full).into_owned();
    let kind = block.get(KIND).copied().unwrap_or_default();
    let what = match kind {
        b'0' | 0 => "",
        b'x' => {
            let size = size(block, &shown)?;
            return Ok(Header::Extended { size });
        }
        other => kind_name(other),
    };
    if !what.is_empty() {
        return Err(CapFault::NotAFile { name: shown, what });
    }
    if !text(block, LINK, offset)?.is_empty() {
        return Err(CapFault::NotAFile { name: shown, what: "a file with the target of a link" });
    }
    let name = String::from_utf8(full)
        .map_err(|_| CapFault::Name { name: shown.clone(), fault: NameFault::NotUtf8 })?;
    let size = size(block, &shown)?;
    check_name(&name).map_err(|fault| CapFault::Name { name: shown, fault })?;
    Ok(Header::File { name, size })
}

const fn kind_name(kind: u8) -> &'static str {
    match kind {
        b'1' => "a hard link",
        b'2' => "a symbolic link",
        b'3' => "a character device",
        b'4' => "a block device",
        b'5' => "a directory",
        b'6' => "a pipe",
        b'7' => "a contiguous file",
        b'g' => "a global extended header",
        b'L' | b'K' => "a long name in GNU's dialect",
        b'S' => "a sparse file",
        _ => "of no kind that is known",
    }
}

fn field(block: &Block, (start, length): (usize, usize)) -> &[u8] {
    block.get(start..start + length).unwrap_or_default()
}

/// A text, behind which there is nothing else.
fn text(block: &Block, place: (usize, usize), offset: u64) -> Result<&[u8], CapFault> {
    let bytes = field(block, place);
    let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (text, rest) = bytes.split_at_checked(length).unwrap_or((bytes, &[]));
    match rest.iter().all(|&byte| byte == 0) {
        true => Ok(text),
        false => Err(CapFault::HiddenBytes(offset)),
    }
}

fn size(block: &Block, name: &str) -> Result<u64, CapFault> {
    octal(field(block, SIZE)).map_err(|what| CapFault::Size { name: name.to_owned(), what })
}

/// Octal digits, perhaps behind blanks, ended by blanks or zeros.
fn octal(bytes: &[u8]) -> Result<u64, &'static str> {
    const OTHER: &str = "no octal number";
    match bytes.first() {
        Some(0xff) => return Err("negative"),
        Some(0x80..) => return Err("a binary number"),
        Some(b'-') => return Err("negative"),
        _ => {}
    }
    let text = bytes.trim_ascii_start();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(digits).ok_or(OTHER)?;
    if digits.is_empty() || !rest.iter().all(|byte| matches!(byte, 0 | b' ')) {
        return Err(OTHER);
    }
    let mut value = 0u64;
    for digit in digits {
        match digit {
            b'0'..=b'7' => value = (value << 3) | u64::from(digit - b'0'),
            _ => return Err(OTHER),
        }
    }
    Ok(value)
}

/// The one header that a file of ours has for a member.
pub(super) fn plain(name: &str, size: u64) -> Option<Block> {
    let mut block = [0; BLOCK_BYTES];
    let (prefix, bare) = split(name)?;
    put(&mut block, NAME, bare.as_bytes());
    put(&mut block, PREFIX, prefix.as_bytes());
    put(&mut block, (100, 8), b"0000644\0");
    put(&mut block, (108, 8), b"0000000\0");
    put(&mut block, (116, 8), b"0000000\0");
    if size >= 1 << 33 {
        return None;
    }
    put(&mut block, SIZE, format!("{size:011o}\0").as_bytes());
    put(&mut block, (136, 12), b"00000000000\0");
    put(&mut block, CHECKSUM, b"        ");
    put(&mut block, (KIND, 1), b"0");
    put(&mut block, MAGIC, USTAR);
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    put(&mut block, CHECKSUM, format!("{sum:06o}\0 ").as_bytes());
    Some(block)
}

/// The name in the two fields that a header has for it.
fn split(name: &str) -> Option<(&str, &str)> {
    if name.len() <= NAME.1 {
        return Some(("", name));
    }
    let mut places = name.match_indices('/').map(|(at, _)| at);
    let at = places.rfind(|&at| at <= PREFIX.1 && name.len() - at - 1 <= NAME.1)?;
    Some((name.get(..at)?, name.get(at + 1..)?))
}

fn put(block: &mut Block, (start, length): (usize, usize), bytes: &[u8]) {
    let place = block.get_mut(start..start + length).unwrap_or_default();
    for (to, from) in place.iter_mut().zip(bytes) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_ours_says_what_it_was_made_of() {
        for name in ["manifest.json", &format!("{}/{}", "d".repeat(150), "f".repeat(100))] {
            let block = plain(name, 0o7654321).unwrap();
            let header = Header::File { name: name.to_owned(), size: 0o7654321 };
            assert_eq!(parse(&block, 0), Ok(header));
        }
        assert_eq!(plain(&"x".repeat(101), 0), None);
        assert_eq!(plain("x", 1 << 33), None);
    }

    #[test]
    fn sizes_are_octal_numbers_and_nothing_else() {
        assert_eq!(octal(b"00000000017\0"), Ok(15));
        assert_eq!(octal(b"         17 "), Ok(15));
        assert_eq!(octal(b"777777777777"), Ok((1 << 36) - 1));
        for wrong in [&b"\0\0\0\0"[..], b"0000018\0", b"0x17\0", b"17\x0017", b"", b"1 7 "] {
            assert_eq!(octal(wrong), Err("no octal number"), "{wrong:?}");
        }
        assert_eq!(octal(b"\x80\0\0\x01"), Err("a binary number"));
        assert_eq!(octal(b"\xff\xff\xff\xff"), Err("negative"));
        assert_eq!(octal(b"-0000001\0"), Err("negative"));
    }
}
