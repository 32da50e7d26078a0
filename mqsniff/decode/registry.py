"""Loads dissector classes from the entry-point group ``mqsniff.dissectors``, and picks the one for a connection.

1. Order is by entry-point name, so that a verdict does not depend on the order of installation.
2. A dissector that cannot be imported is a problem of the run, not the end of it.
3. YES beats MAYBE; MAYBE claims only with the hint of a port; a MORE of another dissector never delays a YES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

from mqsniff.decode.nameable import FOREIGN, UNKNOWN
from mqsniff.dissector import Dissector, Sample, Verdict
from mqsniff.model import Message

GROUP = "mqsniff.dissectors"


class LoadedDissector(NamedTuple):
    """One entry point: its class, or why it could not be loaded."""

    name: str
    dissector: type[Dissector] | None
    problem: str = ""


def load_dissectors() -> list[LoadedDissector]:
    """Every dissector of the entry-point group, by name."""
    return [_load(point) for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)]


def _load(point: EntryPoint) -> LoadedDissector:
    name = point.name
    try:
        loaded = point.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the border of the plugin
        return LoadedDissector(name, None, f"dissector {name} cannot be imported: {type(error).__name__}: {error}")
    if isinstance(loaded, type) and issubclass(loaded, Dissector):
        return LoadedDissector(name, loaded)
    return LoadedDissector(name, None, f"dissector {name} is no subclass of mqsniff.dissector.Dissector")


def package_of(name: str) -> str:
    """Name and version of the distribution of an entry point; empty if unknown."""
    for point in entry_points(group=GROUP, name=name):
        if point.dist is not None:
            return f"{point.dist.name} {point.dist.version}"
    return ""


def protocols(loaded: list[LoadedDissector]) -> list[str]:
    """Every value of the column ``protocol``: those of dissectors, then those that are only named."""
    decoded = {name for entry in loaded if entry.dissector is not None for name in entry.dissector.names}
    named = sorted(FOREIGN.keys() - decoded, key=lambda name: (name == UNKNOWN, name))
    return [*sorted(decoded), *named]


def message_names(loaded: list[LoadedDissector], wanted: Callable[[str], bool]) -> set[str] | None:
    """Names that messages of the wanted protocols may have; None if a dissector does not know its own."""
    names: set[str] = set()
    for entry in loaded:
        if entry.dissector is None or not any(map(wanted, entry.dissector.names)):
            continue
        own = entry.dissector.message_names()
        if own is None:
            return None
        names.update(own)
    return names


def code_names(loaded: list[LoadedDissector]) -> Callable[[Message, str, int], str | None]:
    """Tells what a number in a field of a message's body is called, as the dissectors know it."""
    by_protocol = {name: entry.dissector for entry in loaded if entry.dissector for name in entry.dissector.names}

    def code_name(message: Message, field: str, code: int) -> str | None:
        dissector = by_protocol.get(message.protocol)
        try:
            return None if dissector is None else dissector.code_name(message, field, code)
        except Exception:  # noqa: BLE001  # the border of the plugin: a number without its name is still shown
            return None

    return code_name


class Claim(NamedTuple):
    """A dissector that claims a connection, and why."""

    dissector: type[Dissector]
    detected_by: str


class Registry:
    """The dissectors of one run."""

    def __init__(self, loaded: list[LoadedDissector], decode_as: Mapping[int, str] | None = None) -> None:
        self.loaded = loaded
        self.dissectors = [entry.dissector for entry in loaded if entry.dissector is not None]
        self._decode_as = dict(decode_as or {})
        self.faults: list[str] = []
        """Errors of dissectors during detection; the owner empties it."""
        self._told: set[str] = set()
        self._by_name = {name: cls for cls in self.dissectors for name in cls.names}
        self._ports = frozenset(port for cls in self.dissectors for port in cls.ports) | self._decode_as.keys()

    def names(self) -> list[str]:
        """Protocols that can be decoded."""
        return sorted(self._by_name)

    def server_port(self, one: int, other: int) -> int | None:
        """Which of two ports is the server's, by --decode-as and well-known ports; None if neither or both are."""
        known = one in self._ports
        if known is (other in self._ports):
            return None
        return one if known else other

    def decode_as(self, server_port: int) -> type[Dissector] | None:
        """The dissector that the user wants for a port."""
        name = self._decode_as.get(server_port)
        return self._by_name.get(name) if name is not None else None

    def claim(self, client: Sample, server: Sample, server_port: int) -> tuple[Claim | None, bool]:
        """(dissector that claims the connection, or None; whether more bytes may lead to a claim)."""
        likely: type[Dissector] | None = None
        open_ended = False
        for cls in self.dissectors:
            verdict = self._detect(cls, client, server)
            if verdict is Verdict.YES:
                return Claim(cls, "content"), False
            if verdict is Verdict.MAYBE and likely is None and server_port in cls.ports:
                likely = cls
            open_ended = open_ended or verdict is not Verdict.NO
        if likely is not None:
            return Claim(likely, "port"), False
        return None, open_ended

    def _detect(self, cls: type[Dissector], client: Sample, server: Sample) -> Verdict:
        """The verdict of one dissector; NO if it raises, which is reported once."""
        try:
            return cls.detect(client, server)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # the border of the plugin
            fault = f"{type(error).__name__} in {cls.__name__}.detect: it takes no connection that it raises at"
            if fault not in self._told:
                self._told.add(fault)
                self.faults.append(fault)
            return Verdict.NO
