//! Why some bytes are no `.cap` file.

use std::io;

use super::name::NameFault;

/// What can go wrong while a file is read.
#[derive(Debug, thiserror::Error)]
pub enum CapError {
    /// The bytes could not be had.
    #[error("the file could not be read: {0}")]
    Io(#[from] io::Error),
    /// The bytes are not such a file.
    #[error(transparent)]
    Refused(#[from] CapFault),
}

impl From<CapError> for io::Error {
    fn from(error: CapError) -> Self {
        match error {
            CapError::Io(error) => error,
            CapError::Refused(fault) => Self::new(io::ErrorKind::InvalidData, fault),
        }
    }
}

/// What is wrong with a container. Names are as they were found: escape them before they are shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CapFault {
    /// Another sort of file.
    #[error("not a gzip file")]
    NotGzip,
    /// A gzip header that says more than it may.
    #[error("the gzip header has flags {0:#04x}: only a name and a comment may stand there")]
    GzipFlags(u8),
    /// A text of the gzip header does not end.
    #[error("the gzip header's {0} is longer than 255 bytes")]
    GzipText(&'static str),
    /// The file ends in the middle.
    #[error("the file ends within its {0}")]
    Truncated(&'static str),
    /// The compressed bytes mean nothing.
    #[error("the compressed bytes cannot be inflated after {inflated} bytes")]
    Corrupt {
        /// Bytes that could be.
        inflated: u64,
    },
    /// The checksum is another.
    #[error("the gzip checksum is {stated:08x}, computed {computed:08x}")]
    Checksum {
        /// What the file says.
        stated: u32,
        /// What its bytes give.
        computed: u32,
    },
    /// The length is another.
    #[error("the gzip length is {stated}, {computed} bytes were inflated")]
    Length {
        /// What the file says.
        stated: u32,
        /// What there is, modulo 2^32.
        computed: u32,
    },
    /// The seal in the gzip header is not that of the bytes behind it.
    #[error("the seal in the gzip header is {stated}, the bytes behind it hash to {computed}")]
    Seal {
        /// What the header says.
        stated: String,
        /// What the bytes give.
        computed: String,
    },
    /// A second gzip stream.
    #[error("a second gzip member follows the first one, at byte {0}")]
    SecondStream(u64),
    /// Something behind the gzip stream.
    #[error("bytes follow the gzip stream, from byte {0} on")]
    TrailingBytes(u64),
    /// It grows out of all proportion.
    #[error("{inflated} bytes come out of {consumed}: this is a bomb")]
    Bomb {
        /// Bytes inflated.
        inflated: u64,
        /// Bytes read for them.
        consumed: u64,
    },
    /// A header whose checksum is wrong.
    #[error("the tar header at byte {0} has a wrong checksum")]
    HeaderChecksum(u64),
    /// A header in a dialect that is not read.
    #[error("the tar header at byte {offset} is {what}")]
    Dialect {
        /// Where.
        offset: u64,
        /// Which.
        what: &'static str,
    },
    /// A size that is no octal number.
    #[error("the size of member `{name}` is {what}")]
    Size {
        /// The member.
        name: String,
        /// What it is instead.
        what: &'static str,
    },
    /// Something in a header that nobody would see.
    #[error("the tar header at byte {0} has bytes behind the end of a text")]
    HiddenBytes(u64),
    /// Not a plain file.
    #[error("member `{name}` is {what}, not a plain file")]
    NotAFile {
        /// The member.
        name: String,
        /// What it is.
        what: &'static str,
    },
    /// An extended header that would change what the member is.
    #[error("the extended header at byte {offset} {what}")]
    Extended {
        /// Where.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A name that could lead elsewhere, or hide.
    #[error("member `{name}`: the name {fault}")]
    Name {
        /// The name, as far as it is text.
        name: String,
        /// What is wrong with it.
        fault: NameFault,
    },
    /// The same name again.
    #[error("member `{0}` is there twice")]
    Duplicate(String),
    /// The same name but for case or composition.
    #[error("member `{0}` has the name of another member but for case or composition")]
    FoldedDuplicate(String),
    /// A first member that cannot be read, or is another.
    #[error("{0}")]
    Manifest(String),
    /// Something where there must be zeros.
    #[error("the padding behind member `{0}` is not zero")]
    Padding(String),
    /// One block of zeros instead of two.
    #[error("the tar does not end with two blocks of zeros")]
    ShortEnd,
    /// No end at all.
    #[error("the tar has no end: the two blocks of zeros are missing")]
    NoEnd,
    /// Something behind the end.
    #[error("data follows the end of the tar, at byte {0}")]
    AfterEnd(u64),
    /// Zeros without end.
    #[error("more than a record of zeros follows the end of the tar")]
    LongEnd,
    /// Too many members.
    #[error("more than {0} members")]
    TooManyMembers(usize),
    /// A member that is too large.
    #[error("member `{name}` has {size} bytes, at most {max} are read")]
    MemberTooLong {
        /// The member.
        name: String,
        /// Its size.
        size: u64,
        /// How much it may have.
        max: u64,
    },
}
