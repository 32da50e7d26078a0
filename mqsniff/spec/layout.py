"""One message at one version: decodes bytes by the fast decoder, or by the slow one if they are odd.

1. The layout is resolved and its fast decoder compiled at first use.
2. ``decode`` never raises on traffic: ``DecodedBody`` has damage and problems.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from mqsniff.limits import Limits
from mqsniff.model import Span
from mqsniff.spec.compile import FALLBACK_ERRORS, Fast, compile_struct, source
from mqsniff.spec.interpret import DEFAULT_LIMITS, DecodedBody, DecodeWindow, interpret
from mqsniff.spec.schema import MessageSpec, Struct, resolve

FoundBy: TypeAlias = tuple[Callable[..., "Layout"], tuple[Any, ...]]


class Layout:
    """A message at one version. ``note`` distinguishes layouts of the same name and version ("" for today's)."""

    def __init__(self, spec: MessageSpec, version: int, note: str = "", found_by: FoundBy | None = None) -> None:
        """``found_by``: a function and its arguments that give this layout in any process; pickles hold only these."""
        self.name: Final = spec.name
        self.version: Final = version
        self.note: Final = note
        self._spec = spec
        self._struct: Struct | None = None
        self._fast: Fast | None = None
        self._found_by = found_by

    def __reduce__(self) -> FoundBy:
        return self._found_by or (Layout, (self._spec, self.version, self.note))

    def __repr__(self) -> str:
        return f"<Layout {self.name} v{self.version}{' ' + self.note if self.note else ''}>"

    @property
    def struct(self) -> Struct:
        """The resolved fields; ValueError for a version that the definition does not have."""
        if self._struct is None:
            self._struct = resolve(self._spec, self.version)
        return self._struct

    @property
    def fast(self) -> Fast:
        """The compiled decoder."""
        if self._fast is None:
            self._fast = compile_struct(self.struct)
        return self._fast

    @property
    def source(self) -> str:
        """The Python source of the compiled decoder."""
        return source(self.struct)

    def exact(self, data: bytes, pos: int, limits: Limits = DEFAULT_LIMITS) -> dict[str, Any] | None:
        """The body if nothing is odd and it ends with the data; else None, and ``decode`` says why. Hot."""
        end, fast = len(data), self.fast
        try:
            body, stop = fast(data, pos, end, min(limits.elements_max, end - pos))
        except FALLBACK_ERRORS:
            return None
        return body if stop == end else None

    def decode(
        self,
        data: bytes,
        pos: int = 0,
        end: int | None = None,
        *,
        claimed: int | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> DecodedBody:
        """Decode ``data[pos:end]``; bytes may follow the result's ``stop``.

        ``claimed``: end of the message by its size, if the capture lost bytes of it; all bytes before the loss are
        decoded then.
        """
        end = len(data) if end is None else end
        if claimed is None or claimed <= end:
            fast = self.fast
            try:
                body, stop = fast(data, pos, end, min(limits.elements_max, end - pos))
            except FALLBACK_ERRORS:
                claimed = end
            else:
                return DecodedBody(body, stop)
        return interpret(self.struct, data, DecodeWindow(pos, end, claimed), limits=limits)

    def spans(
        self,
        data: bytes,
        pos: int = 0,
        end: int | None = None,
        *,
        claimed: int | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> list[Span]:
        """Every field of ``data[pos:end]`` beside its bytes."""
        end = len(data) if end is None else end
        found: list[Span] = []
        interpret(self.struct, data, DecodeWindow(pos, end, max(end, claimed or end)), spans=found, limits=limits)
        return found
