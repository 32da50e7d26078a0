"""What clients know that they did, in; a truth, and expectations for ``mqsniff check``, beside the capture out.

1. ``x.json`` says what the logs of the clients say, for ``tests/truth_lab.py``; ``x.pcap.expect.toml`` says the same in
   SQL, for ``mqsniff check``. Both come from the same calls here.
2. Nothing here comes from a dissector, but for the names of commands and columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from lab.downloads import LabError

ROWS_MAX: Final = 2000
"""Records that are compared one by one."""

LoggedRecord: TypeAlias = tuple[int | None, int | None, str | None, str]
"""Partition, offset, key and value; None where the protocol or the client has none."""


class Truth:
    """What the clients of one capture logged."""

    def __init__(self) -> None:
        self._expectations: list[dict[str, object]] = []
        self._told: dict[str, Any] = {"records": {}, "counts": [], "errors": []}

    def about(self, server: str, client: str, **said: object) -> None:
        """Who took part, and what the client printed."""
        self._told |= {"server": server, "client": client, "said": said}

    def packets(self, number: int) -> None:
        """Packets that tcpdump wrote."""
        self._told["packets"] = number

    def expect(self, name: str, **check: object) -> None:
        """An expectation as docs/ci.md has them, for ``mqsniff check`` only."""
        self._expectations.append({"name": name, **check})

    def counts(self, what: str, number: int, table: str, distinct: Sequence[str] = (), **where: object) -> None:
        """So many rows of a table have these values in their columns; ``body__x`` is the field ``x`` of the body."""
        self._told["counts"].append(
            {"what": what, "number": number, "table": table, "distinct": list(distinct), "where": where}
        )
        columns = "distinct " + ", ".join(f'"{column}"' for column in distinct) if distinct else "*"
        wanted = " and ".join(_equals(column, value) for column, value in where.items())
        rows = f"(select {columns} from {table} where {wanted})"
        self.expect(what, sql=f"select count(*) as found from {rows} having count(*) <> {number}")

    def calls(self, commands: Iterable[str]) -> None:
        """Commands that the clients sent, or made servers send, at least once."""
        self._told["commands"] = sorted({*self._told.get("commands", ()), *commands})
        for command in sorted({*commands}):
            self.expect(f"{command} was sent", command=command, seen=1)

    def refused(self, call: str, error: str | int) -> None:
        """A call that a server answered with an error: its name, or its code."""
        self._told["errors"].append({"call": call, "error": error})
        wanted = _equals("error_code" if isinstance(error, int) else "error_name", error)
        tables = ("messages", "partitions")
        seen = " union all ".join(f"select 1 from {table} where {wanted}" for table in tables)
        self.expect(f"{call}: {error}", sql=f"select {_literal(error)} as missing where not exists ({seen})")

    def produced(self, topic: str, records: Sequence[LoggedRecord]) -> None:
        """All records of a topic that a broker took; what it refused is sent again by clients, and is not asked for."""
        self._same(f"{topic}: produced records as the producer logged them", topic, "produce", records)

    def consumed(self, topic: str, records: Sequence[LoggedRecord]) -> None:
        """Records that a consumer got; the broker may have sent more than it took."""
        self._same(f"{topic}: every record that the consumer logged was delivered", topic, "deliver", records)

    def _same(self, name: str, topic: str, direction: str, records: Sequence[LoggedRecord]) -> None:
        if len(records) > ROWS_MAX:
            raise LabError(f"{topic}: {len(records)} records are too many to list")
        self._told["records"].setdefault(topic, {})[direction] = [list(record) for record in records]
        listed = json.dumps([{"p": p, "o": o, "k": k, "v": v} for p, o, k, v in records]).replace("'", "''")
        logged = f"""select (r->>'$.p')::int as p, (r->>'$.o')::bigint as o, r->>'$.k' as k, r->>'$.v' as v
                     from (select unnest(from_json('{listed}', '["json"]')) as r)"""
        seen = f"""select "partition" as p, "offset" as o, decode(key) as k, decode(value) as v
                   from records
                   where topic = '{topic}' and direction = '{direction}' and not coalesce(control, false)
                   and coalesce(ack, '') <> 'failed'"""
        self.expect(name, sql=f"({logged}) except ({seen})")
        if direction == "produce":
            self.expect(f"{topic}: nothing else was produced", sql=f"({seen}) except ({logged})")

    def write(self, capture: Path, about: Mapping[str, object]) -> None:
        """Write ``x.pcap.expect.toml`` and ``x.json`` beside the capture."""
        lines = []
        for expectation in self._expectations:
            lines.append("[[expect]]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in expectation.items()]
            lines.append("")
        capture.with_name(capture.name + ".expect.toml").write_text("\n".join(lines))
        capture.with_suffix(".json").write_text(_document({**about, **self._told}))


def _document(told: Mapping[str, Any]) -> str:
    """JSON with a line for each member, and for each entry of long lists."""
    text = json.dumps(told, indent=1)
    compact = json.dumps(told["records"], separators=(",", ":")).replace("],[", "],\n  [")
    return text.replace(json.dumps(told["records"], indent=1).replace("\n", "\n "), compact) + "\n"


def _equals(column: str, value: object) -> str:
    place, _, member = column.partition("__")
    if member:
        text = json.dumps(value) if not isinstance(value, str) else value
        return f"{place} ->> '$.{member}' = {_literal(text)}"
    return f'"{column}" = {_literal(value)}'


def _literal(value: object) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else json.dumps(value)
