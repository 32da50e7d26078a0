"""nsqlookupd's protocol V1: the connection of an nsqd to nsqlookupd.

1. Each command has one reply, in order; a reply is a size and data, without a frame type.
2. Every error closes the connection.

Source: nsqio/nsq 1.3.0, ``nsqlookupd/lookup_protocol_v1.go``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mqsniff.dissector import NEED, NO_FRAME, Probed, Sample, Settings, Sized, Table, Verdict
from mqsniff.framing import FramedDissector
from mqsniff.model import Event, Frame, Gap, Message, Problem, Side, Span, Value
from mqsniff.spec.wire import text_or_bytes
from mqsniff_nsq import frames
from mqsniff_nsq.commands import IDENTIFY_MAX
from mqsniff_nsq.lines import HEAD_MAX, INT32, ParsedCommand, read_command, size_of, text
from mqsniff_nsq.rules import UnknownRow, check_body_size, check_names, odd_magic, spec_violations
from mqsniff_nsq.tables import (
    LOOKUPD_COMMANDS,
    LOOKUPD_ERRORS,
    LOOKUPD_IDENTIFY_FIELDS,
    MAGIC_SIZE,
    MAGIC_V1,
    NAME_PATTERN,
)

REPLY: Final = "reply"
BAD_PROTOCOL: Final = b"\x00\x00\x00\x0eE_BAD_PROTOCOL"
ERROR_WORD: Final = b"E_"
"""First bytes of every error code."""
NSQD_ERROR: Final = b"\x00\x00\x00\x01" + ERROR_WORD
"""An error of nsqd, which a client took for nsqlookupd: a frame type precedes the code."""

_STRICT: Final = re.compile(
    rb"(?:(?P<line>PING|(?:UN)?REGISTER %(name)s(?: %(name)s)?)|(?P<json>IDENTIFY))\n" % {b"name": NAME_PATTERN}
)
_BEGUN: Final = re.compile(rb"[A-Z]{1,10}(?: [ -~]{0,160})?\Z")
_LIKELY: Final = re.compile(rb"(?:PING\n|(?:UN)?REGISTER |IDENTIFY\n)")
_SURE: Final = re.compile(rb"(?:UN)?REGISTER |IDENTIFY\n")


class Nsqlookupd(FramedDissector):
    """nsqlookupd's TCP protocol, version 1."""

    names = ("nsqlookupd",)
    ports = frozenset({4160})
    head_max = HEAD_MAX
    probe_max = 256

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._opening = True
        self._magic_at = -1
        self._foreign = False
        self._unknown = UnknownRow(settings.limits.unknown_max)
        self._whole = True
        self._identified = False

    @classmethod
    def message_names(cls) -> tuple[str, ...]:
        """The magic, commands and answers."""
        from mqsniff_nsq.description import lookupd_names  # noqa: PLC0415  # wanted by one command

        return lookupd_names()

    @classmethod
    def describe(cls) -> dict[str, Table]:
        """What is known of the protocol, as tables."""
        from mqsniff_nsq.description import describe_lookupd  # noqa: PLC0415  # wanted by one command

        return describe_lookupd()

    # ---- detection and framing

    @classmethod
    def detect(cls, client: Sample, server: Sample) -> Verdict:
        """Both sides; MAYBE on both is a YES."""
        if server.from_start and server.data == BAD_PROTOCOL:
            return Verdict.YES
        verdicts = [cls.detect_side(side, sample) for side, sample in zip(Side, (client, server), strict=True)]
        return Verdict.YES if min(verdicts) >= Verdict.MAYBE else super().detect(client, server)

    @classmethod
    def detect_side(cls, side: Side, sample: Sample) -> Verdict:
        """As in the base class, but a client begins with the magic, and PING or OK alone prove little."""
        data = sample.data
        if side is Side.CLIENT and sample.from_start:
            return _detect_opening(data)
        verdict = super().detect_side(side, sample)
        sure = _SURE.search(data) if side is Side.CLIENT else b'{"' in data or b"E_" in data
        return verdict if sure else min(verdict, Verdict.MAYBE)

    @classmethod
    def probe(cls, side: Side, head: bytes) -> Probed:
        """Size of the frame that must start here."""
        return _probe_command(head) if side is Side.CLIENT else frames.lookupd_probe(head)

    @classmethod
    def scan(cls, side: Side, data: bytes, start: int) -> int:
        """First offset where a frame may start."""
        if side is Side.SERVER:
            return frames.lookupd_scan(data, start)
        match = _LIKELY.search(data, start)
        return match.start() if match else max(start, len(data) - len("UNREGISTER"))

    def start(self, side: Side, *, in_step: bool) -> None:
        """Say before the first byte of a side whether the stream was seen from its beginning."""
        super().start(side, in_step=in_step)
        if side is Side.CLIENT:
            self._opening = self._whole = in_step

    def frame_size(self, side: Side, head: bytes) -> Sized:
        """Size of the frame that starts here."""
        if side is Side.SERVER:
            return frames.lookupd_size_of(head)
        if self._opening:
            return MAGIC_SIZE if len(head) >= MAGIC_SIZE else NEED
        return _probe_command(head) if self._foreign or self._unknown.spent else size_of(head, LOOKUPD_COMMANDS)

    def gap(self, gap: Gap) -> Iterator[Event]:
        """Take note of lost bytes of a side."""
        self._whole = self._whole and gap.side is Side.SERVER
        yield from super().gap(gap)

    def missed(self, side: Side, length: int | None) -> None:  # noqa: ARG002  # part of the contract
        """Frames of a side may be lost; the magic was among them if it has not come yet."""
        self._opening = self._opening and side is Side.SERVER

    # ---- decoding

    def decode(self, frame: Frame) -> Iterator[Event]:
        """Give the message of a frame."""
        if frame.side is Side.SERVER:
            yield self._decode_reply(frame)
        elif self._opening:
            yield self._decode_magic(frame)
        else:
            yield self._decode_command(frame)

    def spans(self, frame: Frame) -> Iterator[Span]:
        """Every field of a frame beside its bytes."""
        from mqsniff_nsq.explain import lookupd_spans  # noqa: PLC0415  # for ``mqsniff explain`` alone

        return lookupd_spans(frame, is_magic=frame.offset == self._magic_at)

    def _decode_magic(self, frame: Frame) -> Message:
        self._opening = False
        self._magic_at = frame.offset
        message = Message(frame, "nsqlookupd", "MAGIC", "oneway", {"magic": frames.magic(frame.data)})
        if frame.data != MAGIC_V1:
            self._foreign = True
            message.problems.append(odd_magic(frame.data, "nsqlookupd"))
        self.expect_reply(REPLY, "MAGIC", expects=0)
        return message

    def _decode_command(self, frame: Frame) -> Message:
        read = read_command(frame.data, LOOKUPD_COMMANDS)
        name = read.command.name if read.command else read.line.name
        body: dict[str, Value] = {path: text_or_bytes(raw) for path, raw in read.params.items()}
        if read.extra:
            body["extra_params" if read.command else "params"] = [text_or_bytes(raw) for raw in read.extra]
        message = Message(frame, "nsqlookupd", name, "request", body)
        if "topic" in read.params:
            message.topics = (text(read.params["topic"]),)
        if "channel" in read.params:
            message.group = text(read.params["channel"])
        message.problems += self._check(read, name)
        message.problems += self._unknown.add(read)
        if read.size is not None:
            self._decode_identify(message, read, read.size)
        self.expect_reply(REPLY, name)
        return message

    def _check(self, read: ParsedCommand, name: str) -> Iterator[Problem]:
        if read.command is None:
            yield Problem("unknown_code", "warning", "a command that the protocol does not have")
            return
        yield from check_names(read)
        if self._whole and name in ("REGISTER", "UNREGISTER") and not self._identified:
            yield spec_violations("format", f"{name} before IDENTIFY")
        if self._whole and name == "IDENTIFY" and self._identified:
            yield spec_violations("format", "IDENTIFY again")

    def _decode_identify(self, message: Message, read: ParsedCommand, size: int) -> None:
        self._identified = True
        message.problems += check_body_size(size)
        if size <= 0:
            message.body["size"] = size
            return
        fields, readable = frames.json_body(message.frame.data[read.start : read.start + size])
        message.body |= fields
        if readable:
            missing = [name for name in LOOKUPD_IDENTIFY_FIELDS if not fields.get(name)]
            message.problems += [
                spec_violations("missing_field", "a field that nsqlookupd requires", name) for name in missing
            ]
            self._learn(fields)
            message.notes = tuple((name, fields[name]) for name in ("broadcast_address", "tcp_port") if name in fields)
        elif message.frame.whole:
            message.problems.append(spec_violations("format", "the body is not a JSON object"))

    def _learn(self, fields: dict[str, Value]) -> None:
        version, address, port = (fields.get(name) for name in ("version", "broadcast_address", "tcp_port"))
        if isinstance(version, str):
            self.identity.client_software = f"nsqd {version}"
        if isinstance(address, str):
            self.identity.client_id = f"{address}:{port}" if isinstance(port, int) else address

    def _decode_reply(self, frame: Frame) -> Message:
        data = frame.data[4:]
        if data.startswith(NSQD_ERROR):
            message = _error(frame, data[4:])
            message.problems.append(
                spec_violations("format", "an error with a frame type, as nsqd sends it, not nsqlookupd")
            )
        elif data.startswith(ERROR_WORD):
            message = _error(frame, data)
        else:
            message = self._response(frame, data)
        code = message.error_name
        if code is not None:
            self.identity.close_reason = "protocol error"
            if code not in LOOKUPD_ERRORS:
                message.problems.append(Problem("unknown_code", "warning", "an error code that is not known", "code"))
        self._pair(code)
        return message

    def _response(self, frame: Frame, data: bytes) -> Message:
        body: dict[str, Value] = {"data": frames.response_value(data)}
        if data.startswith(b"{"):
            body, readable = frames.json_body(data)
            version = body.get("version")
            if readable and isinstance(version, str):
                self.identity.server_software = f"nsqlookupd {version}"
        message = Message(frame, "nsqlookupd", "RESPONSE", "response", body)
        message.error_count = 0 if len(data) >= len(ERROR_WORD) or frame.whole else None
        message.notes = tuple((name, body[name]) for name in ("data", "version") if name in body)
        return message

    def _pair(self, code: str | None) -> None:
        """Resolve the oldest command; only the reply to a bad magic has none."""
        oldest = next(iter(self.pending(REPLY)), None)
        if code == "E_BAD_PROTOCOL" and oldest is not None and oldest.context == "MAGIC":
            self.resolve(oldest, "error", answered=True)
        else:
            self.reply_to(REPLY)


def _detect_opening(data: bytes) -> Verdict:
    if not data.startswith(MAGIC_V1):
        return Verdict.MORE if MAGIC_V1.startswith(data) else Verdict.NO
    return Verdict.YES if isinstance(_probe_command(data[MAGIC_SIZE:]), int) else Verdict.MAYBE


def _probe_command(head: bytes) -> Probed:
    match = _STRICT.match(head)
    if match is None:
        return NEED if b"\n" not in head and (_BEGUN.match(head) or not head) else NO_FRAME
    start = match.end()
    if match.lastgroup == "line":
        return start
    if len(head) < start + 5:
        return NEED
    (size,) = INT32.unpack_from(head, start)
    fits = 2 <= size <= IDENTIFY_MAX and head[start + 4 : start + 5] == b"{"
    return start + 4 + size if fits else NO_FRAME


def _error(frame: Frame, data: bytes) -> Message:
    code, description = frames.read_error(data)
    body: dict[str, Value] = {"code": code, "description": description}
    message = Message(frame, "nsqlookupd", "ERROR", "response", body, error_name=code or None, error_count=1)
    message.notes = (("description", description),) if description else ()
    return message
