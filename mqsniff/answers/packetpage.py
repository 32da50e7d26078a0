"""What is known of a packet in, the page that ``explain`` shows of it out: text in two panes, or one JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from mqsniff.answers.explain import Explanation, NearMessage, display_filter, packets_text
from mqsniff.answers.recordplaces import RECORD_KINDS
from mqsniff.model import MessageItem, packet_number
from mqsniff.sinks.lines import packets
from mqsniff.sinks.paint import Paint, TextPart
from mqsniff.sinks.panes import PaneOptions, field_objects, pane_lines
from mqsniff.sinks.text import TextSink
from mqsniff.sinks.textoptions import TextOptions
from mqsniff.tables.escape import safe
from mqsniff.tables.rows import Captures, rows_of
from mqsniff.tables.times import rfc3339
from mqsniff.tls.output import SeenRecord

RECORDS_SHOWN: Final = 6
"""Records of TLS that are shown of a message, half of them its last ones; --wide shows all."""


class PacketPage:
    """Writes the page of one packet to a binary stream."""

    def __init__(
        self, stream: BinaryIO, captures: Captures, packet: tuple[str, int], text: TextOptions, panes: PaneOptions
    ) -> None:
        """``packet``: the name of its capture, and its number there."""
        self._stream = stream
        self._captures = captures
        self._capture, self._number = packet
        self._text = text
        self._panes = panes
        self._paint = Paint(color=text.color, width=text.width)
        self._uncut = Paint(color=text.color)
        """For what is there to be copied."""

    def write_text(self, explanation: Explanation) -> None:
        """Write the messages, each with its fields, or why there are none."""
        count = len(explanation.found)
        what = "no message" if not count else "1 message" if count == 1 else f"{count} messages"
        title = f"packet {self._number} of {safe(self._capture)}: {what}"
        self._put([("name", title), ("tcp", f"  Wireshark: frame.number == {self._number}")], self._uncut)
        if not count:
            self._put([("", f"  {safe(explanation.why)}")])
            for word, near in (("before", explanation.before), ("after", explanation.after)):
                if near is not None:
                    self._put([("", f"  nearest message {word} it: {safe(near.name)} in {packets_text(near)}")])
        sink = TextSink(self._stream, self._captures, self._text)
        for item in explanation.found:
            self._put([])
            sink.write(item)
            sink.tick()
            self._write_fields(item, explanation.records_of(item))
        self._stream.flush()

    def _write_fields(self, item: MessageItem, records: list[SeenRecord]) -> None:
        frame = item.message.frame
        plain = " of the plain bytes" if item.connection.layered else ""
        cut = "" if frame.whole else f", {len(frame.data)} of them readable"
        cells = 3 * self._panes.row - 1
        self._put([("detail", f"  {packets(frame)}, stream offset {frame.offset}{plain}, {frame.size} bytes{cut}")])
        for told in self._record_lines(records):
            self._put([("detail", told)])
        self._put([("tcp", f"  Wireshark: {display_filter(item)}")], self._uncut)
        self._put([("tcp", f"  {'offset':>6} {'size':>6}  {'bytes':<{cells}}  field: value  meaning")])
        for line in pane_lines(item.spans or (), frame.data, self._panes):
            self._put(line)

    def _record_lines(self, records: list[SeenRecord]) -> Iterator[str]:
        """The records of TLS that a message came from."""
        if not records:
            return
        count = "1 record" if len(records) == 1 else f"{len(records)} records"
        yield f"  decrypted from {count} of TLS, sent by the {records[0].side.text}:"
        half = RECORDS_SHOWN // 2
        whole = self._panes.wide or len(records) <= RECORDS_SHOWN
        for index, record in enumerate(records):
            if whole or index < half or index >= len(records) - half:
                yield f"    {_record_text(record)}"
            elif index == half:
                yield f"    … {len(records) - 2 * half} more, which --wide shows"

    def _put(self, line: list[TextPart], paint: Paint | None = None) -> None:
        self._stream.write((paint or self._paint).line(line).encode(self._text.encoding, "backslashreplace") + b"\n")

    def write_json(self, explanation: Explanation) -> None:
        """Write one object."""
        told: dict[str, Any] = {
            "capture": self._capture,
            "packet": self._number,
            "display_filter": f"frame.number == {self._number}",
            "messages": [self._message(item, explanation) for item in explanation.found],
        }
        if not explanation.found:
            near = {"before": explanation.before, "after": explanation.after}
            told |= {"why": explanation.why, "nearest": {name: _near_object(each) for name, each in near.items()}}
        self._stream.write(self._panes.shown.json(told) + b"\n")
        self._stream.flush()

    def _message(self, item: MessageItem, explanation: Explanation) -> dict[str, Any]:
        """The row of a message, its fields in the place of its body, and the records of TLS that it came from."""
        ((_, row),) = rows_of(item, self._captures, ("messages",), self._panes.shown)
        del row["body"]
        row |= {name: rfc3339(row[name]) for name in ("ts", "last_ts")}
        fields = list(field_objects(item.spans or (), item.message.frame.data, self._panes))
        records = explanation.records_of(item)
        told = {"tls_records": [_record_object(each) for each in records] if records else None}
        return row | {"display_filter": display_filter(item)} | told | {"fields": fields}


def _record_text(record: SeenRecord) -> str:
    """A record in one line: number, type, packets, places."""
    number = "record" if record.number is None else f"record {record.number}"
    first, last = packet_number(record.first.packet), packet_number(record.last.packet)
    place = f"packet {first}" if first == last else f"packets {first} to {last}"
    return (
        f"{number}, {RECORD_KINDS.get(record.kind, 'unknown')}, {place}, stream offset {record.start}: "
        f"{record.stop - record.start} bytes, data {record.plain[0]} to {record.plain[1] - 1}"
    )


def _record_object(record: SeenRecord) -> dict[str, Any]:
    """A record as JSON has it."""
    return {
        "number": record.number,
        "type": RECORD_KINDS.get(record.kind, "unknown"),
        "side": record.side.text,
        "first_packet": packet_number(record.first.packet),
        "last_packet": packet_number(record.last.packet),
        "stream_offset": record.start,
        "size": record.stop - record.start,
        "data_offset": record.plain[0],
        "data_size": record.plain[1] - record.plain[0],
    }


def _near_object(near: NearMessage | None) -> dict[str, Any] | None:
    if near is None:
        return None
    first, last = packet_number(near.first_packet), packet_number(near.last_packet)
    return {"name": near.name, "first_packet": first, "last_packet": last}
