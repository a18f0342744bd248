"""The decorator: a tool that stays itself, and asks the active run before each call."""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

import wrapt

from repeatguard_sdk._guarding import guarded_call, without_receiver
from repeatguard_sdk._key import compile_key
from repeatguard_sdk._portable import is_async, raw_function
from repeatguard_sdk._registry import Registry, Tool, default_registry
from repeatguard_sdk._scope import active
from repeatguard_sdk._spec import ToolSpec, declare, find_record
from repeatguard_sdk._types import MISSING, Effect, Mode, Rule
from repeatguard_sdk.exceptions import ToolDeclarationError

if TYPE_CHECKING:
    _FunctionWrapper = wrapt.FunctionWrapper[..., Any]
    _BoundFunctionWrapper = wrapt.BoundFunctionWrapper[..., Any]
else:
    _FunctionWrapper = wrapt.FunctionWrapper
    _BoundFunctionWrapper = wrapt.BoundFunctionWrapper

F = TypeVar("F", bound=Callable[..., Any])


@overload
def guarded_tool(fn: F, /) -> F: ...
@overload
def guarded_tool(
    *,
    case_fold: Iterable[str] = ...,
    money_fields: Iterable[str] = ...,
    fields: Mapping[str, Rule] | None = ...,
    effect: Effect = ...,
    repeatable: bool = ...,
    transient: Iterable[type[BaseException]] = ...,
    volatile: Iterable[str] | Callable[[Any], Any] = ...,
    empty: Any = ...,
    max_calls: int | None = ...,
    slot: str | None = ...,
    option: str | None = ...,
    name: str | None = ...,
    mode: Mode | None = ...,
    registry: Registry | None = ...,
) -> Callable[[F], F]: ...
def guarded_tool(
    fn: Any = MISSING,
    /,
    *,
    case_fold: Iterable[str] = (),
    money_fields: Iterable[str] = (),
    fields: Mapping[str, Rule] | None = None,
    effect: Effect = "read",
    repeatable: bool = False,
    transient: Iterable[type[BaseException]] = (TimeoutError, ConnectionError),
    volatile: Iterable[str] | Callable[[Any], Any] = (),
    empty: Any = MISSING,
    max_calls: int | None = None,
    slot: str | None = None,
    option: str | None = None,
    name: str | None = None,
    mode: Mode | None = None,
    registry: Registry | None = None,
) -> Any:
    """Guard a tool an agent calls, and declare what makes two calls of it the same.

    Put it directly above ``def``, below the decorator of a framework; outside (above)
    ``@classmethod`` and ``@staticmethod``. The tool keeps its signature, hints, docstring and
    binding, and always gets its arguments as given. Outside a `Run` it is the plain tool.

    Args:
        fn: the function, if the decorator is used bare.
        case_fold: identifier parameters: white space collapsed, upper-cased.
        money_fields: amounts, compared to the cent.
        fields: parameter to rule: ``"exact"``, ``"space"``, ``"text"``, ``"id"``, ``"money"``,
            ``"path"``, ``"ignore"``, or a callable value -> value.
        effect: what a call may do: ``"read"``, ``"write"``, ``"live"`` (status, clock),
            ``"ask"`` (the user), ``"bookkeeping"`` (plan, todo), ``"final"`` (its success ends
            the task), ``"unknown"``.
        repeatable: an identical call is meant to act again: counted, never withheld.
        transient: exception types whose retry is not a repeat.
        volatile: parts of a result that do not count when results are compared: dotted names,
            or a callable result -> comparable.
        empty: a value or a predicate: the results that found nothing.
        max_calls: budget of this tool in one run; calls beyond it are refused, and in the fourth turn
            with nothing done in between they end it.
        slot: for ``effect="ask"``: the parameter whose value names the fact asked for.
        option: how the tool reads in a list of options; by default its docstring's first sentence.
        name: the name the model sees; by default the function's.
        mode: overrides the policy's mode for this tool.
        registry: another registry than the default one.

    Raises:
        ToolDeclarationError: the declaration cannot work; the text says what to write instead.

    Example:
        >>> @guarded_tool(case_fold=["order_id"])
        ... def get_order(order_id: str) -> str:
        ...     "Look an order up."
        ...     return f"{order_id}: shipped"
        >>> get_order("a1")
        'a1: shipped'
    """
    target: Any = default_registry if registry is None else registry
    if not isinstance(target, Registry):
        msg = f"guarded_tool: registry must be a Registry, not {registry!r}; write Registry()"
        raise ToolDeclarationError(msg)

    def decorate(fn: Any) -> Any:
        spec = declare(
            fn,
            case_fold=case_fold,
            money_fields=money_fields,
            fields=fields,
            effect=effect,
            repeatable=repeatable,
            transient=transient,
            volatile=volatile,
            empty=empty,
            max_calls=max_calls,
            slot=slot,
            option=option,
            name=name,
            mode=mode,
        )
        tool = Tool(spec=spec, keys=compile_key(spec), is_async=is_async(fn))
        guard = _Guarded(fn, tool)
        tool.attach(guard)
        target.add(tool)
        return guard

    return decorate if fn is MISSING else decorate(fn)


def tool_of(obj: Any) -> Tool | None:
    """Return the record of a guarded tool, or None for anything else; found where `spec_of` finds."""
    record = find_record(obj)
    return record if isinstance(record, Tool) else None


def spec_of(obj: Any) -> ToolSpec | None:
    """Return what was declared of a guarded tool, or None for anything else.

    Found on functions, bound methods, class and static methods, under ``functools.wraps`` layers
    and partials, and on a function that a framework rebuilt from a guard's code.
    """
    tool = tool_of(obj)
    return None if tool is None else tool.spec


