//! Calls of tools as nearly every client writes them, read in one pass.
//!
//! The library reads a message by trying one sort of request after the other, which takes longer than
//! most of what a call does. What is not written in just this way is left to it; what is comes out the
//! same.

use std::fmt;
use std::marker::PhantomData;

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, Extensions, JsonObject, JsonRpcMessage,
    RequestId, RequestMetaObject,
};
use rmcp::service::RxJsonRpcMessage;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainCall<'l> {
    jsonrpc: &'l str,
    id: RequestId,
    method: &'l str,
    params: Members<PlainParams>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainParams {
    name: String,
    arguments: JsonObject,
    #[serde(rename = "_meta")]
    meta: Option<JsonObject>,
}

/// Something that is written as an object. By itself, the same would be read from a list as well.
struct Members<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Members<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members))
            }
        }
        deserializer.deserialize_map(Object(PhantomData)).map(Self)
    }
}

/// The call in a line, if it is written plainly.
pub(crate) fn read(line: &[u8]) -> Option<RxJsonRpcMessage<RoleServer>> {
    let Members(call) = serde_json::from_slice::<Members<PlainCall<'_>>>(line).ok()?;
    if (call.jsonrpc, call.method) != ("2.0", "tools/call") {
        return None;
    }
    let Members(PlainParams { name, arguments, meta }) = call.params;
    let params = CallToolRequestParams::new(name).with_arguments(arguments);
    let mut request = CallToolRequest::new(params);
    if let Some(meta) = meta {
        let mut extensions = Extensions::new();
        extensions.insert(RequestMetaObject::from(meta));
        request.extensions = extensions;
    }
    Some(JsonRpcMessage::request(ClientRequest::CallToolRequest(request), call.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_the_library(line: &str) -> Option<String> {
        let message = serde_json::from_str::<RxJsonRpcMessage<RoleServer>>(line);
        message.ok().map(|message| format!("{message:?}"))
    }

    fn here(line: &str) -> Option<String> {
        read(line.as_bytes()).map(|message| format!("{message:?}"))
    }

    #[test]
    fn a_plain_call_is_what_the_library_reads_in_it() {
        for params in [
            r#"{"name":"capseal_gate","arguments":{}}"#,
            r#"{"arguments":{"a":[1,-2,3.5,1e3,18446744073709551615,null,true]},"name":"x\n\u00e9"}"#,
            r#"{"name":"x","arguments":{"a":1,"b":2,"a":{"c":"\"\u2028"}}}"#,
            r#"{"name":"x","arguments":{},"_meta":{"progressToken":7}}"#,
            r#"{"name":"x","arguments":{},"_meta":{}}"#,
            r#"{"name":"x","arguments":{},"_meta":null}"#,
        ] {
            for id in ["1", "-1", "\"a\""] {
                let line = format!(
                    r#"{{"method":"tools/call","jsonrpc":"2.0","params":{params},"id":{id}}}"#
                );
                assert!(here(&line).is_some(), "{line}");
                assert_eq!(here(&line), by_the_library(&line), "{line}");
            }
        }
    }

    #[test]
    fn everything_else_is_left_to_the_library() {
        let params = r#""params":{"name":"x","arguments":{}}"#;
        for line in [
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"prompts/get",{params}}}"#),
            format!(r#"{{"jsonrpc":"1.0","id":1,"method":"tools/call",{params}}}"#),
            format!(r#"{{"jsonrpc":"2.0","method":"tools/call",{params}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":null,"method":"tools/call",{params}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call",{params}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","result":{{}},{params}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call",{params}}} x"#),
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":[]}}"#
                .to_owned(),
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{},"task":{}}}"#
                .to_owned(),
            r#"["2.0",1,"tools/call",{"name":"x","arguments":{}}]"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["x",{},null]}"#.to_owned(),
            String::new(),
        ] {
            assert_eq!(here(&line), None, "{line}");
        }
    }
}
