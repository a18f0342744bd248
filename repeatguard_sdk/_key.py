"""A tool's declaration and signature, compiled into the functions that tell its calls apart.

As attrs writes `__init__` for a class, `compile_key` writes one function with the tool's own parameters.
Python itself then binds positional, keyword and defaulted arguments, and flat values (short texts,
whole numbers, None) are compared as they are: no `inspect`, no JSON and no hash on that way.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from typing import Any

from repeatguard_sdk._canonical import TEXT_LIMIT, Key, identity, text_token, veiled
from repeatguard_sdk._rules import cents, function_of
from repeatguard_sdk._spec import ToolSpec
from repeatguard_sdk._types import Rule, is_tuple
from repeatguard_sdk._walk import class_of, fold_of_digest, fold_text

_OPEN = inspect.Signature(
    [
        inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
        inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
    ]
)
_POSITIONAL_ONLY = inspect.Parameter.POSITIONAL_ONLY
_VAR_POSITIONAL = inspect.Parameter.VAR_POSITIONAL
_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
_VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD

# A text one model wrote with a blank before or after it is the same question; where the tool changes
# something, the bytes may be what it writes.
_BYTE_FOR_BYTE = frozenset({"write", "unknown", "bookkeeping"})

_INLINE = {
    "space": '" ".join({0}.split())',
    "text": '" ".join({0}.split()).lower()',
    "id": '" ".join({0}.split()).upper()',
}


class CompiledKey:
    """The functions that tell one tool's calls apart.

    `key` and `fold` take a call's arguments as the tool does, raise `TypeError` if they do not fit it and
    `NoIdentityError` (a `TypeError` too: catch it first) if one of them has no identity. Both return one
    element a parameter, so that keys of different tools must be kept apart by the tool's name.

    Attributes:
        name: the tool's name.
        source: the generated source, which tracebacks show.
        key: equal for equal calls under the declared rules; a plain tuple if it is flat.
        fold: the coarser identity that only raises suspicion; parameters declared exact stay exact.
        refold: the fold of a key, which needs no arguments; `None` where the key does not tell it.
    """

    __slots__ = (
        "_bind",
        "_counted",
        "_extra",
        "_hidden",
        "fold",
        "key",
        "name",
        "refold",
        "source",
    )

    def __init__(
        self,
        *,
        name: str,
        source: str,
        key: Callable[..., Key],
        fold: Callable[..., Key],
        refold: Callable[[Key], Key | None],
        bind: Callable[..., dict[str, Any]],
        extra: str | None,
        counted: tuple[tuple[str, Rule | None], ...],
        hidden: frozenset[str],
    ) -> None:
        self.name = name
        self.source = source
        self.key = key
        self.fold = fold
        self.refold = refold
        self._bind = bind
        self._extra = extra
        self._counted = counted
        self._hidden = hidden

    def __repr__(self) -> str:
        return f"CompiledKey(name={self.name!r})"

    def arguments(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The arguments of a call by name, as given, with defaults and without hidden parameters.

        Raises:
            TypeError: they do not fit the tool.
        """
        bound = self._bind(*args, **kwargs)
        extra: dict[str, Any] = bound.pop(self._extra, {}) if self._extra else {}
        for name, value in extra.items():
            if name not in self._hidden:
                bound.setdefault(name, value)
        return bound

    def shown(self, key: Key) -> dict[str, Any]:
        """The normalized arguments of a key by name, for a person to read.

        Nested and long values are digests in a key, and read as an ellipsis; amounts are whole cents.
        """
        shown: dict[str, Any] = {}
        for (name, rule), value in zip(self._counted, key, strict=False):
            if name == self._extra and is_tuple(value):
                shown.update({str(extra): _readable(None, part) for extra, part in value})
            else:
                shown[name] = _readable(rule, value)
        return shown


def _readable(rule: Rule | None, value: Any) -> Any:
    if value in (b"T", b"F"):
        return value == b"T"
    if isinstance(value, bytes):
        return Ellipsis
    if rule == "money" and type(value) is int:
        return Decimal(value).scaleb(-2)
    return value


def compile_key(spec: ToolSpec) -> CompiledKey:
    """Compile the key functions of one tool.

    A tool without a signature, or with one that Python cannot spell, is keyed by its arguments as given:
    a positional and a keyword call of it are two.
    """
    try:
        return _Compiler(spec, spec.signature or _OPEN).compile()
    except (SyntaxError, ValueError):
        return _Compiler(spec, _OPEN).compile()


def generic_key(arguments: Any) -> Key:
    """The key of a call that reached no tool: its arguments by name, in any order.

    Raises:
        NoIdentityError: an argument has no identity.
    """
    if arguments is None:
        return ()
    if not issubclass(class_of(arguments), Mapping):
        return (identity(arguments),)
    named = {str(name): value for name, value in arguments.items()}
    return tuple((name, identity(named[name])) for name in sorted(named))


# --- the slow ways out of the generated code ------------------------------------------------------


def _stripped(text: str) -> str:
    # A line break makes it a text whose white space may matter: code, a patch, a table.
    return text if "\n" in text else text.strip()


