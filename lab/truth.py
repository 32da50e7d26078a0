"""What clients know that they did, in; a file of expectations beside the capture out, for ``mqsniff check``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from lab.downloads import LabError

ROWS_MAX: Final = 2000
"""Records that are compared one by one."""


class Truth:
    """Expectations about one capture, gathered from the logs of clients."""

    def __init__(self) -> None:
        self._expectations: list[dict[str, object]] = []

    def expect(self, name: str, **check: object) -> None:
        """An expectation as mqsniff's docs/ci.md has them."""
        self._expectations.append({"name": name, **check})

    def finds(self, name: str, query: str) -> None:
        """The query finds no row."""
        self.expect(name, sql=query)

    def counts(self, name: str, source: str, number: int) -> None:
        """``source`` (a FROM clause) has this many rows."""
        self.finds(name, f"select count(*) as found from {source} having count(*) <> {number}")

    def produced(self, topic: str, records: Sequence[tuple[int, int, str | None, str]]) -> None:
        """Records that a broker acknowledged: (partition, offset, key, value)."""
        self._same(f"{topic}: produced records as the producer logged them", topic, "produce", records)

    def consumed(self, topic: str, records: Sequence[tuple[int, int, str | None, str]]) -> None:
        """Records that a consumer got; the broker may have sent more than it took."""
        self._same(f"{topic}: every record that the consumer logged was delivered", topic, "deliver", records)

    def _same(self, name: str, topic: str, direction: str, records: Sequence[tuple[int, int, str | None, str]]) -> None:
        if len(records) > ROWS_MAX:
            raise LabError(f"{topic}: {len(records)} records are too many to list")
        listed = json.dumps([{"p": p, "o": o, "k": k, "v": v} for p, o, k, v in records]).replace("'", "''")
        logged = f"""select (r->>'$.p')::int as p, (r->>'$.o')::bigint as o, r->>'$.k' as k, r->>'$.v' as v
                     from (select unnest(from_json('{listed}', '["json"]')) as r)"""
        seen = f"""select "partition" as p, "offset" as o, decode(key) as k, decode(value) as v
                   from records
                   where topic = '{topic}' and direction = '{direction}' and not coalesce(control, false)"""
        self.finds(name, f"({logged}) except ({seen})")
        if direction == "produce":
            self.finds(f"{topic}: nothing else was produced", f"({seen}) except ({logged})")

    def write(self, capture: Path, about: Mapping[str, object]) -> None:
        """Write ``x.pcap.expect.toml`` and ``x.json`` beside the capture."""
        lines = []
        for expectation in self._expectations:
            lines.append("[[expect]]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in expectation.items()]
            lines.append("")
        capture.with_name(capture.name + ".expect.toml").write_text("\n".join(lines))
        capture.with_suffix(".lab.json").write_text(json.dumps(about, indent=1) + "\n")