# -- the way of a call ---------------------------------------------------------------------------


async def _guarded_acall(tool: Tool, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Call a coroutine tool through the run that is active here, if there is one."""
    run = active.get()
    if run is None:
        return await wrapped(*args, **kwargs)
    if run.guard is None:
        try:
            return await wrapped(*args, **kwargs)
        finally:
            run.passed_by(tool)
    if instance is None and args and tool.spec.receiver is not None:
        wrapped, args = without_receiver(wrapped, args)
    return await run.acall(tool, wrapped, args, kwargs)


# -- the guard as an object ----------------------------------------------------------------------


def _stand_in(tool: Tool, raw: Any) -> Any | None:
    """Make the plain function a guard shows to those who ask for its code.

    A framework that rebuilds a function from ``__code__`` would otherwise rebuild the tool
    without its guard, in silence. It reads closure variables only, so that its globals can be
    the tool's own: there the names of its annotations are looked up.
    """
    if not isinstance(raw, types.FunctionType):
        return None
    repeatguard_record = tool
    call, acall = guarded_call, _guarded_acall

    def sync_template(*args: Any, **kwargs: Any) -> Any:
        return call(repeatguard_record, raw, None, args, kwargs)

    async def async_template(*args: Any, **kwargs: Any) -> Any:
        return await acall(repeatguard_record, raw, None, args, kwargs)

    template: Any = async_template if tool.is_async else sync_template
    made = types.FunctionType(
        template.__code__, raw.__globals__, raw.__name__, None, template.__closure__
    )
    return functools.update_wrapper(made, raw)


# The two classes below share these by assignment, not through a common base: on Python 3.10 a
# second base adds half a microsecond to each call of a method. Whatever they define shadows the
# tool's attribute of that name: dunder and `_self_` names only, and no annotated name, which would
# bring an empty `__annotations__` along. `__wrapped__` stays the tool itself, for `inspect`.


def _shown_by(guard: Any) -> Any | None:
    # A class or static method in its class has no code; the function inside of it has.
    is_descriptor = isinstance(guard.__wrapped__, (classmethod, staticmethod))
    return None if is_descriptor else guard._self_stand_in


def _shown(name: str) -> property:
    """Make a property that the stand-in answers."""
    return property(lambda guard: getattr(_shown_by(guard) or guard.__wrapped__, name))


def _function_of(guard: Any) -> Any:
    function = guard.__wrapped__.__func__
    return guard._self_stand_in or function


def _vars_of(guard: Any) -> Any:
    stand_in, tool = _shown_by(guard), guard.__wrapped__
    if stand_in is None:
        return tool.__dict__
    # Attributes set on a guard land on the tool; `__wrapped__` leads a clone to its signature.
    raw = raw_function(tool)
    stand_in.__dict__.update(raw.__dict__, __wrapped__=raw)
    return stand_in.__dict__


_function = property(_function_of)
_vars: Any = property(_vars_of)


def _receiver_of(bound: Any) -> Any:
    return getattr(bound.__wrapped__, "__self__", None)


class _Bound(_BoundFunctionWrapper):
    """A guard seen through an instance or a class."""

    __func__ = _function
    __dict__ = _vars
    __code__ = _shown("__code__")
    __closure__ = _shown("__closure__")
    __globals__ = _shown("__globals__")
    __defaults__ = _shown("__defaults__")
    __kwdefaults__ = _shown("__kwdefaults__")

    # Equal as bound methods are: same guard, same receiver. wrapt compares the tools, so that a
    # cache keyed by function would hand out the unguarded one.
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Bound)
            and self._self_parent is other._self_parent
            and _receiver_of(self) is _receiver_of(other)
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((id(self._self_parent), id(_receiver_of(self))))

    def __repr__(self) -> str:
        return repr(self._self_parent)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        receiver = _receiver_of(self)
        if receiver is None or isinstance(receiver, type):
            return self
        copied = copy.deepcopy(receiver, memo)
        return self._self_parent.__get__(copied, type(copied))

    def __reduce__(self) -> Any:
        receiver = _receiver_of(self)
        owner = self._self_owner if receiver is None else receiver
        return getattr, (owner, self.__wrapped__.__name__)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()


class _Guarded(_FunctionWrapper):
    """A guarded tool."""

    __bound_function_wrapper__ = _Bound
    __func__ = _function
    __dict__ = _vars
    __code__ = _shown("__code__")
    __closure__ = _shown("__closure__")
    __globals__ = _shown("__globals__")
    __defaults__ = _shown("__defaults__")
    __kwdefaults__ = _shown("__kwdefaults__")

    def __init__(self, fn: Any, tool: Tool) -> None:
        # A partial of a module function, not a method: no cycle from the proxy to itself.
        super().__init__(
            fn, functools.partial(_guarded_acall if tool.is_async else guarded_call, tool)
        )
        self._self_repeatguard = tool
        self._self_stand_in = _stand_in(tool, raw_function(fn))

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __repr__(self) -> str:
        return f"<guarded tool {self._self_repeatguard.spec.name}>"

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if isinstance(self.__wrapped__, types.MethodType):
            return _Guarded(copy.deepcopy(self.__wrapped__, memo), self._self_repeatguard)
        return self

    def __reduce__(self) -> Any:
        if raw_function(self.__wrapped__) is not self.__wrapped__:
            msg = (
                f"cannot pickle the guarded {self._self_repeatguard.spec.name!r}: a guard on a "
                f"partial or a bound method has no name to find it by; guard the def itself"
            )
            raise TypeError(msg)
        return self.__wrapped__.__qualname__

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()
