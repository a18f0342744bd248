"""One tool's declaration: what makes two calls of it the same, and what a call may do."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from repeatguard_sdk._portable import Shape, code_of, origin_of, raw_function
from repeatguard_sdk._types import EFFECTS, MISSING, MODES, RULE_NAMES, Effect, Mode, Rule
from repeatguard_sdk.exceptions import ToolDeclarationError

# Where a guard keeps its record; wrapt keeps `_self_` attributes on the proxy itself.
GUARD_ATTRIBUTE = "_self_repeatguard"
# The variable that holds it in the code a guard shows to those who ask for `__code__`.
RECORD_VARIABLE = "repeatguard_record"

_MAX_LAYERS = 32
_OPTION_LENGTH = 120
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\b[ei]\.[ge]\.)\s+(?=[^a-z\s])")
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-.\s]+")


@attrs.frozen(kw_only=True)
class ToolSpec:
    """What `guarded_tool` was told about one tool.

    Attributes:
        name: the name the model sees.
        effect: what a call may do to the world.
        rules: parameter name to the rule that normalizes its value inside the guard.
        repeatable: an identical call is meant to act again.
        transient: exception types whose retry is not a repeat.
        volatile: dotted names of result parts that do not count, or a callable to comparable ones.
        empty: a value or predicate telling the results that found nothing; `MISSING` if not given.
        max_calls: executions allowed in one run.
        slot: for ``effect="ask"``: the parameter whose value names the fact asked for.
        option: how the tool reads in a list of options.
        mode: overrides the policy's mode for this tool.
        parameters: names of the parameters that are part of the key.
        origin: ``module:qualname`` of the function.
        signature: its parameters without `receiver`, with the `hidden` ones.
        hidden: parameters a framework fills, not the model; no part of the key.
        receiver: name of the leading ``self`` or ``cls``, if there is one.
    """

    name: str
    effect: Effect = "read"
    rules: Mapping[str, Rule] = attrs.field(factory=dict[str, Rule], eq=False)
    repeatable: bool = False
    transient: tuple[type[BaseException], ...] = (TimeoutError, ConnectionError)
    volatile: tuple[str, ...] | Callable[[Any], Any] = ()
    empty: Any = attrs.field(default=MISSING, eq=False)
    max_calls: int | None = None
    slot: str | None = None
    option: str = ""
    mode: Mode | None = None
    parameters: tuple[str, ...] = ()
    origin: str = ""
    signature: inspect.Signature | None = attrs.field(default=None, eq=False, repr=False)
    hidden: frozenset[str] = frozenset()
    receiver: str | None = None

    @property
    def withheld(self) -> bool:
        """Whether a call of this tool may ever be answered without running it."""
        return not self.repeatable and self.effect != "live"


def declare(
    fn: Any,
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
) -> ToolSpec:
    """Check what `guarded_tool` was given, parameter by parameter, and make one value of it.

    The parameters are those of `guarded_tool`, which documents them.

    Raises:
        ToolDeclarationError: the declaration cannot work; the text says what to write instead.
    """
    raw = _checked_function(fn, name)
    where = f"guarded_tool on {origin_of(raw)}"
    shape = _shape(where, fn)
    _check_choice(where, "effect", effect, EFFECTS)
    if mode is not None:
        _check_choice(where, "mode", mode, MODES)
    _check_slot(where, shape, slot, effect)
    _check_repeatable(where, repeatable, effect, slot)
    _check_max_calls(where, max_calls)
    _check_text(where, "name", name)
    _check_text(where, "option", option)
    final_name = name or raw.__name__
    return ToolSpec(
        name=final_name,
        effect=effect,
        rules=_rules(where, shape, case_fold, money_fields, fields),
        repeatable=repeatable,
        transient=_exception_types(where, transient),
        volatile=volatile if callable(volatile) else _names(where, "volatile", volatile),
        empty=empty,
        max_calls=max_calls,
        slot=slot,
        option=_option(option or _first_sentence(raw) or _humanized(final_name)),
        mode=mode,
        parameters=shape.parameters,
        origin=origin_of(raw),
        signature=shape.signature,
        hidden=shape.hidden,
        receiver=shape.receiver,
    )


def find_record(obj: Any) -> Any | None:
    """Return the record of the guard on or under `obj`, through wraps layers and partials."""
    for _ in range(_MAX_LAYERS):
        try:
            for record in (getattr(obj, GUARD_ATTRIBUTE, None), _enclosed_record(obj)):
                if isinstance(getattr(record, "spec", None), ToolSpec):
                    return record
            if isinstance(obj, functools.partial):
                obj = obj.func
            else:
                obj = getattr(obj, "__wrapped__", getattr(obj, "__func__", None))
        # Any object may be asked, and some answer `getattr` with an error of their own.
        except Exception:
            return None
    return None


def _enclosed_record(fn: Any) -> Any | None:
    """Return the record inside a function that was rebuilt from a guard's code."""
    names: tuple[str, ...] = getattr(getattr(fn, "__code__", None), "co_freevars", ())
    if RECORD_VARIABLE not in names:
        return None
    return fn.__closure__[names.index(RECORD_VARIABLE)].cell_contents


