"""Captures and what the filters chose of them in, a capture of it to share out; what is hidden is overwritten in place.

1. The captures are read again and again: to list packets, to prove that these packets decode to the same rows, to find
   what is hidden, and to write. Memory holds the chosen messages' places and the packets of their connections, some 40
   bytes each; never a packet. Of a connection that does not decode to the same rows all messages without records come
   along, which may hold the state of its dissector; if that is not enough, all of it.
2. Packets keep times, link types and lengths; checksums of TCP follow what was overwritten (``tcppatch``). CRCs of
   record batches do not: a comment says so.
"""

from __future__ import annotations

from typing import BinaryIO

from mqsniff.answers.extractchoice import ExtractChoice, RowKey, frame_place, row_hashes
from mqsniff.answers.extractcopy import ExtractInput, ExtractReport, PacketCopy
from mqsniff.answers.extractmasks import MaskObserver
from mqsniff.answers.extractpackets import PacketList, WantedPackets, list_packets
from mqsniff.answers.selectedpackets import SelectedPackets
from mqsniff.dissector import Settings
from mqsniff.model import MessageItem
from mqsniff.pipeline import Pipeline
from mqsniff.tables.values import Redaction


def extract(source: ExtractInput, choice: ExtractChoice, shown: Redaction, stream: BinaryIO) -> ExtractReport:
    """Write the extract of what was chosen; ``shown`` that hides nothing writes packets as they are."""
    choice.finish()
    report = ExtractReport(connections=len(choice.connections))
    report.messages = sum(bool(f.line) for each in choice.connections.values() for f in each.frames.values())
    lists = list_packets(source.names, choice.connections, source.settings.limits)
    wanted = _proven(source, choice, lists, report)
    masks = None
    if not (shown.secrets and shown.raw and shown.payload):
        masks = _masks(source, WantedPackets.of(lists.values(), every=True), shown)
    PacketCopy(source, wanted, masks, shown, report).write(stream)
    return report


# ---- to decode to the same rows


def _proven(
    source: ExtractInput, choice: ExtractChoice, lists: dict[str, PacketList], report: ExtractReport
) -> WantedPackets:
    """The packets to write: those that decode to the rows of what was chosen."""
    wanted = WantedPackets.of(lists.values())
    unlike = _unlike(source, wanted, choice.hashes)
    for widen in (_add_recordless, _take_whole):
        doubtful = [lists[name] for name in {key[1] for key in unlike} if name in lists]
        doubtful = [each for each in doubtful if not each.chosen.whole]
        if not doubtful:
            break
        widen(source, doubtful)
        report.whole = sum(each.chosen.whole for each in doubtful)
        wanted = WantedPackets.of(lists.values())
        unlike = _unlike(source, wanted, choice.hashes)
    report.unlike = len(unlike)
    return wanted


def _add_recordless(source: ExtractInput, doubtful: list[PacketList]) -> None:
    """Want all messages of connections that carry no records: what later ones are read by is among them."""
    packets = WantedPackets.of(doubtful, every=True)
    selected = SelectedPackets(source.names, packets.ids, source.settings.limits, source.on_progress)
    settings = Settings(source.settings.limits, source.settings.wanted | {"records"})
    chosen = {each.chosen.info.connection_id: each.chosen for each in doubtful}
    for item in Pipeline(selected, settings, decode_as=source.decode_as, keys=None).items():
        if isinstance(item, MessageItem) and not item.message.records:
            frame = item.message.frame
            if (found := chosen.get(item.connection.connection_id)) is not None:
                found.frames.setdefault((frame.side, frame.offset), frame_place(frame))


def _take_whole(_: ExtractInput, doubtful: list[PacketList]) -> None:
    """Want every packet of connections."""
    for each in doubtful:
        each.chosen.whole = True


def _unlike(source: ExtractInput, wanted: WantedPackets, hashes: dict[RowKey, bytes]) -> set[RowKey]:
    """The chosen rows to which some packets do not decode."""
    packets = SelectedPackets(source.names, wanted.ids, source.settings.limits, source.on_progress)
    run = Pipeline(packets, source.settings, decode_as=source.decode_as, keys=None)
    alike: set[RowKey] = set()
    for item in run.items():
        if item is not None:
            alike |= {key for key, row_hash in row_hashes(item, run.captures) if hashes.get(key) == row_hash}
    return hashes.keys() - alike


# ---- to hide


def _masks(source: ExtractInput, every: WantedPackets, shown: Redaction) -> MaskObserver:
    """What is hidden of the connections, decoded as a whole."""
    observer = MaskObserver(shown)
    packets = SelectedPackets(source.names, every.ids, source.settings.limits, source.on_progress)
    settings = Settings(source.settings.limits, source.settings.wanted | {"spans"})
    for item in Pipeline(packets, settings, decode_as=source.decode_as, observer=observer, keys=None).items():
        observer.take(item)
    observer.close()
    return observer
