"""The tables in, what ``mqsniff protocols kafka`` prints out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from mqsniff.dissector import DroppedVersions, Table
from mqsniff.model import Value
from mqsniff_kafka import rows, specs
from mqsniff_kafka.inventory import inventory
from mqsniff_kafka.logins import TOKEN
from mqsniff_kafka.oracles import SELF, LayoutPlace, oracles_of, reasons, vouchers
from mqsniff_kafka.ordinary import ORDINARY
from mqsniff_kafka.responses import UNASKED
from mqsniff_kafka.sasl import MECHANISMS

_LAST_OF_3: Final = "3.9"
_FIRST_OF_4: Final = "4.0"

UNANSWERED: Final = {"Produce": "acks is 0"}
"""API -> when nobody answers it."""


def describe() -> dict[str, Table]:
    """APIs with their versions and layouts, who vouches for these, error codes, releases and SASL mechanisms."""
    apis = [api for _, api in sorted(specs.apis().items())]
    alone = without_oracle(reasons())
    return {
        "coverage": _coverage(apis),
        **({"oracles": _oracles(apis)} if vouchers() else {}),
        **({"without_oracle": alone} if alone else {}),
        "apis": [_api_row(api) for api in apis],
        "errors": [
            {"code": code, "name": name, "retriable": code in specs.retriable_errors()}
            for code, name in sorted(specs.errors().items())
        ],
        "ordinary_answers": ORDINARY.described(),
        "other_messages": [
            {"name": TOKEN, "answered_by": [TOKEN], "about": "a SASL token without a header, after SaslHandshake v0"},
            {"name": UNASKED, "answered_by": [], "about": "an answer whose request was not captured"},
        ],
        **inventory(),
        "releases": [{"release": name, "apis": len(table)} for name, table in specs.releases().items()],
        "sasl_mechanisms": [{"name": name} for name in sorted(MECHANISMS)],
    }


def dropped_versions() -> dict[str, DroppedVersions]:
    """What the first release of Kafka 4 no longer takes of its APIs, and the last of Kafka 3 took (KIP-896).

    APIs that went with ZooKeeper were spoken between brokers only.
    """
    releases = specs.releases()
    old, new = releases[_LAST_OF_3], releases[_FIRST_OF_4]
    dropped = {
        specs.apis()[key].name: DroppedVersions(new[key][0], f"Kafka {_FIRST_OF_4}")
        for key, (first, _, _) in old.items()
        if key in new and new[key][0] > first
    }
    return dict(sorted(dropped.items()))


def message_names() -> frozenset[str]:
    """Names that messages may have."""
    return frozenset((*(api.name for api in specs.apis().values()), TOKEN, UNASKED))


def _coverage(apis: list[specs.Api]) -> Table:
    """How many layouts there are, and how many of them somebody else has written."""
    layouts = _layouts(apis)
    alone = sum(oracles_of(*layout) == (SELF,) for layout in layouts)
    legacy = sum(2 * max(0, api.legacy.last - api.legacy.first + 1) for api in apis)
    counts: dict[str, Value] = {
        "APIs": len(apis),
        "layouts (API, version, direction)": len(layouts),
        "of these, gone from the newest release": legacy,
        **({"of these, held against others' encoders": f"{len(layouts) - alone}/{len(layouts)}"} if vouchers() else {}),
        "schemas of Apache Kafka": specs.release(),
    }
    return [{"what": what, "number": number} for what, number in counts.items()]


def _oracles(apis: list[specs.Api]) -> Table:
    """Each oracle, how many layouts it vouches for, and how many of these nobody else does; our own encoder last."""
    names = [oracles_of(*layout) for layout in _layouts(apis)]
    held = Counter(name for some in names for name in some)
    only = Counter(some[0] for some in names if len(some) == 1)
    return [{"oracle": name, "layouts": held[name], "alone": only[name]} for name in (*vouchers(), SELF)]


def without_oracle(why: Mapping[LayoutPlace, str]) -> Table:
    """Layouts that only our own encoder has written, with the reason."""
    return [
        {"api": specs.apis()[key].name, "kind": kind, "version": version, "reason": reason}
        for (key, kind, version), reason in sorted(why.items())
    ]


def _layouts(apis: list[specs.Api]) -> list[tuple[int, specs.DefinitionKind, int]]:
    """Every layout of these APIs."""
    kinds: tuple[specs.DefinitionKind, ...] = ("request", "response")
    return [
        (api.key, kind, version)
        for api in apis
        for kind in kinds
        for version in range(api.versions.first, api.versions.last + 1)
    ]


def _api_row(api: specs.Api) -> dict[str, Value]:
    both = (*specs.definitions(api.key, "request"), *specs.definitions(api.key, "response"))
    variants: list[Value] = [*dict.fromkeys(one.variant for one in both if one.variant)]
    return {
        "key": api.key,
        "name": api.name,
        "versions": str(api.versions),
        "legacy": str(api.legacy),
        "flexible": str(api.flexible_requests),
        "variants": variants,
        "oracles": [*dict.fromkeys(_family(oracle) for layout in _layouts([api]) for oracle in oracles_of(*layout))],
        "listeners": list(api.listeners),
        "partitions": api.key in rows.KEYS,
        "answered_by": [api.name],
        "unanswered": UNANSWERED.get(api.name),
        "about": api.about,
    }


def _family(oracle: str) -> str:
    """An oracle without its release."""
    return oracle.partition(" ")[0]
