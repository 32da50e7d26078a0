"""The kinds of problems as data: meaning and advice."""

from __future__ import annotations

from typing import Final, NamedTuple

from mqsniff.model.values import ProblemKind


class KindOfProblem(NamedTuple):
    """Meaning and advice of a kind."""

    meaning: str
    advice: str


PROBLEM_KINDS: Final[dict[ProblemKind, KindOfProblem]] = {
    "malformed": KindOfProblem(
        "bytes that the specification does not allow at their place",
        "look at the path in the message: a fault of its sender, a newer protocol, or a wrong --decode-as",
    ),
    "truncated": KindOfProblem(
        "the rest of a message is missing: lost, not captured, or beyond a limit",
        "capture whole packets (tcpdump -s 0) and look at gap problems of the same side",
    ),
    "gap": KindOfProblem(
        "bytes of one side that are missing in the capture",
        "capture with a larger buffer (tcpdump -B), a narrower filter, or on the host itself; see gap_grace_packets",
    ),
    "overlap": KindOfProblem(
        "retransmitted bytes that differ from the first ones; the first ones are used",
        "a broken or hostile sender, or two connections in one: look at both packets",
    ),
    "checksum": KindOfProblem(
        "a checksum of the protocol that does not match its bytes",
        "damaged on the network or by the sender; ignore it if the capture lost bytes of the same message",
    ),
    "limit": KindOfProblem(
        "a limit was reached, so something is left out",
        "raise the limit that the detail names with --limit: `mqsniff protocols limits`",
    ),
    "unknown_code": KindOfProblem(
        "a command, error, type or language that the specification does not name",
        "it is kept as a number; a newer release, or a fork of the protocol",
    ),
    "unknown_version": KindOfProblem(
        "a version of a message or batch that is not known",
        "its bytes are kept undecoded; `mqsniff protocols NAME` says which versions are known",
    ),
    "trailing_bytes": KindOfProblem(
        "bytes after the end of a message or field",
        "all before them is decoded; a newer release, or a fault of the sender",
    ),
    "missing_field": KindOfProblem(
        "a required field is missing",
        "a fault of the sender, or a newer or older release without this field",
    ),
    "out_of_range": KindOfProblem(
        "a value that the specification does not allow",
        "the value is shown as it was sent; a fault or an odd setting of the sender",
    ),
    "unmatched": KindOfProblem(
        "an answer without its request, or a piece without the others",
        "usual if the capture begins in the middle of a connection or lost packets; else raise pending_max",
    ),
    "codec": KindOfProblem(
        "compressed data that cannot be opened",
        "damaged, of an unknown codec, or more than decompress_max; the detail says which",
    ),
    "format": KindOfProblem(
        "bytes that do not have the format expected there; they are shown as bytes",
        "nothing, if the client writes its own format into this field",
    ),
    "tls": KindOfProblem(
        "encrypted bytes, which are not decrypted",
        "capture where it is plain text, such as behind a proxy that ends TLS",
    ),
    "clock": KindOfProblem(
        "time runs backwards: an answer before its request",
        "its latencies are null; captures of several taps were merged, or the clock was changed",
    ),
    "undecoded": KindOfProblem(
        "bytes that are not decoded: an unknown protocol, or bytes before the first frame that could be found",
        "name the protocol with --decode-as PORT=PROTO; begin the capture before the connections",
    ),
    "input": KindOfProblem(
        "a capture file that is damaged, cut, or in a format that cannot be read",
        "everything before the damage is decoded; repair the file or capture again",
    ),
    "internal": KindOfProblem(
        "a bug in mqsniff or in a plugin; the message is kept as far as it was decoded",
        "report it with the capture, or the packet that the problem names",
    ),
    "retransmission": KindOfProblem(
        "segments that were sent again: the network, or a slow peer, lost them or their acknowledgement",
        "look at the path between the hosts, and at exchanges of the same connection and time",
    ),
    "zero_window": KindOfProblem(
        "a side told the other to stop sending: it does not read what it gets",
        "look at the application that reads: it is slower than its peer",
    ),
    "stall": KindOfProblem(
        "bytes waited for earlier bytes that were lost or late",
        "look at the path between the hosts, and at exchanges of the same connection and time",
    ),
}
"""One entry for each ``ProblemKind``."""
