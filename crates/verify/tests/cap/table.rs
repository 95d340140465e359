//! Archives built to attack, and what each is refused for.

use super::archive::{Entry, blocks, gzip, interop, members, sealed, tar};

/// A name, the bytes of a file, and why it is refused.
pub(crate) type Case = (&'static str, Vec<u8>, &'static str);

pub(crate) fn good() -> Vec<Entry> {
    let members = members(&interop("interop/small-normal.cap"));
    members.iter().map(|(name, data)| Entry::file(name, data)).collect()
}

/// The good archive with one more member behind the manifest.
fn with(entry: Entry) -> Vec<u8> {
    let mut entries = good();
    entries.insert(1, entry);
    gzip(&tar(&entries))
}

fn named(name: &[u8]) -> Vec<u8> {
    with(Entry { name: name.to_vec(), ..Entry::file("", b"x") })
}

fn extended(body: &[u8]) -> Entry {
    Entry::file("./PaxHeaders/x", body).kind(b'x')
}

fn names() -> Vec<Case> {
    let long = Entry::file(&"n".repeat(100), b"").over(345, "p".repeat(155).as_bytes());
    vec![
        ("upwards", named(b"../evil"), "member `../evil`: the name leads upwards with `..`"),
        ("absolute", named(b"/etc/passwd"), "member `/etc/passwd`: the name is absolute"),
        ("inner", named(b"a/../../b"), "member `a/../../b`: the name leads upwards with `..`"),
        ("dot", named(b"./x"), "member `./x`: the name has an empty step or a `.`"),
        ("slashes", named(b"a//b"), "member `a//b`: the name has an empty step or a `.`"),
        ("slash", named(b"dir/"), "member `dir/`: the name has an empty step or a `.`"),
        ("backslash", named(b"..\\x"), "member `..\\x`: the name holds a backslash"),
        (
            "line break",
            named(b"a\nb"),
            "member `a\nb`: the name holds a control character or one that cannot be seen",
        ),
        (
            "terminal",
            named(b"\x1b[2J"),
            "member `\u{1b}[2J`: the name holds a control character or one that cannot be seen",
        ),
        (
            "bidi",
            named("a\u{202e}b".as_bytes()),
            "member `a\u{202e}b`: the name holds a control character or one that cannot be seen",
        ),
        ("not text", named(b"a\xff"), "member `a\u{fffd}`: the name is not UTF-8"),
        ("empty", named(b""), "member ``: the name is empty"),
        ("long", with(long), "LONG"),
        ("twice", named(b"actions.json"), "member `actions.json` is there twice"),
        (
            "case",
            named(b"Manifest.JSON"),
            "member `Manifest.JSON` has the name of another member but for case or composition",
        ),
        (
            "composition",
            {
                let mut entries = good();
                entries.insert(1, Entry::file("caf\u{e9}", b""));
                entries.insert(2, Entry::file("cafe\u{301}", b""));
                gzip(&tar(&[&entries[..1], &entries[1..3]].concat()))
            },
            "COMPOSITION",
        ),
        ("hidden", with(Entry::file("x", b"").over(50, b"y")), "HIDDEN"),
    ]
}

fn kinds() -> Vec<Case> {
    let of = |kind| with(Entry::file("x", b"").kind(kind));
    vec![
        ("hard link", of(b'1'), "member `x` is a hard link, not a plain file"),
        ("symbolic link", of(b'2'), "member `x` is a symbolic link, not a plain file"),
        ("character device", of(b'3'), "member `x` is a character device, not a plain file"),
        ("block device", of(b'4'), "member `x` is a block device, not a plain file"),
        ("directory", of(b'5'), "member `x` is a directory, not a plain file"),
        ("pipe", of(b'6'), "member `x` is a pipe, not a plain file"),
        ("contiguous", of(b'7'), "member `x` is a contiguous file, not a plain file"),
        ("global", of(b'g'), "member `x` is a global extended header, not a plain file"),
        ("long name", of(b'L'), "member `x` is a long name in GNU's dialect, not a plain file"),
        ("long link", of(b'K'), "member `x` is a long name in GNU's dialect, not a plain file"),
        ("sparse", of(b'S'), "member `x` is a sparse file, not a plain file"),
        ("unknown", of(b'Z'), "member `x` is of no kind that is known, not a plain file"),
        (
            "target",
            with(Entry::file("x", b"").over(157, b"/etc/passwd")),
            "member `x` is a file with the target of a link, not a plain file",
        ),
    ]
}

