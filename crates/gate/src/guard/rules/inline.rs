//! Code on the command line: which of it plainly computes and prints, and nothing else.
//!
//! There is no end to the ways in which code does something, so what is not known to do nothing does
//! something. Only the two languages are read in which agents count and print things all day.

/// Whether code for `program` computes and prints, and nothing else.
pub(super) fn is_plain(program: &str, code: &str) -> bool {
    match program {
        program if program.starts_with("py") => is_plain_in(&PYTHON, code),
        "node" | "nodejs" | "bun" | "deno" => is_plain_in(&JAVASCRIPT, code),
        _ => false,
    }
}

/// What code of a language may name.
struct Language {
    /// Functions that it may call.
    calls: &'static [&'static str],
    /// Methods that it may call, of whatever.
    methods: &'static [&'static str],
    /// Names that lead to more than their own letters say.
    doors: &'static [&'static str],
    /// What may be imported.
    modules: &'static [&'static str],
}

static PYTHON: Language = Language {
    calls: &[
        "abs",
        "all",
        "any",
        "bool",
        "dict",
        "enumerate",
        "float",
        "hex",
        "int",
        "len",
        "list",
        "max",
        "min",
        "print",
        "range",
        "repr",
        "reversed",
        "round",
        "set",
        "sorted",
        "str",
        "sum",
        "tuple",
        "zip",
        "json.load",
        "json.loads",
        "json.dumps",
        "sys.stdin.read",
        "sys.stdin.readlines",
        "math.sqrt",
        "math.ceil",
        "math.floor",
        "math.log",
        "datetime.now",
        "datetime.datetime.now",
        "datetime.date.today",
        "platform.python_version",
        "time.time",
        "platform.platform",
        "platform.machine",
        "platform.system",
        "re.findall",
        "re.sub",
        "re.search",
        "re.match",
    ],
    methods: &[
        "get",
        "items",
        "keys",
        "values",
        "split",
        "splitlines",
        "strip",
        "rstrip",
        "lstrip",
        "join",
        "lower",
        "upper",
        "title",
        "startswith",
        "endswith",
        "replace",
        "count",
        "index",
        "find",
        "append",
        "isoformat",
        "strftime",
        "group",
        "groups",
        "total_seconds",
    ],
    doors: &[
        "open",
        "exec",
        "eval",
        "compile",
        "input",
        "globals",
        "locals",
        "vars",
        "getattr",
        "setattr",
        "delattr",
        "breakpoint",
        "map",
        "filter",
        "object",
        "type",
        "super",
        "modules",
        "from",
        "with",
        "class",
        "def",
        "lambda",
        "os",
        "subprocess",
        "shutil",
        "builtins",
        "path",
        "stdout",
        "stderr",
        "format",
    ],
    modules: &["json", "sys", "math", "datetime", "platform", "time", "re"],
};

static JAVASCRIPT: Language = Language {
    calls: &[
        "console.log",
        "console.error",
        "JSON.stringify",
        "JSON.parse",
        "Math.max",
        "Math.min",
        "Math.round",
        "Math.floor",
        "Math.ceil",
        "Math.sqrt",
        "Math.abs",
        "Math.pow",
        "Number",
        "String",
        "parseInt",
        "parseFloat",
        "Object.keys",
        "Object.entries",
        "Object.values",
        "Date.now",
        "Array.isArray",
    ],
    methods: &[
        "toFixed",
        "toString",
        "split",
        "join",
        "trim",
        "slice",
        "includes",
        "startsWith",
        "endsWith",
        "toUpperCase",
        "toLowerCase",
        "concat",
        "sort",
        "reverse",
        "indexOf",
        "flat",
    ],
    doors: &[
        "require",
        "import",
        "eval",
        "Function",
        "constructor",
        "globalThis",
        "global",
        "module",
        "exports",
        "this",
        "fs",
        "child_process",
        "Bun",
        "Deno",
        "fetch",
        "WebSocket",
        "window",
        "function",
        "class",
        "async",
        "await",
        "prototype",
        "env",
        "mainModule",
        "binding",
        "dlopen",
    ],
    modules: &[],
};

