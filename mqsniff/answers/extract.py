"""Captures and what the filters chose of them in, a capture of it to share out; what is hidden is overwritten in place.

1. The captures are read again and again: to list packets, to prove that these packets decode to the same rows, to find
   what is hidden, and to write. Memory holds the chosen messages' places and the packets of their connections, some 40
   bytes each; never a packet. Of a connection that does not decode to the same rows all messages without records come
   along, which may hold the state of its dissector; if that is not enough, all of it.
2. Packets keep times, link types and lengths; checksums of TCP follow what was overwritten (``tcppatch``). CRCs of
   record batches do not: a comment says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import BinaryIO

from mqsniff.answers.decryptedpackets import DecryptedPackets
from mqsniff.answers.extractchoice import ExtractChoice, RowHashes, RowKey, frame_place
from mqsniff.answers.extractcopy import ExtractInput, ExtractReport, PacketCopy
from mqsniff.answers.extractmasks import MaskObserver
from mqsniff.answers.extractpackets import PacketList, WantedPackets, list_packets
from mqsniff.answers.extractrecords import TlsRecordFinder
from mqsniff.dissector import Settings
from mqsniff.model import MessageItem
from mqsniff.tables.values import Redaction


def extract(
    source: ExtractInput,
    choice: ExtractChoice,
    shown: Redaction,
    stream: BinaryIO,
    *,
    decrypted: bool = False,
    with_keys: bool = False,
) -> ExtractReport:
    """Write the extract of what was chosen; ``shown`` that hides nothing writes packets as they are.

    ``decrypted``: TLS that keys open goes out as plain TCP; ``with_keys``: the lines of key logs that open the
    connections go into it.
    """
    choice.finish()
    report = ExtractReport(connections=len(choice.connections))
    report.messages = sum(bool(f.line) for each in choice.connections.values() for f in each.frames.values())
    if decrypted:
        plain = {name: each.info for name, each in choice.connections.items() if each.can_be_plain}
        source = replace(source, plain={name: (info.tls_start, info) for name, info in plain.items() if info.tls_start})
    report.decrypted = len(source.plain or ())
    report.encrypted = sum(each.is_decrypted for each in choice.connections.values()) - report.decrypted
    lists = _listed(source, choice)
    wanted = _proven(source, choice, lists, report)
    if with_keys:
        report.key_lines = _key_lines(source, wanted)
    masks = None
    if not (shown.secrets and shown.raw and shown.payload):
        masks = _masks(source, WantedPackets.of(lists.values(), every=True), shown)
    PacketCopy(source, wanted, masks, shown, report).write(stream)
    return report


def _listed(source: ExtractInput, choice: ExtractChoice) -> dict[str, PacketList]:
    """The packets of the chosen connections; whole ones where plain bytes stand elsewhere than messages say."""
    packets = source.source()
    lists = list_packets(packets, choice.connections, source.settings.limits)
    if isinstance(packets, DecryptedPackets):
        for name in source.plain or ():
            chosen = choice.connections[name]
            chosen.whole = chosen.whole or name in packets.holed or bool(chosen.info.proxy_bytes)
    return lists


# ---- to decode to the same rows


def _proven(
    source: ExtractInput, choice: ExtractChoice, lists: dict[str, PacketList], report: ExtractReport
) -> WantedPackets:
    """The packets to write: those that decode to the rows of what was chosen."""
    wanted = _wanted(source, lists)
    unlike = _unlike(source, wanted, choice.hashes)
    for widen in (_add_recordless, _take_whole):
        doubtful = [lists[name] for name in {key[1] for key in unlike} if name in lists]
        doubtful = [each for each in doubtful if not each.chosen.whole]
        if not doubtful:
            break
        widen(source, doubtful)
        report.whole = sum(each.chosen.whole for each in doubtful)
        wanted = _wanted(source, lists)
        unlike = _unlike(source, wanted, choice.hashes)
    report.unlike = len(unlike)
    return wanted


def _wanted(source: ExtractInput, lists: dict[str, PacketList]) -> WantedPackets:
    """The packets of what is wanted; of TLS that stays encrypted, those of its records, which are looked up first."""
    cut = [each for each in lists.values() if each.chosen.is_decrypted and not each.chosen.whole]
    if cut and source.plain is None:
        packets = WantedPackets.of(cut, every=True)
        for _ in source.run(packets.ids, observer=TlsRecordFinder(each.chosen for each in cut)).items():
            pass
    return WantedPackets.of(lists.values())


def _add_recordless(source: ExtractInput, doubtful: list[PacketList]) -> None:
    """Want all messages of connections that carry no records: what later ones are read by is among them."""
    packets = WantedPackets.of(doubtful, every=True)
    settings = Settings(source.settings.limits, source.settings.wanted | {"records"})
    chosen = {each.chosen.info.connection_id: each.chosen for each in doubtful}
    for item in source.run(packets.ids, settings).items():
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
    run = source.run(wanted.ids)
    alike: set[RowKey] = set()
    rows = RowHashes({name: start for name, (start, _) in (source.plain or {}).items()})
    for item in run.items():
        if item is not None:
            alike |= {key for key, row_hash in rows.of(item, run.captures) if hashes.get(key) == row_hash}
    return hashes.keys() - alike


# ---- keys


def _key_lines(source: ExtractInput, wanted: WantedPackets) -> list[str]:
    """The lines of key logs that open the TLS of some packets."""
    run = source.run(wanted.ids)
    if run.keys is not None:
        run.keys.note_used()
    for _ in run.items():
        pass
    return [] if run.keys is None else run.keys.used_lines()


# ---- to hide


def _masks(source: ExtractInput, every: WantedPackets, shown: Redaction) -> MaskObserver:
    """What is hidden of the connections, decoded as a whole."""
    observer = MaskObserver(shown)
    settings = Settings(source.settings.limits, source.settings.wanted | {"spans"})
    for item in source.run(every.ids, settings, observer).items():
        observer.take(item)
    observer.close()
    return observer
