CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- `bytes` and `mtime` (ns) are of the file when it was looked at, `settled` says whether a later
-- change must show in them. `read_to` is where the lines end that were taken in, `last_line` where
-- the last of them begins. `summary` is the summary as JSON, which new events are added to. `words`
-- is what a search looks in: title, task and agents, in lower case.
CREATE TABLE traces (
    id TEXT PRIMARY KEY,
    bytes INTEGER NOT NULL,
    mtime INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    read_to INTEGER NOT NULL,
    last_line INTEGER NOT NULL,
    kind TEXT,
    status TEXT,
    closed INTEGER NOT NULL,
    events INTEGER NOT NULL,
    head TEXT,
    first_at INTEGER,
    last_at INTEGER,
    title TEXT,
    unreadable TEXT,
    summary TEXT,
    words TEXT NOT NULL
) STRICT;

-- All that is needed to find what changed, without the pages of the rest.
CREATE INDEX traces_seen ON traces (id, bytes, mtime, settled);

-- The distinct artifacts of a trace, so that they can be counted as it grows.
CREATE TABLE trace_artifacts (
    trace TEXT NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (trace, hash)
) STRICT, WITHOUT ROWID;

-- Times are milliseconds since 1970.
CREATE TABLE work_items (
    id TEXT PRIMARY KEY,
    label TEXT,
    title TEXT NOT NULL,
    phase TEXT NOT NULL,
    blocked_from TEXT,
    holder TEXT,
    session_id TEXT,
    epoch INTEGER NOT NULL,
    expires_at INTEGER,
    phase_since INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    by_hand INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    pr_url TEXT,
    blocked_reason TEXT,
    clock_last INTEGER,
    clock_ahead INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX work_items_label ON work_items (label);
CREATE INDEX work_items_phase ON work_items (phase);

CREATE TABLE work_transitions (
    item TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    type TEXT NOT NULL,
    phase_before TEXT,
    phase_after TEXT NOT NULL,
    holder TEXT,
    epoch INTEGER,
    session_id TEXT,
    by_hand INTEGER NOT NULL,
    reason TEXT,
    PRIMARY KEY (item, seq)
) STRICT, WITHOUT ROWID;
