"""Kafka's pages and tables in, one file of JSON lines out, of which a reader parses only the lines that it needs.

Line 0 is the index: ``apis`` (key -> name, about, listeners, versions and flexible versions of request and response,
line), ``records`` (page -> kind -> key -> line), ``data`` (name -> line), and the lines of ``errors``, ``enums`` and
``releases``. A line of definitions is a list of blocks (``plain_block``): today's first, variants last.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from kafka_notation import Page, parse_page, plain_block
from kafka_tables import parse_enums, parse_errors, parse_releases

HERE: Final = Path(__file__).parent / "kafka"
FORMAT: Final = "mqsniff-kafka/1"


def build(home: Path = HERE) -> bytes:
    """The content of ``dissectors/mqsniff_kafka/data/kafka.jsonl``."""
    lines: list[Any] = [None]
    apis = {}
    for page in sorted(_pages(home / "apis").values(), key=lambda page: page.key or 0):
        apis[str(page.key)] = _api(page, len(lines))
        lines.append([plain_block(block) for block in page.blocks])
    records: dict[str, dict[str, dict[str, int]]] = {}
    data: dict[str, int] = {}
    for stem, page in _pages(home / "records").items():
        for (kind, key, name), blocks in _groups(page).items():
            if key is None:
                data[name] = len(lines)
            else:
                records.setdefault(stem, {}).setdefault(kind, {})[str(key)] = len(lines)
            lines.append(blocks)
    index: dict[str, Any] = {"format": FORMAT, "apis": apis, "records": records, "data": data}
    tables = _tables(home, {api["name"]: int(key) for key, api in apis.items()})
    index["release"] = list(tables["releases"])[-1]
    for name, table in tables.items():
        index[name] = len(lines)
        lines.append(table)
    lines[0] = index
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)


def _pages(folder: Path) -> dict[str, Page]:
    return {
        path.stem: parse_page(path.read_text(encoding="utf-8"), path.name) for path in sorted(folder.glob("*.kafka"))
    }


def _api(page: Page, line: int) -> dict[str, Any]:
    """What the index says of an API."""
    api: dict[str, Any] = {
        "name": page.name,
        "about": " ".join(page.comment),
        "listeners": page.listeners,
        "line": line,
    }
    for kind in ("request", "response"):
        (block,) = (block for block in page.blocks if block.kind == kind and not block.variant)
        api[kind] = [block.versions, block.flexible, block.legacy]
    return api


def _groups(page: Page) -> dict[tuple[str, int | None, str], list[dict[str, Any]]]:
    """Blocks that are read by the same key, or, where there is none, by the same name."""
    groups: dict[tuple[str, int | None, str], list[dict[str, Any]]] = {}
    for block in page.blocks:
        name = block.name if block.key is None else ""
        groups.setdefault((block.kind, block.key, name), []).append(plain_block(block))
    for blocks in groups.values():
        blocks.sort(key=lambda plain: ("variant" in plain, plain.get("legacy") == plain["versions"]))
    return groups


def _tables(home: Path, keys: dict[str, int]) -> dict[str, Any]:
    texts = {name: (home / f"{name}.txt").read_text(encoding="utf-8") for name in ("errors", "enums", "releases")}
    return {
        "errors": parse_errors(texts["errors"]),
        "enums": parse_enums(texts["enums"]),
        "releases": parse_releases(texts["releases"], keys),
    }
