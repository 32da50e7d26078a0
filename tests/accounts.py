"""The accounts of a connection, by its rows: every byte is decoded, or told as lost or undecoded.

What the tables must say of one side of a connection, in bytes:

    its stream = decoded + after a hole + lost + skipped + its PROXY head

1. Decoded is the size of the messages without what their ``truncated`` problems say is missing.
2. Lost is what problems of kind ``gap`` say; a lost byte counts once, also inside a message.
3. Skipped is what other problems without a message say; their size counts captured bytes only.
4. Captured bytes after a hole of a message cannot be decoded; with the skipped ones they are ``undecoded_bytes``.
5. Of a side with TLS or decompression, offsets and sizes count the bytes after them, ``client_plain_bytes`` and
   ``server_plain_bytes`` of them; what the layer could not use has problems too, and is in ``undecoded_bytes``.
"""

from __future__ import annotations

from typing import Any

from mqsniff.decode.foreign import TITLES

Row = dict[str, Any]
Rows = dict[str, list[Row]]
"""Table -> its rows."""

STRANGERS = {"tls", "unknown", *TITLES}
SKIPPED = ("undecoded", "truncated")
OF_LAYERS = ("tls", "codec", "limit", "trailing_bytes", "checksum")


def without_message(problems: list[Row], *, layered: bool) -> list[Row]:
    """Problems that count captured bytes of their own: of what was skipped, or of what layers could not use."""
    return [
        row
        for row in problems
        if row["size"]
        and row["name"] is None
        and row["kind"] in (*SKIPPED, *OF_LAYERS)
        and is_of_a_layer(row) is layered
    ]


def is_of_a_layer(row: Row) -> bool:
    """Whether a problem comes from TLS or decompression: it has no place in the plain stream, or says from where on."""
    return row["kind"] in OF_LAYERS or row["stream_offset"] is None or "of the layer on" in row["detail"]


def is_of_a_frame(problem: Row) -> bool:
    """Whether a problem tells how many bytes of a message's frame are lost; one with a path tells what that spoils."""
    return problem["kind"] == "truncated" and problem["name"] is not None and problem["size"] is not None


def readable(message: Row, problems: list[Row]) -> int:
    """Bytes of a message that could be decoded."""
    missing = [
        row["size"] for row in problems if is_of_a_frame(row) and row["stream_offset"] == message["stream_offset"]
    ]
    return message["size"] - sum(missing[:1])


def gaps_of(problems: list[Row]) -> list[tuple[int, int]]:
    """(start, stop) of what was lost of a side."""
    return [(row["stream_offset"], row["stream_offset"] + row["size"]) for row in problems if row["kind"] == "gap"]


def captured(start: int, stop: int, gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is left of a range when gaps are taken out of it."""
    left, at = [], start
    for first, last in gaps:
        if first < stop and last > at:
            left.append((at, first))
            at = last
    left.append((at, stop))
    return [(first, last) for first, last in left if first < last]


def first_captured(start: int, size: int, gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The first ``size`` captured bytes from an offset on."""
    stop = start + size
    for first, last in gaps:
        if start <= first < stop:
            stop += last - first
    return captured(start, stop, gaps)


def is_decoded_as_captured(connection: Row, side: str) -> bool:
    """Whether a dissector got the bytes of a side as they were captured, so that offsets count them."""
    return connection["protocol"] not in STRANGERS and connection[f"{side}_plain_bytes"] is None


def has_layers(connection: Row) -> bool:
    """Whether a side of a connection passed TLS or decompression."""
    return connection["client_plain_bytes"] is not None or connection["server_plain_bytes"] is not None


def rows_about(rows: Rows, table: str, connection: Row, side: str | None = None) -> list[Row]:
    """The rows of a connection, or of one side of it."""
    about = [row for row in rows[table] if row["connection_id"] == connection["connection_id"]]
    return about if side is None else [row for row in about if row["side"] == side]


# ---- what must be


def check_every_byte(rows: Rows, side: str) -> None:
    """Every byte of a side is told once."""
    for connection in rows["connections"]:
        if not is_decoded_as_captured(connection, side):
            continue
        problems = rows_about(rows, "problems", connection, side)
        end, gaps = connection[f"{side}_bytes"], sorted(gaps_of(problems))
        told = list(gaps)
        if side == "client":
            told += captured(0, connection["proxy_bytes"] or 0, gaps)
        for row in rows_about(rows, "messages", connection, side):
            told += captured(row["stream_offset"], min(end, row["stream_offset"] + row["size"]), gaps)
        for row in without_message(problems, layered=False):
            told += first_captured(row["stream_offset"], row["size"], gaps)
        at = 0
        for start, stop in sorted(told):
            assert start == at, connection["connection_id"]
            at = stop
        assert at == end, connection["connection_id"]


def check_sums(rows: Rows) -> None:
    """The bytes of a connection add up."""
    for connection in rows["connections"]:
        problems = rows_about(rows, "problems", connection)
        plain = 0
        for side in ("client", "server"):
            own = [row for row in problems if row["side"] == side]
            lost = sum(stop - start for start, stop in gaps_of(own))
            behind = connection[f"{side}_plain_bytes"]
            plain += connection[f"{side}_bytes"] - lost if behind is None else behind
        decoded = sum(
            readable(message, [row for row in problems if row["side"] == message["side"]])
            for message in rows_about(rows, "messages", connection)
        )
        dark = sum(row["size"] for row in without_message(problems, layered=True) if has_layers(connection))
        undecoded = connection["undecoded_bytes"]
        assert plain == (connection["proxy_bytes"] or 0) + decoded + undecoded - dark, connection["connection_id"]
        assert connection["gap_bytes"] == sum(row["size"] for row in problems if row["kind"] == "gap")


def check_undecoded(rows: Rows) -> None:
    """Undecoded bytes have problems that say why."""
    for connection in rows["connections"]:
        problems = rows_about(rows, "problems", connection)
        skipped = sum(row["size"] for layered in (False, True) for row in without_message(problems, layered=layered))
        behind_holes = sum(row["size"] for row in problems if is_of_a_frame(row))
        assert skipped <= connection["undecoded_bytes"] <= skipped + behind_holes, connection["connection_id"]