def _checked_function(fn: Any, name: Any) -> Any:
    """Return the function to guard; reject what is none, with the way out."""
    bases: tuple[type, ...] = type(fn).__mro__
    if any(base.__name__.endswith("Tool") for base in bases) and not inspect.isroutine(fn):
        msg = (
            f"guarded_tool was given a {_type_name(fn)}, a framework's tool object; put "
            f"@guarded_tool directly above def, below the framework's decorator"
        )
        raise ToolDeclarationError(msg)
    if find_record(fn) is not None and not isinstance(fn, functools.partial):
        msg = f"guarded_tool on {origin_of(fn)}: it is guarded already; remove one @guarded_tool"
        raise ToolDeclarationError(msg)
    raw = raw_function(fn)
    code = code_of(raw)
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        msg = (
            f"guarded_tool on {origin_of(raw)}: a generator's results can be read only once, so "
            f"they cannot be compared or replayed; return a list, or guard the one that reads it"
        )
        raise ToolDeclarationError(msg)
    _check_nameable(fn, raw, name)
    return raw


def _check_nameable(fn: Any, raw: Any, name: Any) -> None:
    """Reject what is no function, and a function without a name for the model to see."""
    if isinstance(fn, functools.partial):
        if name is None:
            msg = (
                f"guarded_tool on a functools.partial of {origin_of(raw)}: a partial has no name "
                f'for the model to see; write guarded_tool(name="...")(partial)'
            )
            raise ToolDeclarationError(msg)
    elif not (inspect.isroutine(raw) and callable(raw) and hasattr(raw, "__name__")):
        given = f"the class {fn.__qualname__}" if isinstance(fn, type) else f"a {_type_name(fn)}"
        msg = (
            f"guarded_tool was given {given}, not a function; put @guarded_tool directly above the "
            f"def of a function or method, and write its options by keyword"
        )
        raise ToolDeclarationError(msg)
    elif raw.__name__ == "<lambda>" and name is None:
        msg = (
            f"guarded_tool on {origin_of(raw)}: a lambda has no name for the model to see; write a "
            f'def, or name="..."'
        )
        raise ToolDeclarationError(msg)


def _type_name(obj: Any) -> str:
    bases: tuple[type, ...] = type(obj).__mro__
    module, name = bases[0].__module__, bases[0].__qualname__
    return name if module == "builtins" else f"{module}.{name}"


def _shape(where: str, fn: Any) -> Shape:
    try:
        return Shape.of(fn)
    except (TypeError, ValueError) as error:
        msg = f"{where}: it has no signature that Python can read ({error}); wrap it in a def"
        raise ToolDeclarationError(msg) from error


def _names(where: str, option: str, given: Any) -> tuple[str, ...]:
    """Return names as a tuple; a bare text is an iterable of its letters, so it is rejected."""
    if isinstance(given, str):
        msg = f"{where}: {option} takes a list of names, not a text; write {option}=[{given!r}]"
        raise ToolDeclarationError(msg)
    try:
        names = tuple(given)
    except TypeError:
        names = (given,)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        msg = f'{where}: {option} takes a list of names, not {wrong[0]!r}; write {option}=["..."]'
        raise ToolDeclarationError(msg)
    return names


def _rules(
    where: str, shape: Shape, case_fold: Any, money_fields: Any, fields: Any
) -> dict[str, Rule]:
    """Merge the three ways to give a parameter its rule."""
    _check_mapping(where, fields)
    by_name: dict[Any, Any] = dict(fields or {})
    given: list[tuple[str, Any, Any]] = [
        *(("case_fold", name, "id") for name in _names(where, "case_fold", case_fold)),
        *(("money_fields", name, "money") for name in _names(where, "money_fields", money_fields)),
        *(("fields", name, rule) for name, rule in by_name.items()),
    ]
    rules: dict[str, Rule] = {}
    for option, name, rule in given:
        if not callable(rule):
            _check_choice(where, f"fields[{name!r}]", rule, RULE_NAMES, ", or a callable")
        if name in shape.hidden and rule == "ignore":
            continue  # It is ignored already.
        _check_parameter(where, shape, option, name)
        if rules.setdefault(name, rule) != rule:
            msg = (
                f"{where}: {name!r} has two rules, {rules[name]!r} and {rule!r} (case_fold stands "
                f"for 'id', money_fields for 'money'); keep one of them"
            )
            raise ToolDeclarationError(msg)
    return rules


