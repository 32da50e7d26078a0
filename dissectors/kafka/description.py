"""The tables in, what ``mqsniff protocols kafka`` prints out."""

from __future__ import annotations

from dissectors.kafka import rows, specs
from dissectors.kafka.sasl import MECHANISMS
from mqsniff.dissector import Table
from mqsniff.model import Value


def describe() -> dict[str, Table]:
    """APIs with their versions and layouts, error codes, releases and SASL mechanisms."""
    apis = [api for _, api in sorted(specs.apis().items())]
    layouts = sum(2 * (api.versions.last - api.versions.first + 1) for api in apis)
    legacy = sum(2 * max(0, api.legacy.last - api.legacy.first + 1) for api in apis)
    return {
        "coverage": [
            {"what": "APIs", "number": len(apis)},
            {"what": "layouts (API, version, direction)", "number": layouts},
            {"what": "of these, gone from the newest release", "number": legacy},
            {"what": "schemas of Apache Kafka", "number": specs.release()},
        ],
        "apis": [_api_row(api) for api in apis],
        "errors": [
            {"code": code, "name": name, "retriable": code in specs.retriable_errors()}
            for code, name in sorted(specs.errors().items())
        ],
        "releases": [{"release": name, "apis": len(table)} for name, table in specs.releases().items()],
        "sasl_mechanisms": [{"name": name} for name in sorted(MECHANISMS)],
    }


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
        "listeners": list(api.listeners),
        "partitions": api.key in rows.KEYS,
        "about": api.about,
    }
