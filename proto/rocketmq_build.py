"""Pages of ``proto/rocketmq/`` in, one JSON file out, which the dissector loads when its first instance is made.

    python proto/rocketmq_build.py            writes dissectors/mqsniff_rocketmq/data/rocketmq.json
    python proto/rocketmq_build.py --check    fails where the committed file is not what the pages give

Every name that a page uses must stand on a page: an unknown class, type or response code is an error.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rocketmq_notation import (
    HEADER_TYPES,
    SCALARS,
    ClassBlock,
    FieldLine,
    NotationError,
    parse_classes,
    parse_names,
    parse_requests,
    parse_responses,
    parse_type,
    parse_versions,
)

HERE: Final = Path(__file__).parent / "rocketmq"
TARGET: Final = HERE.parent.parent / "dissectors" / "mqsniff_rocketmq" / "data" / "rocketmq.json"
FORMAT: Final = "mqsniff-rocketmq/1"


def build(home: Path = HERE) -> bytes:
    """The content of ``rocketmq.json``: one line a part, so that a change shows as a change."""
    page = {path.stem: path.read_text(encoding="utf-8") for path in sorted(home.glob("*.txt"))}
    headers, _ = parse_classes(page["headers"])
    bodies, enums = parse_classes(page["bodies"])
    responses = parse_responses(page["responses"])
    requests = parse_requests(page["requests"])
    for request in requests:
        _check_request(request, headers, bodies, responses)
    parts = {
        "format": FORMAT,
        "requests": requests,
        "responses": responses,
        "headers": _headers(headers),
        "bodies": {name: _body(block, bodies, enums) for name, block in bodies.items()},
        "enums": enums,
        "names": parse_names(page["names"]),
        "versions": parse_versions(page["versions"]),
    }
    lines = [f"{json.dumps(key)}:{json.dumps(part, separators=(',', ':'))}" for key, part in parts.items()]
    return ("{" + ",\n".join(lines) + "}\n").encode()


def _check_request(
    request: dict[str, Any],
    headers: dict[str, ClassBlock],
    bodies: dict[str, ClassBlock],
    responses: dict[str, dict[str, str]],
) -> None:
    """NotationError where a request uses what no page has."""
    for frame in (request.get("request", {}), request.get("response", {})):
        header, body = frame.get("header"), frame.get("body", "json").strip("[]")
        if header is not None and header not in headers:
            raise NotationError(f"{request['name']}: no header class {header}")
        if body[0].isupper() and body not in bodies and body not in SCALARS:
            raise NotationError(f"{request['name']}: no body class {body}")
    if request.get("codes", "") not in responses:
        raise NotationError(f"{request['name']}: no group of response codes {request['codes']}")


def _lineage(block: ClassBlock, classes: dict[str, ClassBlock]) -> Iterator[FieldLine]:
    """The fields of a class, then those of its parents."""
    while True:
        yield from block.fields
        if not block.parent:
            return
        if block.parent not in classes:
            raise NotationError(f"{block.name}: no parent {block.parent}")
        block = classes[block.parent]


def _headers(headers: dict[str, ClassBlock]) -> dict[str, Any]:
    """Every header class; NotationError where two fields that may stand in one frame have one name."""
    plain = {name: _header(block, headers) for name, block in headers.items()}
    for name, header in plain.items():
        fields = {line[0]: line[1] for line in (*plain["Common"]["fields"], *header["fields"])}
        if len(set(fields.values())) < len(fields):
            raise NotationError(f"{name}: two fields have one name")
    return plain


def _header(block: ClassBlock, headers: dict[str, ClassBlock]) -> dict[str, Any]:
    """Status and fields of a header class: [wire name, name, type, required, role, secret]."""
    for line in block.fields:
        if line.type not in HEADER_TYPES:
            raise NotationError(f"{block.name}.{line.wire}: no header type {line.type}")
    fields = [
        [line.wire, line.name, HEADER_TYPES[line.type], line.required, line.role, line.secret]
        for line in _lineage(block, headers)
    ]
    return {"status": block.status, "fields": fields}


def _body(block: ClassBlock, bodies: dict[str, ClassBlock], enums: dict[str, list[str]]) -> dict[str, Any]:
    """Status and fields of a body class: [wire name, name, shape, role, secret]."""
    fields = [
        [line.wire, line.name, _shape(parse_type(line.type), bodies, enums), line.role, line.secret]
        for line in _lineage(block, bodies)
    ]
    return {"status": block.status, "fields": fields}


def _shape(kind: Any, bodies: dict[str, ClassBlock], enums: dict[str, list[str]]) -> Any:
    """What JSON of a type has inside.

    null (a scalar), ["bits"], ["enum", name], ["class", name], ["list", shape], ["map", shape], or, for a map whose
    keys are objects, ["pairs", key shape, shape].
    """
    if isinstance(kind, list):
        inner = [_shape(part, bodies, enums) for part in kind[1:]]
        if kind[0] == "list":
            return ["list", inner[0]]
        return ["pairs", *inner] if inner[0] and inner[0][0] == "class" else ["map", inner[1]]
    if kind == "BitSet":
        return ["bits"]
    if kind in SCALARS:
        return None
    if kind in enums:
        return ["enum", kind]
    if kind in bodies:
        return ["class", kind]
    raise NotationError(f"no type {kind}")


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Build rocketmq.json from proto/rocketmq/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where the file is stale")
    check = parser.parse_args().check
    content = build()
    if not check:
        TARGET.write_bytes(content)
    elif not TARGET.is_file() or TARGET.read_bytes() != content:
        print(
            f"stale: dissectors/mqsniff_rocketmq/data/{TARGET.name} (run: python proto/rocketmq_build.py)",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
