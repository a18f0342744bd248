"""What stays true of a tool's function however it is wrapped, bound or carried about."""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_UNBOUND = (classmethod, staticmethod)
_CARRIERS = (classmethod, staticmethod, types.MethodType)
_inner: Callable[[Any], Any] = operator.attrgetter("__func__")
_RECEIVERS = frozenset({"self", "cls", "mcs", "_self", "_cls", "this", "klass"})
_CONTEXT_TYPES = frozenset(
    {
        "AsyncCallbackManagerForToolRun",
        "CallbackManagerForToolRun",
        "CancellationToken",
        "FunctionInvocationContext",
        "RunContext",
        "RunContextWrapper",
        "RunnableConfig",
        "ToolCallContext",
        "ToolContext",
        "ToolRuntime",
    }
)
# Names an argument of the model may have as well; `_is_context_class` looks closer.
_ORDINARY_NAMES = frozenset({"CallContext", "Context", "State"})
_FRAMEWORKS = frozenset({"fastmcp", "haystack", "llama_index", "mcp", "workflows"})
_DATA_TYPES = (dict, list, tuple, str, int, float, enum.Enum)
_DATA_MARKS = ("__dataclass_fields__", "__attrs_attrs__", "model_fields", "__struct_fields__")


def raw_function(fn: Any) -> Any:
    """Return the function inside of partials, a class or static method, or a bound method."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return _inner(fn) if isinstance(fn, _CARRIERS) else fn


def code_of(raw: Any) -> Any:
    """Return what tells how a call behaves: a function, or the `__call__` of an object."""
    return raw if inspect.isroutine(raw) else getattr(raw, "__call__", raw)  # noqa: B004


def is_async(fn: Any) -> bool:
    """Tell whether calling `fn` makes a coroutine."""
    return inspect.iscoroutinefunction(code_of(raw_function(fn)))


def origin_of(fn: Any) -> str:
    """Return ``module:qualname`` of the function."""
    raw = raw_function(fn)
    module = getattr(raw, "__module__", None) or "builtins"
    return f"{module}:{getattr(raw, '__qualname__', type(raw).__qualname__)}"


class Shape(NamedTuple):
    """What a signature says about the calls of a function.

    Attributes:
        signature: without `receiver`, with the `hidden` parameters.
        receiver: name of the leading ``self`` or ``cls``, if there is one.
        hidden: parameters a framework fills, not the model.
        parameters: the others.
        open: whether any further name may be given.
    """

    signature: inspect.Signature
    receiver: str | None
    hidden: frozenset[str]
    parameters: tuple[str, ...]
    open: bool

    @classmethod
    def of(cls, fn: Any) -> Shape:
        """Read the signature.

        Raises:
            TypeError: there is none to read.
            ValueError: there is none to read.
        """
        raw = raw_function(fn)
        signature = inspect.signature(raw if isinstance(fn, _UNBOUND) else fn)
        parameters = list(signature.parameters.values())
        receiver = _receiver(fn, raw, parameters)
        if receiver and not isinstance(fn, types.MethodType):
            del parameters[0]
        scope = getattr(inspect.unwrap(raw), "__globals__", {})
        hidden = frozenset(p.name for p in parameters if is_context(p.annotation, scope))
        return cls(
            signature=signature.replace(parameters=parameters),
            receiver=receiver,
            hidden=hidden,
            parameters=tuple(p.name for p in parameters if p.name not in hidden),
            open=any(p.kind is p.VAR_KEYWORD for p in parameters),
        )


def _receiver(fn: Any, raw: Any, parameters: list[inspect.Parameter]) -> str | None:
    """Return the name of the parameter that takes the instance or class."""
    if isinstance(fn, types.MethodType):
        return next(iter(inspect.signature(raw).parameters), None)
    if not parameters or isinstance(fn, (staticmethod, functools.partial)):
        return None
    first = parameters[0]
    if first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        return None
    if isinstance(fn, classmethod):
        return first.name
    # A method, or the inside of a class method: both are plain functions made in a class body.
    # Elsewhere `cls` may be an argument (a label), and only a bare `self` can be a receiver.
    owner = getattr(raw, "__qualname__", "").rpartition(".")[0]
    if owner and not owner.endswith("<locals>"):
        return first.name if first.name in _RECEIVERS else None
    return "self" if first.name == "self" and first.annotation is first.empty else None


def is_context(annotation: Any, scope: Mapping[str, Any]) -> bool:
    """Tell whether an annotation names a type that a framework fills in.

    By names alone: no framework is imported. `scope` is where names in text are looked up.
    """
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        try:
            return _text_is_context(ast.parse(annotation.strip(), mode="eval").body, scope)
        except SyntaxError:
            return False
    metadata: tuple[Any, ...] = getattr(annotation, "__metadata__", ())
    if metadata:
        names = (getattr(mark, "__name__", type(mark).__name__) for mark in metadata)
        return any(map(_is_injection, names)) or is_context(annotation.__origin__, scope)
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(is_context(part, scope) for part in typing.get_args(annotation))
    return _is_context_class(origin or annotation)


def _text_is_context(node: ast.expr, scope: Mapping[str, Any]) -> bool:
    """The same for the text of an annotation."""

    def among(nodes: list[ast.expr]) -> bool:
        return any(_text_is_context(part, scope) for part in nodes)

    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and is_context(node.value, scope)
    if isinstance(node, ast.BinOp):
        return among([node.left, node.right])
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        outer = _last_name(node.value)
        if outer in ("Optional", "Union"):
            return among(parts)
        if outer == "Annotated":
            return among(parts[:1]) or any(_is_injection(_last_name(mark)) for mark in parts[1:])
        return among([node.value])
    found = _look_up(node, scope)
    if found is None or isinstance(found, str):
        # A name that an argument of the model may have as well must be seen to be a framework's.
        return _last_name(node) in _CONTEXT_TYPES
    return is_context(found, scope)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _look_up(node: ast.expr, scope: Mapping[str, Any]) -> Any | None:
    """Return what a dotted name stands for; None if it is known to type checkers only."""
    if isinstance(node, ast.Attribute):
        return getattr(_look_up(node.value, scope), node.attr, None)
    return scope.get(node.id) if isinstance(node, ast.Name) else None


def _is_injection(name: str) -> bool:
    """LangChain's marks: InjectedState, InjectedStore, InjectedToolCallId, InjectedToolArg."""
    return name.startswith("Injected")


def _is_context_class(candidate: Any) -> bool:
    if not isinstance(candidate, type):
        return False
    bases: tuple[type, ...] = candidate.__mro__
    names = {base.__name__ for base in bases}
    if names & _CONTEXT_TYPES:
        return True
    # `Context` may be a record the model fills in; hiding it would make different calls equal.
    # So one that holds data counts only if it comes from a framework that has such a class.
    if not names & _ORDINARY_NAMES:
        return False
    if any(base.__module__.partition(".")[0] in _FRAMEWORKS for base in bases):
        return True
    is_data = any(issubclass(bases[0], kind) for kind in _DATA_TYPES)
    return not is_data and not any(hasattr(bases[0], mark) for mark in _DATA_MARKS)