fn headers() -> Vec<Case> {
    let size = |bytes: &[u8]| with(Entry::file("x", b"").over(124, bytes));
    let mut broken = tar(&good());
    let second = blocks(&good()[..1]).len();
    broken[second + 3] ^= 1;
    let mut padded = tar(&good());
    padded[second - 1] = 1;
    vec![
        ("path", with(extended(b"14 path=../x1\n")), "the extended header at byte AT sets `path`"),
        ("size", with(extended(b"11 size=99\n")), "the extended header at byte AT sets `size`"),
        (
            "link path",
            with(extended(b"14 linkpath=x\n")),
            "the extended header at byte AT sets `linkpath`",
        ),
        (
            "sparse map",
            with(extended(b"22 GNU.sparse.major=1\n")),
            "the extended header at byte AT sets `GNU.sparse.major`",
        ),
        ("not a record", with(extended(b"x")), "the extended header at byte AT cannot be read"),
        ("large", with(extended(&[b' '; 4096])), "the extended header at byte AT has 4096 bytes"),
        (
            "two extended",
            {
                let mut entries = good();
                entries.splice(1..1, [extended(b"11 mtime=1\n"), extended(b"11 mtime=1\n")]);
                gzip(&tar(&entries))
            },
            "the extended header at byte AT follows another one",
        ),
        (
            "extended alone",
            gzip(&tar(&[&good()[..1], &[extended(b"11 mtime=1\n")]].concat())),
            "the extended header at byte AT belongs to nothing",
        ),
        ("GNU", with(Entry::file("x", b"").over(257, b"ustar  \0")), "GNU"),
        ("magic", with(Entry::file("x", b"").over(257, b"mystar\0\0")), "MAGIC"),
        (
            "binary size",
            size(b"\x80\0\0\0\0\0\0\0\0\0\0\x01"),
            "the size of member `x` is a binary number",
        ),
        ("negative", size(&[0xff; 12]), "the size of member `x` is negative"),
        ("decimal", size(b"00000000009\0"), "the size of member `x` is no octal number"),
        ("blank", size(&[0; 12]), "the size of member `x` is no octal number"),
        ("endless", size(b"77777777777\0"), "the file ends within its last member"),
        ("checksum", gzip(&broken), "CHECKSUM"),
        ("padding", gzip(&padded), "the padding behind member `manifest.json` is not zero"),
    ]
}

fn ends() -> Vec<Case> {
    let body = blocks(&good());
    let zeros = |count: usize| [body.clone(), vec![0; count]].concat();
    let mut after = zeros(2048);
    let last = after.len() - 1;
    after[last] = 1;
    let mut between = zeros(1024);
    let last = between.len() - 1;
    between[last] = 1;
    vec![
        ("no end", gzip(&body), "the tar has no end: the two blocks of zeros are missing"),
        ("one block", gzip(&zeros(512)), "the tar does not end with two blocks of zeros"),
        ("part of a block", gzip(&zeros(1100)), "the file ends within its last block"),
        ("behind", gzip(&after), "AFTER"),
        ("between", gzip(&between), "AFTER"),
        ("long", gzip(&zeros(40_960)), "more than a record of zeros follows the end of the tar"),
    ]
}