fn is_plain_in(language: &Language, code: &str) -> bool {
    let Some(code) = without_texts(code) else { return false };
    // What has no letters of its own may be anybody's; and so may what looks into objects.
    if !code.is_ascii() || code.contains("__") || code.contains(['`', '\\', '@', '#']) {
        return false;
    }
    let mut importing = false;
    let mut rest = &*code;
    while let Some(at) = rest.find(is_start) {
        let between = rest.get(..at).unwrap_or_default();
        importing &= !between.contains([';', '\n']);
        let from = rest.get(at..).unwrap_or_default();
        let length = from.find(|c: char| !is_start(c) && !c.is_ascii_digit() && c != '.');
        let (name, behind) = from.split_at(length.unwrap_or(from.len()));
        let of_value = between.trim_end().ends_with('.');
        if importing {
            if !language.modules.contains(&name) {
                return false;
            }
        } else if name == "import" && !language.modules.is_empty() {
            importing = true;
        } else if !language.may_name(name, of_value, behind.trim_start().starts_with('(')) {
            return false;
        }
        rest = behind;
    }
    // What is called, and is no name, is whatever was made just before.
    !code.contains(")(") && !code.contains("](") && !code.contains("] (") && !code.contains(") (")
}

impl Language {
    fn may_name(&self, name: &str, of_value: bool, called: bool) -> bool {
        let mut parts = name.split('.').filter(|part| !part.is_empty());
        if parts.any(|part| self.doors.contains(&part)) || name.starts_with("process.") && called {
            return false;
        }
        if !called || matches!(name, "if" | "in" | "not" | "and" | "or" | "for" | "while" | "else")
        {
            return true;
        }
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_method = of_value || name.starts_with('.') || name.contains('.');
        self.calls.contains(&name) || is_method && self.methods.contains(&last)
    }
}

const fn is_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// Code with every text in it empty; none if a text may hold code, or has no end.
fn without_texts(code: &str) -> Option<String> {
    let mut plain = String::with_capacity(code.len());
    let mut letters = code.chars();
    while let Some(letter) = letters.next() {
        if !matches!(letter, '\'' | '"') {
            plain.push(letter);
            continue;
        }
        // A letter before the quote makes another sort of text of it.
        if plain.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            return None;
        }
        plain.push_str("\"\"");
        loop {
            match letters.next()? {
                '\\' => drop(letters.next()),
                '\n' => return None,
                end if end == letter => break,
                _ => {}
            }
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_to_compute_and_print_is_plain() {
        for code in [
            "print(1 + 1)",
            "import json, sys; print(json.load(sys.stdin))",
            "import json,sys\nd=json.load(sys.stdin)\nprint(d['a'][0].get('open(x)'))",
            "import sys; print(sys.version)",
            "print(', '.join(sorted(str(x) for x in range(3))))",
        ] {
            assert!(is_plain("python3", code), "{code}");
        }
        for code in [
            "open('x','w').write('{}')",
            "o=open;o('x','w')",
            "sorted(['x'], key=exec)",
            "import os",
            "import json, os",
            "from os import system",
            "print(f'{open(1)}')",
            "(0).__class__",
            "import sys; sys.modules['os']",
            "[print][0]('x')",
            "import pathlib; pathlib.Path('x').write_text('')",
            "print('a' # b\n)",
            "exec\u{ff08}1)",
        ] {
            assert!(!is_plain("python3", code), "{code}");
        }
        for code in ["console.log(process.version)", "console.log(JSON.stringify({a: 1 + 2}))"] {
            assert!(is_plain("node", code), "{code}");
        }
        for code in [
            "require('fs').writeFileSync('.cl'+'aude/settings.json','{}')",
            "process.mainModule",
            "process.binding('fs')",
            "[].at.constructor('x')()",
            "console.log(`x`)",
            "import('fs')",
            "process['main' + 'Module']['requ' + 'ire']('fs')",
        ] {
            assert!(!is_plain("node", code), "{code}");
        }
        assert!(!is_plain("perl", "print 1"));
    }
}
