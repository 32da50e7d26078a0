"""Configuration entries of bodies in, the same with those values hidden that may be secrets.

1. A value is secret where the broker says so (is_sensitive), or where its name says password, secret, token, jaas or
   key, or where it holds a URI with a password. What a sensitive entry was overridden by (its synonyms) is as secret.
2. Requests have no is_sensitive: names alone tell. Where a response should have it and has lost it with its end, the
   value counts as secret.
"""

from __future__ import annotations

import re
from typing import Any, Final

from mqsniff.model import Secret, Span
from mqsniff_kafka.fieldpaths import SENSITIVE, BodyFields, Named

SECRET_NAME: Final = re.compile(r"password|secret|token|jaas|key|credential", re.IGNORECASE)
CREDENTIALS: Final = re.compile(r"://[^/?#@\s]*:[^/?#@\s]*@")
"""The user information of a URI with a password (RFC 3986, section 3.2.1)."""


def hide_secrets(named: Named | None, body: BodyFields, *, sensitive: bool = False) -> None:
    """Replace secret values of a body, in place."""
    if named is None:
        return
    if named.fields:
        name, value = (body.get(field) for field in named.fields)
        sensitive = sensitive or (named.judged and body.get(SENSITIVE) is not False)
        if value is not None and (sensitive or is_secret(name, value)):
            body[named.fields[1]] = hidden(value)
    for field, array, inner in named.inner:
        found = body.get(field)
        for element in (found or ()) if array else filter(None, (found,)):
            hide_secrets(inner, element, sensitive=sensitive)


def is_secret(name: Any, value: Any = None) -> bool:
    """Whether name or value tell that the value is secret; a name that cannot be read might."""
    if not isinstance(name, str) or SECRET_NAME.search(name) is not None:
        return True
    return isinstance(value, str) and CREDENTIALS.search(value) is not None


def hidden(value: Any) -> Secret:
    """A value that is shown as its length only."""
    return Secret(value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass"))


def hide_spans(named: Named | None, spans: list[Span]) -> list[Span]:
    """The same for the fields of a message beside their bytes; a name stands before its value."""
    names: dict[str, Any] = {}
    judged = _judged(named)
    told = {_parent(span.path): span.value is not False for span in spans if span.path.endswith(SENSITIVE)}
    out: list[Span] = []
    for span in spans:
        if span.meaning == "config_name":
            names[_parent(span.path)] = span.value
        if span.meaning == "config_value" and span.value is not None:
            parent = _parent(span.path)
            if _around(told, parent, default=judged) or is_secret(names.get(parent), span.value):
                span = span._replace(value=hidden(span.value))  # noqa: PLW2901  # the same span, its value hidden
        out.append(span)
    return out


def _judged(named: Named | None) -> bool:
    """Whether a layout has entries that say themselves if they are sensitive."""
    return named is not None and (named.judged or any(_judged(inner) for *_, inner in named.inner))


def _around(told: dict[str, bool], path: str, *, default: bool) -> bool:
    """What the entry at ``path`` says of itself, or else the nearest around it."""
    while path:
        if path in told:
            return told[path]
        path = _parent(path)
    return default


def _parent(path: str) -> str:
    return path.rpartition(".")[0]