fn streams() -> Vec<Case> {
    let good = gzip(&tar(&good()));
    let changed = |at: usize, byte: u8| {
        let mut file = good.clone();
        let place = if at < 100 { at } else { file.len() - (at - 100) };
        file[place] ^= byte;
        file
    };
    let and = |more: &[u8]| [good.as_slice(), more].concat();
    let half = good.len() / 2;
    let mut name = good.clone();
    name.splice(10..10, vec![b'n'; 300]);
    vec![
        ("nothing", Vec::new(), "not a gzip file"),
        ("text", b"hello, world".to_vec(), "not a gzip file"),
        ("header", good[..7].to_vec(), "the file ends within its gzip header"),
        ("half", good[..half].to_vec(), "the file ends within its compressed bytes"),
        ("trailer", good[..good.len() - 3].to_vec(), "the file ends within its gzip trailer"),
        ("second stream", and(&good), "SECOND"),
        ("four bytes", and(b"junk"), "TRAILING"),
        ("zeros", and(&[0; 100]), "TRAILING"),
        ("crc", changed(108, 1), "CRC"),
        ("length", changed(104, 1), "LENGTH"),
        (
            "extra field",
            changed(3, 4),
            "the gzip header has flags 0x0c: only a name and a comment may stand there",
        ),
        (
            "header checksum",
            changed(3, 2),
            "the gzip header has flags 0x0a: only a name and a comment may stand there",
        ),
        (
            "text flag",
            changed(3, 1),
            "the gzip header has flags 0x09: only a name and a comment may stand there",
        ),
        (
            "reserved flag",
            changed(3, 0x80),
            "the gzip header has flags 0x88: only a name and a comment may stand there",
        ),
        ("long name", name, "the gzip header's name is longer than 255 bytes"),
        (
            "deflate",
            {
                let mut file = good.clone();
                file[20..40].fill(0xff);
                file
            },
            "CORRUPT",
        ),
    ]
}

fn wholes() -> Vec<Case> {
    let zeros = vec![0; 96 << 20];
    let first = |name: &str| {
        let mut entries = good();
        entries.insert(0, Entry::file(name, b"{}"));
        gzip(&tar(&entries))
    };
    vec![
        ("bomb", with(Entry::file("x", &zeros)), "BOMB"),
        (
            "bomb of rows",
            {
                let mut entries = good();
                entries.last_mut().unwrap().data = vec![b' '; 96 << 20];
                gzip(&tar(&entries))
            },
            "BOMB",
        ),
        (
            "bomb of a manifest",
            gzip(&tar(&[Entry::file("manifest.json", &zeros)])),
            "member `manifest.json` has 100663296 bytes, at most 16777216 are read",
        ),
        ("bomb behind", gzip(&[tar(&good()), zeros.clone()].concat()), "LONG END"),
        (
            "shadow",
            first("x/manifest.json"),
            "the first member is `x/manifest.json`, not `manifest.json`",
        ),
        ("other first", first("a"), "the first member is `a`, not `manifest.json`"),
        ("empty", gzip(&tar(&[])), "the file is empty: there is no `manifest.json`"),
        (
            "stranger",
            named(b"notes.txt"),
            "member `notes.txt` is none of an agent's session: nothing in the file vouches for it",
        ),
    ]
}

/// A text of about `bytes` bytes: `piece` again and again with commas between.
fn repeated(open: &str, piece: &str, close: &str, bytes: usize) -> Vec<u8> {
    let count = (bytes - open.len() - close.len()) / (piece.len() + 1);
    let mut text = format!("{open}{piece}");
    for _ in 1..count {
        text.push(',');
        text.push_str(piece);
    }
    text.push_str(close);
    text.into_bytes()
}

/// Objects of one member, each in the one before, as deep as a document may be.
pub(crate) fn chain(depth: usize) -> String {
    format!("{}0{}", "{\"\":".repeat(depth), "}".repeat(depth))
}

/// The good archive with other bytes in one of its members.
fn instead(name: &str, data: Vec<u8>) -> Vec<u8> {
    let mut entries = good();
    entries.iter_mut().find(|entry| entry.name == name.as_bytes()).unwrap().data = data;
    gzip(&tar(&entries))
}

const MIB: usize = 1 << 20;