def _normal(rule: Rule | str | None, *, strip: bool, folded: bool) -> Callable[[Any], Hashable]:
    """The function from any value of a parameter to its element of the key."""
    apply = function_of(rule) if rule is not None else None
    folded = folded and rule != "exact"

    def normal(value: Any) -> Hashable:
        if rule == "money":
            amount = cents(value)
            if amount is not None:
                return amount
        if apply is not None:
            value = apply(value)
        elif strip and rule is None and type(value) is str:
            value = _stripped(value)
        return identity(value, folded=folded)

    return normal


def _every(normal: Callable[[Any], Hashable]) -> Callable[[tuple[Any, ...]], Key]:
    """The element of ``*args``."""
    return lambda values: tuple([normal(value) for value in values])


def _named(
    normals: Mapping[str, Callable[[Any], Hashable]],
    other: Callable[[Any], Hashable],
    dropped: frozenset[str],
    *,
    nothing_is_absent: bool,
) -> Callable[[dict[str, Any]], Key]:
    """The element of ``**kwargs``; a look-up with an explicit null asks what one without it asks."""

    def normal(values: dict[str, Any]) -> Key:
        names = sorted(
            name
            for name, value in values.items()
            if name not in dropped and not (nothing_is_absent and value is None)
        )
        return tuple([(name, normals.get(name, other)(values[name])) for name in names])

    return normal


# --- writing the code ----------------------------------------------------------------------------


