#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| countersign_fuzzed::check("mcp_call", data));