/// Manifests of ours that are small files and would become large trees.
fn manifests() -> Vec<Case> {
    let ours = |data: Vec<u8>| sealed(&vec![("manifest.json".to_owned(), data)]);
    let of = |open: &str, piece: &str, bytes: usize| ours(repeated(open, piece, "]}\n", bytes));
    let listed = r#"{"name":"a","sha256":"0","size":0}"#;
    let text = format!(r#"{{"countersign":"{}"}}"#, "x".repeat(15 * MIB));
    let open = r#"{"countersign":["#;
    vec![
        (
            "tree of a manifest, longer than any",
            of(open, "0", 48 * MIB),
            "member `manifest.json` has 50331646 bytes, at most 16777216 are read",
        ),
        (
            "tree of a manifest",
            of(open, "0", 15 * MIB),
            "`manifest.json` cannot be read: more than 100000 elements at line 1 column 800015",
        ),
        (
            "chains in a manifest",
            of(open, &chain(60), 15 * MIB),
            "`manifest.json` cannot be read: more than 100000 elements at line 1 column 1980316",
        ),
        (
            "small tree of a manifest",
            of(open, "0", MIB / 2),
            "`manifest.json` cannot be read: more than 100000 elements at line 1 column 143",
        ),
        (
            "members of a manifest",
            of(r#"{"countersign":{},"members":["#, listed, 3 * MIB),
            "`manifest.json`: /actions_count: missing",
        ),
        (
            "text of a manifest",
            ours(format!("{text}\n").into_bytes()),
            "`manifest.json` cannot be read: document of 15728658 bytes, the limit is 1048576 at line 1 column 1",
        ),
    ]
}

/// Other small files that would become large trees.
fn trees() -> Vec<Case> {
    let of = |name: &str, open: &str, piece: &str, close: &str, bytes: usize| {
        instead(name, repeated(open, piece, close, bytes))
    };
    let tree = |name: &str, piece: &str, bytes: usize| of(name, r#"{"x":["#, piece, "]}", bytes);
    let (deep, flat, small) = (chain(60), r#"{"":0}"#, 64 << 10);
    let records = repeated(r#"{"x":["#, &deep, "]}\n", 200 << 10).repeat(300);
    let (rows, levels) = ("row_archive/rows.json", "row_archive/merkle_levels.json");
    let leaf = format!("\"{}\"", "0".repeat(64));
    vec![
        (
            "tree of another's manifest",
            tree("manifest.json", "{}", MIB),
            "member `manifest.json` has 1048573 bytes, at most 65536 are read",
        ),
        (
            "chains in another's manifest",
            tree("manifest.json", &deep, small),
            "`manifest.json` has no `schema`",
        ),
        (
            "tree of a capsule",
            tree("agent_capsule.json", flat, MIB),
            "member `agent_capsule.json` has 1048572 bytes, at most 65536 are read",
        ),
        (
            "chains in a capsule",
            tree("agent_capsule.json", &deep, small),
            "`agent_capsule.json` has no `statement`",
        ),
        (
            "tree of a proof",
            tree("proof.json", flat, MIB),
            "member `proof.json` has 1048572 bytes, at most 65536 are read",
        ),
        (
            "tree of metadata",
            tree("run_metadata.json", flat, MIB),
            "member `run_metadata.json` has 1048572 bytes, at most 65536 are read",
        ),
        (
            "tree of a record",
            of("actions.jsonl", r#"{"x":["#, &deep, "]}\n", MIB),
            "`actions.jsonl`: one of its documents has more than 262144 bytes",
        ),
        (
            "trees of records",
            instead("actions.jsonl", records),
            "action 0 has more than 1024 objects and lists",
        ),
        (
            "empty records",
            instead("actions.jsonl", vec![b'\n'; 60 * MIB]),
            "`actions.jsonl`: it has more than 200000 actions",
        ),
        (
            "tree of an action",
            of("actions.json", r#"[{"x":["#, &deep, "]}]", MIB),
            "`actions.json`: one of its documents has more than 262144 bytes",
        ),
        (
            "empty actions",
            of("actions.json", "[", "{}", "]", 60 * MIB),
            "`actions.json`: it has more than 200000 actions",
        ),
        (
            "deep actions",
            of("actions.json", "[", &chain(500), "]", 60 * MIB),
            "`actions.json` action 0: (document): nesting deeper than 64 at line 1 column 257",
        ),
        (
            "rows",
            of(rows, "[", "[0]", "]", 60 * MIB),
            "`row_archive/rows.json`: one of its rows is none",
        ),
        (
            "columns",
            of(rows, "[[", "0", "]]", 60 * MIB),
            "`row_archive/rows.json`: one of its rows is none",
        ),
        (
            "leaves",
            of(levels, "[[", &leaf, "]]", 60 * MIB),
            "`row_archive/merkle_levels.json`: it has more than 200000 leaves",
        ),
    ]
}

/// All of them.
pub(crate) fn cases() -> Vec<Case> {
    [names(), kinds(), headers(), ends(), streams(), wholes(), manifests(), trees()].concat()
}
