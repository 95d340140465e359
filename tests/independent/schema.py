"""Checks documents against the JSON Schemas of docs/formats/schemas, with the standard library alone.

usage: schema.py SCHEMA_DIR < cases.jsonl

A case is {"schema": NAME, "document": VALUE, "valid": BOOLEAN, "name": TEXT}. Prints every case on which the
schema says otherwise and exits 1 if there was one. Only the keywords that our schemas use are known; any other
one is an error, so that none is ignored by accident.
"""

import json
import pathlib
import re
import sys

ANNOTATIONS = {"$id", "$schema", "title", "description", "contentEncoding"}
TYPES = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "integer": lambda value: TYPES["number"](value) and value == int(value),
}


def same(left, right):
    return type(left) is type(right) and left == right


def holds(schema, value):
    known = set(ANNOTATIONS) | {"if", "then"}
    for keyword, wanted in schema.items():
        if keyword in known:
            continue
        if keyword == "type":
            fine = TYPES[wanted](value)
        elif keyword == "const":
            fine = same(value, wanted)
        elif keyword == "enum":
            fine = any(same(value, one) for one in wanted)
        elif keyword == "pattern":
            # `$` of JSON Schema is the very end; in Python it may stand before a last line break.
            fine = not isinstance(value, str) or re.search(wanted.replace("$", r"\Z"), value)
        elif keyword == "minLength":
            fine = not isinstance(value, str) or len(value) >= wanted
        elif keyword == "maxLength":
            fine = not isinstance(value, str) or len(value) <= wanted
        elif keyword == "minimum":
            fine = not TYPES["number"](value) or value >= wanted
        elif keyword == "maximum":
            fine = not TYPES["number"](value) or value <= wanted
        elif keyword == "items":
            fine = not isinstance(value, list) or all(holds(wanted, element) for element in value)
        elif keyword == "required":
            fine = not isinstance(value, dict) or all(name in value for name in wanted)
        elif keyword == "properties":
            fine = not isinstance(value, dict) or all(
                holds(inner, value[name]) for name, inner in wanted.items() if name in value
            )
        elif keyword == "additionalProperties":
            others = set(value) - set(schema.get("properties", {})) if isinstance(value, dict) else []
            fine = all(wanted is not False and holds(wanted, value[name]) for name in others)
        elif keyword == "anyOf":
            fine = any(holds(inner, value) for inner in wanted)
        elif keyword == "allOf":
            fine = all(holds(inner, value) for inner in wanted)
        else:
            raise SystemExit(f"unknown keyword `{keyword}`")
        if not fine:
            return False
    return "if" not in schema or not holds(schema["if"], value) or holds(schema["then"], value)


def main():
    directory = pathlib.Path(sys.argv[1])
    schemas, cases, wrong = {}, 0, 0
    for line in sys.stdin:
        case = json.loads(line)
        name = case["schema"]
        if name not in schemas:
            schemas[name] = json.loads((directory / f"{name}.schema.json").read_text(encoding="utf-8"))
        cases += 1
        if bool(holds(schemas[name], case["document"])) != case["valid"]:
            wrong += 1
            print(f"{name}: {case['name']}: the schema says {'invalid' if case['valid'] else 'valid'}")
    print(f"{cases} cases, {wrong} wrong")
    return 1 if wrong or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