def _check_mapping(where: str, fields: Any) -> None:
    if fields is not None and not isinstance(fields, Mapping):
        msg = (
            f"{where}: fields maps a parameter to a rule, it cannot be {fields!r}; write "
            f'fields={{"note": "text"}}'
        )
        raise ToolDeclarationError(msg)


def _check_parameter(where: str, shape: Shape, option: str, name: Any) -> None:
    """Reject a declared name that no call of the tool can have."""
    if name in shape.parameters or (shape.open and name not in shape.hidden):
        return
    if name in shape.hidden or name == shape.receiver:
        msg = (
            f"{where}: {option} names {name!r}, which the model does not fill and which is no part "
            f"of a call's identity; leave it out"
        )
        raise ToolDeclarationError(msg)
    known = ", ".join(shape.parameters) or "none"
    msg = (
        f"{where}: {option} names {name!r}, which is no parameter of it; its parameters are: "
        f"{known}.{_did_you_mean(name, shape.parameters)}"
    )
    raise ToolDeclarationError(msg)


def _check_choice(
    where: str, option: str, given: Any, allowed: tuple[str, ...], more: str = ""
) -> None:
    if not isinstance(given, str) or given not in allowed:
        choices = ", ".join(map(repr, allowed))
        msg = (
            f"{where}: {option} cannot be {given!r}; write one of {choices}{more}."
            f"{_did_you_mean(given, allowed)}"
        )
        raise ToolDeclarationError(msg)


def _did_you_mean(given: Any, allowed: tuple[str, ...]) -> str:
    # Imported here: it is there for mistakes only.
    import difflib

    close = difflib.get_close_matches(str(given).lower(), allowed, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def _check_text(where: str, option: str, given: Any) -> None:
    if given is not None and (not isinstance(given, str) or not given.strip()):
        msg = f"{where}: {option} must be a text that is not blank, not {given!r}"
        raise ToolDeclarationError(msg)


def _check_slot(where: str, shape: Shape, slot: Any, effect: Any) -> None:
    if slot is None:
        return
    if effect != "ask":
        msg = (
            f"{where}: slot={slot!r} tells which fact a question asks for, but effect is "
            f'{effect!r}; write effect="ask", or leave slot out'
        )
        raise ToolDeclarationError(msg)
    _check_parameter(where, shape, "slot", slot)


def _check_repeatable(where: str, repeatable: Any, effect: Any, slot: Any) -> None:
    if not isinstance(repeatable, bool):
        msg = f"{where}: repeatable must be True or False, not {repeatable!r}"
        raise ToolDeclarationError(msg)
    if not repeatable:
        return
    # What these promise about a second call is the opposite of "it is meant to act again".
    if effect in ("final", "bookkeeping") or slot is not None:
        what = f"slot={slot!r}" if slot is not None else f"effect={effect!r}"
        msg = (
            f"{where}: repeatable=True contradicts {what}, which says what a second call means; "
            f"leave one of them out"
        )
        raise ToolDeclarationError(msg)


def _check_max_calls(where: str, max_calls: Any) -> None:
    if max_calls is None:
        return
    if isinstance(max_calls, bool) or not isinstance(max_calls, int) or max_calls < 1:
        msg = (
            f"{where}: max_calls must be a whole number of at least 1, not {max_calls!r}; leave it "
            f"out for no limit"
        )
        raise ToolDeclarationError(msg)


def _exception_types(where: str, given: Any) -> tuple[type[BaseException], ...]:
    kinds: tuple[Any, ...]
    try:
        kinds = tuple(given)
    except TypeError:  # One alone: a class, most likely.
        kinds = (repr(given),)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        msg = (
            f"{where}: transient takes a tuple of exception types, not {given!r}; write "
            f"transient=(TimeoutError, ConnectionError), or () for none"
        )
        raise ToolDeclarationError(msg)
    return kinds


def _first_sentence(raw: Any) -> str:
    paragraph = inspect.cleandoc(getattr(raw, "__doc__", None) or "").partition("\n\n")[0]
    return _SENTENCE_END.split(" ".join(paragraph.split()), maxsplit=1)[0]


def _humanized(name: str) -> str:
    words = " ".join(_WORD_START.sub(" ", name).split()).lower()
    return words[:1].upper() + words[1:]


def _option(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _OPTION_LENGTH else line[: _OPTION_LENGTH - 1].rstrip() + "…"