class _Compiler:
    """Writes, compiles and names the functions of one tool."""

    def __init__(self, spec: ToolSpec, signature: inspect.Signature) -> None:
        self.spec = spec
        self.parameters = list(signature.parameters.values())
        self.strip = spec.effect not in _BYTE_FOR_BYTE
        self.counted = [p for p in self.parameters if not self._is_dropped(p.name)]
        # Every name the code uses beside the parameters begins so, and no parameter does.
        self.prefix = "_rg_"
        while any(p.name.startswith(self.prefix) for p in self.parameters):
            self.prefix += "_"
        self.names: dict[str, Any] = {"__builtins__": {}}
        flat = (type, str, int, float, bool, round, len)
        helpers = (*flat, text_token, fold_text, fold_of_digest, veiled)
        self.names.update((self.prefix + each.__name__, each) for each in helpers)

    def compile(self) -> CompiledKey:
        lines = ["# Generated by repeatguard_sdk: one function has the parameters of the tool."]
        lines += self._function("key", self._elements(folded=False))
        lines += self._function("fold", self._elements(folded=True))
        pairs = ", ".join(f"{p.name!r}: {p.name}" for p in self._shown())
        lines += self._function("bind", [f"    return {{{pairs}}}"])
        lines += self._refold()
        source = "\n".join(lines) + "\n"
        filename = _register(self.spec.name, source)
        exec(compile(source, filename, "exec"), self.names)  # noqa: S102 - our own text
        built = {name: self.names[self.prefix + name] for name in ("key", "fold", "bind", "refold")}
        for function in built.values():
            # Python's own error then reads "track_parcel() missing 1 required positional argument".
            function.__qualname__ = function.__name__ = self.spec.name
        extra = [p.name for p in self._shown() if p.kind is _VAR_KEYWORD]
        return CompiledKey(
            name=self.spec.name,
            source=source,
            key=built["key"],
            fold=built["fold"],
            refold=built["refold"],
            bind=built["bind"],
            extra=extra[0] if extra else None,
            counted=tuple((p.name, self.spec.rules.get(p.name)) for p in self.counted),
            hidden=self.spec.hidden,
        )

    def _refold(self) -> list[str]:
        """The function from a key to its fold, as far as a key still shows its texts."""
        g = self.prefix
        names = "".join(f"{g}e{index}, " for index in range(len(self.counted))).rstrip(" ")
        lines = ["", f"def {g}refold({g}of):"]
        if names:
            lines.append(f"    ({names}) = {g}of")
        for index, p in enumerate(self.counted):
            if self.spec.rules.get(p.name) == "exact":
                continue
            name = f"{g}e{index}"
            lines += [
                f"    {g}kind = {g}type({name})",
                f"    if {g}kind is {g}str:",
                f"        {name} = {_INLINE['text'].format(name)}",
                f"    elif {g}kind is {g}float:",
                f"        {name} = {g}round({name}, 2)",
                f"    elif {g}kind is not {g}int and {name} not in (None, (), b'T', b'F'):",
                f"        {name} = {g}fold_of_digest({name})",
                f"        if {name} is None:",
                "            return None",
            ]
        return [*lines, f"    return ({names})"]

    def _is_dropped(self, name: str) -> bool:
        return name in self.spec.hidden or self.spec.rules.get(name) == "ignore"

    def _shown(self) -> list[inspect.Parameter]:
        return [p for p in self.parameters if p.name not in self.spec.hidden]

    def _function(self, name: str, body: list[str]) -> list[str]:
        return ["", f"def {self.prefix}{name}({self._head()}):", *body]

    def _head(self) -> str:
        """The parameter list; defaults are taken from the signature's own objects, by name."""
        parts: list[str] = []
        kinds = [p.kind for p in self.parameters]
        for index, p in enumerate(self.parameters):
            if p.kind is _KEYWORD_ONLY and _VAR_POSITIONAL not in kinds and "*" not in parts:
                parts.append("*")
            stars = "*" if p.kind is _VAR_POSITIONAL else "**" if p.kind is _VAR_KEYWORD else ""
            text = stars + p.name
            if p.default is not p.empty:
                self.names[f"{self.prefix}default_{index}"] = p.default
                text += f"={self.prefix}default_{index}"
            parts.append(text)
            if p.kind is _POSITIONAL_ONLY and _POSITIONAL_ONLY not in kinds[index + 1 :]:
                parts.append("/")
        return ", ".join(parts)

    def _elements(self, *, folded: bool) -> list[str]:
        """The body of `key` or `fold`: each parameter made an element, then the tuple of them.

        An element that was made in a slow way may be a digest: only then is the key looked at again.
        """
        g = self.prefix
        lines: list[str] = [] if folded else [f"    {g}flat = True"]
        for index, p in enumerate(self.counted):
            lines += self._element(p, f"{'fold' if folded else 'key'}_{index}", folded=folded)
        names = "".join(f"{p.name}, " for p in self.counted).rstrip(" ")
        if not folded:
            lines += [f"    if not {g}flat:", f"        return {g}veiled(({names}))"]
        return [*lines, f"    return ({names})"]

    def _element(self, p: inspect.Parameter, label: str, *, folded: bool) -> list[str]:
        rule = self.spec.rules.get(p.name)
        slow = f"{self.prefix}{label}"
        normal = _normal(rule, strip=self.strip, folded=folded)
        if p.kind is _VAR_POSITIONAL:
            self.names[slow] = _every(normal)
        elif p.kind is _VAR_KEYWORD:
            self.names[slow] = self._named(folded=folded)
        else:
            self.names[slow] = normal
        mark = [] if folded else [f"    {self.prefix}flat = False"]
        if p.kind in (_VAR_POSITIONAL, _VAR_KEYWORD):
            made = [f"    if {p.name}:", f"        {p.name} = {slow}({p.name})", *self._empty(p)]
            return [*made, *mark]
        if rule is None or rule in ("exact", *_INLINE):
            return self._flat(p.name, rule, slow, mark, folded=folded and rule != "exact")
        return [f"    {p.name} = {slow}({p.name})", *mark]

    def _empty(self, p: inspect.Parameter) -> list[str]:
        return ["    else:", f"        {p.name} = ()"] if p.kind is _VAR_KEYWORD else []

    def _flat(self, name: str, rule: Any, slow: str, mark: list[str], *, folded: bool) -> list[str]:
        """The inline way of a parameter whose text may be changed but whose numbers are not."""
        g = self.prefix
        kind = f"{g}kind"
        if rule in _INLINE:
            text = [f"{name} = {_INLINE[rule].format(name)}"]
        elif rule is None and self.strip:
            text = [f'if "\\n" not in {name}:', f"    {name} = {name}.strip()"]
        else:
            text = []
        if folded:
            # After the rule, so that equal keys have equal folds: a very long text is not folded.
            text.append(f"{name} = {g}fold_text({name})")
        body = [
            f"{kind} = {g}type({name})",
            f"if {kind} is {g}str:",
            *[f"    {line}" for line in text],
            f"    if {g}len({name}) > {TEXT_LIMIT}:",
            f"        {name} = {g}text_token({name})",
            *[f"    {line}" for line in mark],
            f"elif {kind} is not {g}int and {name} is not None:",
            f"    if {kind} is {g}bool:",
            f"        {name} = b'T' if {name} else b'F'",
            "    else:",
            f"        {name} = {slow}({name})",
            *[f"    {line}" for line in mark],
        ]
        return [f"    {line}" for line in body]

    def _named(self, *, folded: bool) -> Callable[[dict[str, Any]], Key]:
        """The element of ``**kwargs``: rules of parameters do not reach it, all other rules do."""
        named = {p.name for p in self.parameters}
        rules = {name: rule for name, rule in self.spec.rules.items() if name not in named}
        ignored = {name for name, rule in rules.items() if rule == "ignore"}
        normals = {n: _normal(r, strip=self.strip, folded=folded) for n, r in rules.items()}
        other = _normal(None, strip=self.strip, folded=folded)
        return _named(normals, other, self.spec.hidden | ignored, nothing_is_absent=self.strip)


def _register(name: str, source: str) -> str:
    """Put the source where tracebacks look for it, and return its file name there."""
    filename = base = f"<repeatguard key of {name}>"
    number = 1
    lines = source.splitlines(keepends=True)
    # Two tools of one name (in two registries) have two sources.
    while linecache.getlines(filename) not in ([], lines):
        number += 1
        filename = f"{base[:-1]} {number}>"
    linecache.cache[filename] = (len(source), None, lines, filename)
    return filename
