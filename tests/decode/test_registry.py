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


def test_of_several_that_are_sure_the_first_gets_it_and_of_several_with_the_port_too():
    one, two = speaker("one", Verdict.YES), speaker("two", Verdict.YES)
    assert claim(one, two) == (Claim(one, "content"), False)
    one, two = speaker("one", Verdict.MAYBE, 7), speaker("two", Verdict.MAYBE, 7)
    assert claim(one, two, port=7) == (Claim(one, "port"), False)


@pytest.mark.parametrize(
    ("verdicts", "open_ended"),
    [
        ((Verdict.NO, Verdict.NO), False),
        ((Verdict.MORE, Verdict.NO), True),
        ((Verdict.NO, Verdict.MORE), True),
        ((Verdict.MAYBE, Verdict.NO), True),
    ],
)
def test_a_connection_is_open_while_one_dissector_may_still_claim_it(verdicts, open_ended):
    classes = [speaker(f"n{at}", verdict, 9) for at, verdict in enumerate(verdicts)]
    assert claim(*classes) == (None, open_ended)


def test_a_port_claims_though_another_dissector_wants_more_bytes():
    wants, likely = speaker("wants", Verdict.MORE), speaker("likely", Verdict.MAYBE, 7)
    assert claim(wants, likely, port=7) == (Claim(likely, "port"), False)


def test_protocols_and_ports_are_those_of_the_dissectors_that_could_be_loaded():
    loaded = [LoadedDissector("b", speaker("b", Verdict.NO, 4150)), LoadedDissector("a", None, "why")]
    loaded.append(LoadedDissector("c", speaker("c", Verdict.NO, 0)))
    known = Registry(loaded, {5000: "b", 6000: "nobody"})
    assert (known.names(), known.loaded, len(known.dissectors)) == (["b", "c"], loaded, 2)
    assert known.server_port(6000, 1) == 6000
    assert known.server_port(1, 2) is None
    assert [known.decode_as(port) for port in (5000, 6000, 4150)] == [known.dissectors[0], None, None]
    assert registry.protocols(loaded)[:2] == ["b", "c"]
    assert registry.protocols(loaded)[-1] == "unknown"


def test_different_faults_of_a_dissector_are_told_each_once():
    class Broken(speaker("broken", Verdict.YES)):
        @classmethod
        def detect(cls, client, server):
            raise KeyError if client.data == b"k" else SystemExit

    one = Registry([LoadedDissector("broken", Broken)])
    for data in (b"k", b"s", b"k", b"s"):
        assert one.claim(Sample(data), Sample(b""), 1) == (None, False)
    assert [fault.split()[0] for fault in one.faults] == ["KeyError", "SystemExit"]


def test_a_name_of_a_number_that_its_dissector_cannot_tell_is_none():
    class Raising(speaker("raising", Verdict.NO)):
        @classmethod
        def code_name(cls, message, field, code):
            raise KeyError(code)

    tell = registry.code_names([LoadedDissector("raising", Raising), LoadedDissector("absent", None)])
    frame = Frame(Side.CLIENT, 0, 1, b"x", 0, 0, 1, 1, 0)
    assert tell(Message(frame, "raising", "T", "request"), "error", 7) is None


def test_why_a_dissector_cannot_be_used_is_told_with_its_name(monkeypatch):
    points = [EntryPoint("b", "no_such_module", registry.GROUP), EntryPoint("a", "collections:OrderedDict", "g")]
    monkeypatch.setattr(registry, "entry_points", lambda **_: points)
    assert load_dissectors() == [
        LoadedDissector("a", None, "dissector a is no subclass of mqsniff.dissector.Dissector"),
        LoadedDissector(
            "b", None, "dissector b cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"
        ),
    ]
