"""What is known of a flow in, bytes out, and back: pickles that name what all flows of a task share.

1. Pickles are read by the same version of mqsniff and of the dissectors as wrote them.
2. They are read as input of unknown origin, since OUT may come from another user: they make objects of classes that
   decode (``_STATEFUL``) and of ``_PLAIN``, and call functions of dissectors and methods of such objects; nothing else.
3. Keys of TLS are in no pickle: they shall not lie in OUT.
4. A flow that holds anything else is not pickled: its segments are carried instead (``carried``, rule 2).
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final, NamedTuple

from mqsniff.batch.carried import CarriedError
from mqsniff.batch.flowitems import FlowDecoder
from mqsniff.decode.conversation import RunContext
from mqsniff.filters.itemfilter import FilterState


class KnownFlow(NamedTuple):
    """What is known of a flow between two runs."""

    decoder: FlowDecoder
    filtered: FilterState | None
    """What the filters know of it."""
    captures: dict[int, str]
    """Number -> name of the captures that it may refer to."""


class Pickles:
    """Pickles flows of one task, and restores them. What all flows share is named by its number."""

    def __init__(self, context: RunContext) -> None:
        registry = context.registry
        keys = [] if context.keys is None else [context.keys]
        self._shared: list[object] = [context, registry, context.settings, context.settings.limits]
        self._shared += [*registry.dissectors, *keys]
        self._numbers = {id(each): number for number, each in enumerate(self._shared)}
        self._dissectors = {cls.__module__.partition(".")[0] for cls in registry.dissectors}

    def dumped(self, known: KnownFlow) -> bytes | None:
        """A pickle; None for a flow that cannot be pickled (rule 2)."""
        out = io.BytesIO()
        try:
            _Pickler(out, self._numbers, self._dissectors).dump(tuple(known))
        except (TypeError, pickle.PicklingError, AttributeError):
            return None
        return out.getvalue()

    def loaded(self, pickled: bytes) -> KnownFlow:
        """What ``dumped`` got; CarriedError for anything else."""
        try:
            known = KnownFlow(*_Unpickler(io.BytesIO(pickled), self._shared, self._dissectors).load())
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001  # a damaged pickle raises anything
            raise CarriedError(f"{type(error).__name__}: {error}") from None
        if not isinstance(known.decoder, FlowDecoder):
            raise CarriedError("no connection")
        return known


class _Pickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO, numbers: dict[int, int], dissectors: set[str]) -> None:
        super().__init__(out, protocol=5)
        self._numbers = numbers
        self._dissectors = dissectors

    def persistent_id(self, value: object) -> int | None:
        """The number of what all flows share; PicklingError for what ``_Unpickler`` would refuse."""
        number = self._numbers.get(id(value))
        if number is None and isinstance(value, (type, FunctionType, BuiltinFunctionType)):
            module, name = value.__module__, value.__qualname__
            known = value is getattr or _is_plain(module, name) or _decodes(value, module, self._dissectors)
            if not known or (isinstance(value, type) and not _is_made_without_init(value)):
                raise pickle.PicklingError(f"{module}.{name}")
        return number

    def reducer_override(self, value: Any) -> Any:
        """A frozen dataclass is made of its fields: a compiled one cannot be filled later."""
        params = getattr(type(value), "__dataclass_params__", None)
        if params is None or not params.frozen:
            return NotImplemented
        return type(value), tuple(getattr(value, field.name) for field in fields(value))


_PLAIN: Final[Mapping[str, frozenset[str]]] = {
    "builtins": frozenset(("bytearray", "complex", "frozenset", "range", "set", "slice", "str", "tuple")),
    "collections": frozenset(("Counter", "OrderedDict", "defaultdict", "deque")),
    "array": frozenset(("array", "_array_reconstructor")),
    "copyreg": frozenset(("__newobj__",)),
    "_struct": frozenset(("Struct",)),
    "functools": frozenset(("partial",)),
    "numpy": frozenset(("dtype", "ndarray")),
    "numpy._core.numeric": frozenset(("_frombuffer",)),
    "numpy._core.multiarray": frozenset(("_reconstruct", "scalar")),
    "ipaddress": frozenset(("IPv4Address", "IPv6Address")),
}
"""Classes and functions of other packages that states need, by module."""

_STATEFUL: Final = (
    *("mqsniff.batch.flowitems.", "mqsniff.codecs.", "mqsniff.decode.", "mqsniff.dissector.", "mqsniff.framing."),
    *("mqsniff.filters.itemfilter.", "mqsniff.limits.", "mqsniff.model.", "mqsniff.spec.", "mqsniff.streams."),
    *("mqsniff.tls.", "mqsniff.topics."),
)
"""Modules and packages whose classes states need; none of these does anything to files but reading them."""
_SECRET: Final = ("mqsniff.tls.keyschedule.", "mqsniff.tls.protection.")
"""Modules whose objects hold keys."""


def _is_plain(module: str, name: str) -> bool:
    return name in _PLAIN.get(module, ())


def _decodes(found: Any, module: str, dissectors: set[str]) -> bool:
    """Whether a state may name this, found in a module; what the module imports belongs to another one."""
    if getattr(found, "__module__", None) != module:
        return False
    if module.partition(".")[0] in dissectors:
        return callable(found)
    return isinstance(found, type) and f"{module}.".startswith(_STATEFUL) and not f"{module}.".startswith(_SECRET)


@cache
def _is_made_without_init(cls: Any) -> bool:
    """Whether an object can be made to be filled: some compiled classes (mypyc) call ``__init__`` at once."""
    if not hasattr(cls, "__mypyc_attrs__"):
        return True
    try:
        cls.__new__(cls)
    except TypeError:
        return False
    return True


class _Unpickler(pickle.Unpickler):
    def __init__(self, source: io.BytesIO, shared: Sequence[object], dissectors: set[str]) -> None:
        super().__init__(source)
        self._shared = shared
        self._dissectors = dissectors

    def persistent_load(self, number: int) -> object:
        return self._shared[number]

    def find_class(self, module: str, name: str) -> Any:
        """A class or function; UnpicklingError for one that decodes nothing (rule 2)."""
        if (module, name) == ("builtins", "getattr"):  # how a bound method is pickled
            return self._method
        if _is_plain(module, name):
            return super().find_class(module, name)
        if module.partition(".")[0] in self._dissectors or f"{module}.".startswith(_STATEFUL):
            found = super().find_class(module, name)
            if _decodes(found, module, self._dissectors):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a connection's state")

    def _method(self, owner: object, name: str) -> object:
        """A bound method of an object of a class that a state may hold."""
        self.find_class(type(owner).__module__, type(owner).__qualname__)
        if name.startswith("__") or not callable(vars(type(owner)).get(name)):
            raise pickle.UnpicklingError(f"{name} is no method of a connection's state")
        return getattr(owner, name)
