"""Configuration entries of bodies in, the same with those values hidden that may be secrets.

1. A value is secret where the broker says so (is_sensitive), or where its name says password, secret, token, jaas or
   key. What a sensitive entry was overridden by (its synonyms) is as secret as it.
2. Requests have no is_sensitive: names alone tell.
"""

from __future__ import annotations

import re
from typing import Any, Final

from dissectors.kafka.marks import Body, Named
from mqsniff.model import Secret, Span

SECRET_NAME: Final = re.compile(r"password|secret|token|jaas|key|credential", re.IGNORECASE)


def hide_secrets(named: Named | None, body: Body, *, sensitive: bool = False) -> None:
    """Replace secret values of a body, in place."""
    if named is None:
        return
    if named.fields:
        name, value = (body.get(field) for field in named.fields)
        sensitive = sensitive or body.get("is_sensitive") is True
        if value is not None and (sensitive or is_secret(name)):
            body[named.fields[1]] = _hidden(value)
    for field, array, inner in named.inner:
        found = body.get(field)
        for element in (found or ()) if array else filter(None, (found,)):
            hide_secrets(inner, element, sensitive=sensitive)


def is_secret(name: Any) -> bool:
    """Whether a name tells that its value is secret; one that cannot be read might."""
    return not isinstance(name, str) or SECRET_NAME.search(name) is not None


def _hidden(value: Any) -> Secret:
    return Secret(value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass"))


def hide_spans(spans: list[Span]) -> list[Span]:
    """The same for the fields of a message beside their bytes; a name stands before its value."""
    names: dict[str, Any] = {}
    sensitive = {_parent(span.path) for span in spans if span.path.endswith("is_sensitive") and span.value is True}
    out: list[Span] = []
    for span in spans:
        if span.meaning == "config_name":
            names[_parent(span.path)] = span.value
        if span.meaning == "config_value" and span.value is not None:
            parent = _parent(span.path)
            told = any(parent == one or parent.startswith(f"{one}.") for one in sensitive)
            if told or is_secret(names.get(parent)):
                span = span._replace(value=_hidden(span.value))  # noqa: PLW2901  # the same span, its value hidden
        out.append(span)
    return out


def _parent(path: str) -> str:
    return path.rpartition(".")[0]
