//! What isolation a tool has: the value that a start event records.

use serde::Serialize;

/// A variant for each word, which is what is recorded and shown.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// The word that is recorded.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// How much of a sandbox there is, weakest first.
    Level {
        /// Limits, and a session of its own.
        None = "none",
        /// Writes only where allowed; store and keys cannot be read.
        Files = "files",
        /// The same, and no network unless granted, no view of other processes, no survivors.
        Full = "full",
    }
}

impl Level {
    /// The level that a word names.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::None, Self::Files, Self::Full].into_iter().find(|level| level.as_str() == word)
    }
}

words! {
    /// What keeps a tool from writing elsewhere.
    FileConfinement {
        /// Nothing.
        Open = "open",
        /// Landlock of a kernel on which `truncate` escapes it.
        LandlockPartial = "landlock-partial",
        /// Landlock.
        Landlock = "landlock",
        /// Everything else is mounted read-only.
        Mounts = "mounts",
        /// Both.
        MountsLandlock = "mounts+landlock",
        /// No program runs: the recorder opens one file beneath the root without following links.
        Beneath = "beneath",
    }
}

words! {
    /// How store or keys are kept from a tool.
    Concealment {
        /// They are not.
        Open = "open",
        /// No file can be read or written; names can be listed.
        Unreadable = "unreadable",
        /// They are not there.
        Hidden = "hidden",
    }
}

words! {
    /// What network a tool has.
    NetworkReach {
        /// All that the recorder has, because nothing stronger was to be had.
        Open = "open",
        /// All but TCP.
        TcpBlocked = "tcp-blocked",
        /// All that the recorder has, because the task grants it.
        Granted = "granted",
        /// A loopback of its own.
        Private = "private",
        /// None is used: no program runs.
        Unused = "unused",
    }
}

words! {
    /// How the processes of a call are found when it ends.
    ProcessScope {
        /// By process group.
        Group = "group",
        /// By descent; one that goes to lengths to be forgotten may be.
        Descendants = "descendants",
        /// By namespace: none can leave.
        Namespace = "namespace",
        /// There are none.
        Unused = "unused",
    }
}

words! {
    /// What is limited.
    LimitSet {
        /// Time and the bytes that are kept of each output.
        TimeOutput = "time+output",
        /// The same, and memory per process.
        TimeOutputMemory = "time+output+memory",
        /// The size of the file.
        Size = "size",
    }
}

/// What isolation a call has. One object in the event that records the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Isolation {
    /// The sum of the rest.
    pub level: Level,
    /// What keeps it from writing elsewhere.
    pub files: FileConfinement,
    /// How the workspace's store is kept from it.
    pub store: Concealment,
    /// How the keys are kept from it.
    pub keys: Concealment,
    /// What network it has.
    pub network: NetworkReach,
    /// How its processes are found when it ends.
    pub processes: ProcessScope,
    /// What is limited.
    pub limits: LimitSet,
    /// Why something stronger was not to be had, and what that costs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

impl Isolation {
    /// Of the tools that open one file by themselves.
    #[must_use]
    pub const fn of_file_tools() -> Self {
        Self {
            level: Level::Full,
            files: FileConfinement::Beneath,
            store: Concealment::Hidden,
            keys: Concealment::Hidden,
            network: NetworkReach::Unused,
            processes: ProcessScope::Unused,
            limits: LimitSet::Size,
            missing: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_isolation_is_recorded_as_one_object_of_words() {
        let isolation = Isolation {
            level: Level::Files,
            files: FileConfinement::Landlock,
            store: Concealment::Unreadable,
            keys: Concealment::Unreadable,
            network: NetworkReach::TcpBlocked,
            processes: ProcessScope::Descendants,
            limits: LimitSet::TimeOutputMemory,
            missing: vec!["namespaces: operation not permitted".to_owned()],
        };
        let expected = r#"{"level":"files","files":"landlock","store":"unreadable","keys":"unreadable","network":"tcp-blocked","processes":"descendants","limits":"time+output+memory","missing":["namespaces: operation not permitted"]}"#;
        assert_eq!(serde_json::to_string(&isolation).unwrap(), expected);
    }

    #[test]
    fn levels_are_ordered_and_named() {
        assert!(Level::None < Level::Files && Level::Files < Level::Full);
        for level in [Level::None, Level::Files, Level::Full] {
            assert_eq!(Level::parse(level.as_str()), Some(level));
        }
        assert_eq!(Level::parse("most"), None);
    }
}
