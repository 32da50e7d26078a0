"""Who takes a connection: content first, then hints of ports; plugins that break are contained."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from mqsniff.decode import registry
from mqsniff.decode.registry import Claim, LoadedDissector, Registry, load_dissectors
from mqsniff.dissector import Dissector, Sample, Verdict
from mqsniff.model import Frame, Message, Side


def speaker(name: str, verdict: Verdict, port: int = 0) -> type[Dissector]:
    return type(
        name, (Dissector,), {"names": (name,), "ports": frozenset({port}), "detect": classmethod(lambda *_: verdict)}
    )


def claim(*classes: type[Dissector], port: int = 1) -> tuple[Claim | None, bool]:
    return Registry([LoadedDissector(cls.names[0], cls) for cls in classes]).claim(Sample(b"x"), Sample(b""), port)


def test_a_yes_beats_a_maybe_with_its_port():
    likely, sure = speaker("likely", Verdict.MAYBE, 1), speaker("sure", Verdict.YES, 9)
    assert claim(likely, sure) == (Claim(sure, "content"), False)


def test_a_maybe_claims_only_with_its_port():
    likely = speaker("likely", Verdict.MAYBE, 7)
    assert claim(likely, port=7) == (Claim(likely, "port"), False)
    assert claim(likely, port=8) == (None, True)


def test_a_dissector_that_raises_takes_nothing_and_is_told_once():
    class Broken(speaker("broken", Verdict.YES)):
        @classmethod
        def detect(cls, client, server):
            raise ZeroDivisionError

    one = Registry([LoadedDissector("broken", Broken), LoadedDissector("sure", speaker("sure", Verdict.YES))])
    for _ in range(2):
        claimed, _ = one.claim(Sample(b"x"), Sample(b""), 1)
        assert claimed is not None
        assert claimed.dissector.names == ("sure",)
    assert one.faults == ["ZeroDivisionError in Broken.detect: it takes no connection that it raises at"]


@pytest.mark.parametrize(("verdict", "open_ended"), [(Verdict.NO, False), (Verdict.MORE, True)])
def test_nobody_may_claim(verdict, open_ended):
    assert claim(speaker("one", verdict, 1)) == (None, open_ended)


def test_the_servers_port_is_the_known_one():
    known = Registry([LoadedDissector("a", speaker("a", Verdict.NO, 4150))], {5000: "a"})
    assert known.server_port(4150, 60000) == 4150
    assert known.server_port(60000, 5000) == 5000
    assert known.server_port(4150, 5000) is None
    assert known.decode_as(5000) is known.dissectors[0]


def test_entry_points_that_cannot_be_used_become_problems(monkeypatch):
    points = [
        EntryPoint("b-missing", "no.such.module:Thing", registry.GROUP),
        EntryPoint("a-wrong", "collections:OrderedDict", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == registry.GROUP else [])
    loaded = load_dissectors()
    assert [(entry.name, entry.dissector) for entry in loaded] == [("a-wrong", None), ("b-missing", None)]
    assert "no subclass" in loaded[0].problem
    assert "ModuleNotFoundError" in loaded[1].problem


def test_the_built_in_dissectors_are_found():
    assert {"nsq", "nsqlookupd"} <= {entry.name for entry in load_dissectors() if entry.dissector}


def test_the_package_of_a_dissector_has_its_version_and_one_that_nobody_installed_none():
    assert registry.package_of("nsq").split()[0] == "mqsniff"
    assert registry.package_of("nobody") == ""


def test_a_number_is_named_by_the_dissector_of_its_message():
    class Named(speaker("named", Verdict.NO)):
        @classmethod
        def code_name(cls, message, field, code):
            return f"{message.protocol} {field} {code}"

    tell = registry.code_names([LoadedDissector("named", Named)])
    frame = Frame(Side.CLIENT, 0, 1, b"x", 0, 0, 1, 1, 0)
    assert tell(Message(frame, "named", "T", "request"), "error", 7) == "named error 7"
    assert tell(Message(frame, "other", "T", "request"), "error", 7) is None
