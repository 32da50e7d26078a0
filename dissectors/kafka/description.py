"""The tables in, what ``mqsniff protocols kafka`` prints out."""

from __future__ import annotations

from collections import Counter

from dissectors.kafka import rows, specs
from dissectors.kafka.oracles import SELF, oracles_of, vouchers
from dissectors.kafka.sasl import MECHANISMS
from mqsniff.dissector import Table
from mqsniff.model import Value


def describe() -> dict[str, Table]:
    """APIs with their versions and layouts, error codes, releases and SASL mechanisms."""
    apis = [api for _, api in sorted(specs.apis().items())]
    return {
        "coverage": _coverage(apis),
        "apis": [_api_row(api) for api in apis],
        "errors": [
            {"code": code, "name": name, "retriable": code in specs.retriable_errors()}
            for code, name in sorted(specs.errors().items())
        ],
        "releases": [{"release": name, "apis": len(table)} for name, table in specs.releases().items()],
        "sasl_mechanisms": [{"name": name} for name in sorted(MECHANISMS)],
    }


def _coverage(apis: list[specs.Api]) -> Table:
    """How many layouts there are, and who vouches for them."""
    layouts = _layouts(apis)
    vouched = Counter(oracle for layout in layouts for oracle in oracles_of(*layout))
    legacy = sum(2 * max(0, api.legacy.last - api.legacy.first + 1) for api in apis)
    counts: dict[str, Value] = {
        "APIs": len(apis),
        "layouts (API, version, direction)": len(layouts),
        "of these, gone from the newest release": legacy,
        **{f"held against {oracle}": vouched[oracle] for oracle in vouchers()},
        "held against our own encoder only": vouched[SELF],
        "schemas of Apache Kafka": specs.release(),
    }
    return [{"what": what, "number": number} for what, number in counts.items()]


def _layouts(apis: list[specs.Api]) -> list[tuple[int, specs.Kind, int]]:
    """Every layout of these APIs."""
    kinds: tuple[specs.Kind, ...] = ("request", "response")
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
        "oracles": [*dict.fromkeys(oracle for layout in _layouts([api]) for oracle in oracles_of(*layout))],
        "listeners": list(api.listeners),
        "partitions": api.key in rows.KEYS,
        "about": api.about,
    }
