//! One entry in the configuration of an MCP client, and the servers that it lists.
//!
//! The file is somebody else's: what is written or taken away is our entry, and every other byte stays.

use serde_json::{Value, json};

use super::json_text::{JsonFault, Layout, Node, inserted, made_of, read, spliced, without};

/// The member that lists servers, and our name in it.
const SERVERS: &str = "mcpServers";
/// What some clients call that member.
const OTHER_SERVERS: &str = "servers";
const NAME: &str = "countersign";

/// What a client calls the member that lists its servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListName {
    /// As most do.
    Usual,
    /// As VS Code does.
    Other,
}

impl ListName {
    const fn key(self) -> &'static str {
        match self {
            Self::Usual => SERVERS,
            Self::Other => OTHER_SERVERS,
        }
    }

    /// The list of servers in a file, whatever it is called there.
    fn find(root: &Node) -> Result<Option<&Node>, JsonFault> {
        match root.object(SERVERS)? {
            None => root.object(OTHER_SERVERS),
            found => Ok(found),
        }
    }
}

/// The text with our entry in it, in the list that is there or in a new one of this name.
pub(super) fn with_entry(text: &str, entry: &Value, list: ListName) -> Result<String, JsonFault> {
    if text.trim().is_empty() {
        return Ok(made_of(&json!({ list.key(): { NAME: entry } })));
    }
    let root = read(text)?;
    let Some(servers) = ListName::find(&root)? else {
        return Ok(inserted(text, &root, Some(list.key()), &json!({ NAME: entry })));
    };
    match servers.only(NAME)? {
        None => Ok(inserted(text, servers, Some(NAME), entry)),
        Some(found) if found.value.value(text).as_ref() == Some(entry) => Ok(text.to_owned()),
        Some(found) => {
            let layout = Layout::of(text, servers);
            Ok(spliced(text, found.value.span.clone(), &layout.value(entry)))
        }
    }
}

/// The text without our entry; none where it was made for it.
pub(super) fn without_entry(text: &str) -> Result<Option<String>, JsonFault> {
    if text.trim().is_empty() {
        return Ok(Some(text.to_owned()));
    }
    let root = read(text)?;
    let Some(servers) = ListName::find(&root)? else { return Ok(Some(text.to_owned())) };
    match servers.only(NAME)? {
        Some(found) => Ok(without(text, &found.span, &[servers, &root])),
        None => Ok(Some(text.to_owned())),
    }
}

/// An object that lists servers.
pub(super) struct ServerList {
    /// In what it lies, if not at the top.
    pub(super) within: String,
    pub(super) servers: Node,
}

/// The objects that list servers, in the text of any client that we know: `mcpServers` wherever it
/// stands, for all projects or for one, and what some clients call `servers`.
pub(super) fn server_lists(text: &str) -> Result<Vec<ServerList>, JsonFault> {
    let root = read(text)?;
    root.object(SERVERS)?;
    let mut lists = Vec::new();
    lists_in(&root, &[], &mut lists)?;
    Ok(lists)
}

