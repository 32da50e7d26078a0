"""Hides values of configuration entries that may be secrets.

1. A value is secret if the broker says so (is_sensitive), if its name contains password, secret, token, jaas or key,
   or if it holds a URI with a password. The synonyms of a sensitive entry are secret too.
2. Requests have no is_sensitive: only names and values decide. If the capture cut is_sensitive off a response, the
   value counts as secret.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from mqsniff.model import Secret, Span
from mqsniff.spec.wire import is_unclear
from mqsniff_kafka.fieldpaths import SENSITIVE, BodyFields, Named

SECRET_NAME: Final = re.compile(r"password|secret|token|jaas|key|credential", re.IGNORECASE)
CREDENTIALS: Final = re.compile(r"://[^/?#@\s]*:[^/?#@\s]*@")
"""User and password in a URI (RFC 3986, section 3.2.1)."""


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


def hide_unclear(texts: Collection[str], body: BodyFields) -> None:
    """Replace unclear values of these fields, in place: a wrong length may have put a secret there."""
    if not texts:
        return
    for name, value in body.items():
        if isinstance(value, dict):
            hide_unclear(texts, value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for element in value:
                hide_unclear(texts, element)
        elif name in texts:
            body[name] = shown_text(value)


def shown_text(value: Any) -> Any:
    """A text beside secrets, or a list of such; hidden where it is unclear."""
    if isinstance(value, list):
        return list(map(shown_text, value))
    return hidden(value) if is_unclear(value) else value


def is_secret(name: Any, value: Any = None) -> bool:
    """Whether a value is secret by its name or by itself; true for a name that cannot be read."""
    if not isinstance(name, str) or SECRET_NAME.search(name) is not None:
        return True
    return isinstance(value, str) and CREDENTIALS.search(value) is not None


def hidden(value: Any) -> Secret:
    """A value that is shown as its length only."""
    return Secret(value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass"))


def hide_spans(named: Named | None, spans: list[Span]) -> list[Span]:
    """Hide secret values among the spans of a message; the span of a name precedes that of its value."""
    names: dict[str, Any] = {}
    judged = _judged(named)
    sensitive_at = {_parent(span.path): span.value is not False for span in spans if span.path.endswith(SENSITIVE)}
    out: list[Span] = []
    for span in spans:
        if span.meaning == "config_name":
            names[_parent(span.path)] = span.value
        if span.meaning == "config_value" and span.value is not None:
            parent = _parent(span.path)
            if _around(sensitive_at, parent, default=judged) or is_secret(names.get(parent), span.value):
                span = span._replace(value=hidden(span.value))  # noqa: PLW2901  # the same span, its value hidden
        out.append(span)
    return out


def _judged(named: Named | None) -> bool:
    """Whether the entries of a layout have the field is_sensitive."""
    return named is not None and (named.judged or any(_judged(inner) for *_, inner in named.inner))


def _around(sensitive_at: dict[str, bool], path: str, *, default: bool) -> bool:
    """is_sensitive of the entry at ``path``, else of the nearest struct around it."""
    while path:
        if path in sensitive_at:
            return sensitive_at[path]
        path = _parent(path)
    return default


def _parent(path: str) -> str:
    return path.rpartition(".")[0]