fn lists_in(object: &Node, path: &[&str], lists: &mut Vec<ServerList>) -> Result<(), JsonFault> {
    const DEPTH_MAX: usize = 8;
    object.only(SERVERS)?;
    for member in object.members().iter().filter(|member| member.value.is_object()) {
        let named_otherwise = member.key == OTHER_SERVERS && matches!(path, [] | ["mcp"]);
        if member.key == SERVERS || named_otherwise {
            lists.push(ServerList { within: path.join(" "), servers: member.value.clone() });
        } else if path.len() < DEPTH_MAX {
            let deeper: Vec<&str> = path.iter().copied().chain([member.key.as_str()]).collect();
            lists_in(&member.value, &deeper, lists)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::json_text::plain;
    use super::*;

    fn with_entry(text: &str, entry: &Value) -> Result<String, JsonFault> {
        super::with_entry(text, entry, ListName::Usual)
    }

    fn entry() -> Value {
        json!({ "args": ["mcp"], "command": "/bin/countersign" })
    }

    const OURS: &str = r#"{"args":["mcp"],"command":"/bin/countersign"}"#;

    #[test]
    fn a_new_file_holds_our_entry_alone_and_goes_with_it() {
        let made = with_entry("", &entry()).unwrap();
        let expected = "{\n  \"mcpServers\": {\n    \"countersign\": {\n      \"args\": [\"mcp\"],\n      \
            \"command\": \"/bin/countersign\"\n    }\n  }\n}\n";
        assert_eq!(made, expected);
        assert_eq!(with_entry(&made, &entry()), Ok(made.clone()));
        assert_eq!(without_entry(&made), Ok(None));
    }

    /// Every byte that was there is there afterwards, and when the entry goes, the old text is back.
    #[test]
    fn whatever_else_is_in_a_file_stays_as_it_was() {
        let texts = [
            "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\", \"n\": 1.50 }\n  },\n  \"z\": [1,2], \"a\": null\n}\n",
            "{\"z\": \"a \\\" } , {\", \"mcpServers\": {\"other\":{}}}",
            "{\n\t\"mcpServers\": {\n\t\t\"a\": {}\n\t}\n}",
            "{\"mcpServers\":{\"\\u0063\":1},\"big\":123456789012345678901234567890}",
            "{\"mcpServers\": { }}\n",
            "{\"mcpServers\": {}, \"b\": 2}",
            "{}",
            "{ // none\n}\n",
            "// ours\n{\n  \"mcpServers\": {\n    // the first\n    \"a\": { \"command\": \"x\", }, // one\n    /* \"b\": {} */\n  },\n}\n",
        ];
        for text in texts {
            let made = with_entry(text, &entry()).unwrap();
            let value: Value = serde_json::from_str(&plain(&made)).unwrap();
            assert_eq!(value["mcpServers"]["countersign"], entry(), "{made}");
            assert_eq!(with_entry(&made, &entry()).unwrap(), made);
            assert_eq!(without_entry(&made), Ok(Some(text.to_owned())), "{made}");
            assert_eq!(without_entry(text), Ok(Some(text.to_owned())));
        }
    }

    #[test]
    fn servers_are_added_where_there_are_none() {
        let made = with_entry("{\"a\":1}", &entry()).unwrap();
        assert_eq!(made, format!("{{\"a\":1, \"mcpServers\": {{\"countersign\":{OURS}}}}}"));
    }

    #[test]
    fn a_list_of_servers_keeps_the_name_that_its_client_has_for_it() {
        let text = "{\"servers\": {\"a\": {}}, \"inputs\": []}";
        let made = with_entry(text, &entry()).unwrap();
        let value: Value = serde_json::from_str(&made).unwrap();
        assert_eq!(value["servers"]["countersign"], entry(), "{made}");
        assert_eq!(without_entry(&made), Ok(Some(text.to_owned())));
        let made = super::with_entry("", &entry(), ListName::Other).unwrap();
        assert_eq!(made.matches("servers").count(), 1, "{made}");
        assert_eq!(without_entry(&made), Ok(None));
    }

    #[test]
    fn an_older_entry_of_ours_is_replaced_where_it_stands() {
        let text = r#"{"mcpServers":{"countersign":{"command":"old"},"b":{}}}"#;
        let made = with_entry(text, &entry()).unwrap();
        assert_eq!(made, format!("{{\"mcpServers\":{{\"countersign\":{OURS},\"b\":{{}}}}}}"));
        assert_eq!(without_entry(&made).unwrap().unwrap(), "{\"mcpServers\":{\"b\":{}}}");
    }

    #[test]
    fn what_is_no_configuration_is_left_alone() {
        use JsonFault as F;
        for (text, fault) in [
            ("[]", F::NotAnObject),
            ("\"x\"", F::NotAnObject),
            ("{\"mcpServers\": []}", F::Wrong("mcpServers".into(), "an object")),
            ("{\"mcpServers\": {}, \"mcpServers\": {}}", F::Twice("mcpServers".into())),
            (
                "{\"mcpServers\": {\"countersign\":1,\"countersign\":2}}",
                F::Twice("countersign".into()),
            ),
        ] {
            assert_eq!(with_entry(text, &entry()), Err(fault), "{text}");
        }
        for text in ["{", "{} # comment", "\u{feff}{}", "{'a': 1}"] {
            assert!(matches!(with_entry(text, &entry()), Err(F::NotJson(_))), "{text}");
        }
    }
}
