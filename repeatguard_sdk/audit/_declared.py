"""Declarations for the tools of transcripts: from a TOML file or a Python module, and back to a file."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from repeatguard_sdk._registry import Registry, Tool, default_registry
from repeatguard_sdk._spec import find_record
from repeatguard_sdk._types import is_mapping
from repeatguard_sdk.audit._tools import Declaration
from repeatguard_sdk.exceptions import ToolDeclarationError

Declared = Mapping[str, Declaration | Tool]

_ALLOWED = frozenset(
    {
        *("effect", "case_fold", "money_fields", "fields", "repeatable", "volatile", "empty"),
        *("max_calls", "slot", "option"),
    }
)


def load_tools(where: str) -> Declared:
    """Return the declarations of a TOML file, a Python file, or a module that can be imported.

    In a TOML file each ``[tools.NAME]`` holds the keyword arguments of `guarded_tool`. A module's
    decorated functions count, its registries, and what its import adds to the default one.

    Args:
        where: ``tools.toml``, ``tools.py``, ``package.module``.

    Raises:
        ToolDeclarationError: nothing is there, it cannot be read, or it declares nothing.
    """
    declared = _from_toml(where) if where.endswith(".toml") else _from_module(where)
    if not declared:
        msg = f"{where} declares no tool; {_EXPECTED}"
        raise ToolDeclarationError(msg)
    return declared


_EXPECTED = (
    'a TOML file has a table [tools.NAME] with effect = "read" and the other arguments of '
    "guarded_tool, a module has functions decorated with it"
)


def _from_toml(where: str) -> Declared:
    try:
        with Path(where).open("rb") as file:
            content = _toml().load(file)
    except OSError as error:
        msg = f"{where} cannot be read: {error.strerror or error}"
        raise ToolDeclarationError(msg) from None
    except ValueError as error:
        msg = f"{where} is no TOML: {error}"
        raise ToolDeclarationError(msg) from None
    tools = content.get("tools", {})
    if not is_mapping(tools):
        msg = f"{where}: tools is no table; {_EXPECTED}"
        raise ToolDeclarationError(msg)
    return {str(name): _checked(where, name, given) for name, given in tools.items()}


def _checked(where: str, name: Any, given: Any) -> Declaration:
    if not is_mapping(given):
        msg = f'{where}: tools.{name} is no table; write [tools.{name}] and effect = "read" below'
        raise ToolDeclarationError(msg)
    unknown = sorted(set(map(str, given)) - _ALLOWED)
    if unknown:
        msg = f"{where}: tools.{name} has unknown {unknown}; allowed are {sorted(_ALLOWED)}"
        raise ToolDeclarationError(msg)
    return dict(given)


def _toml() -> Any:
    for name in ("tomllib", "tomli"):
        try:
            # Not by an import statement: Python 3.10 has none of its own.
            return importlib.import_module(name)
        except ImportError:
            continue
    msg = 'Python 3.10 reads TOML with a library: pip install "repeatguard-sdk[audit]"'
    raise ToolDeclarationError(msg)


def _from_module(where: str) -> Declared:
    before = set(default_registry.names())
    module = _imported(where)
    added = [tool for tool in default_registry if tool.spec.name not in before]
    found: dict[str, Tool] = {tool.spec.name: tool for tool in added}
    for value in vars(module).values():
        if isinstance(value, Registry):
            found.update({tool.spec.name: tool for tool in value})
            continue
        record = find_record(value)
        if record is not None:
            found[record.spec.name] = record
    return found


def _imported(where: str) -> ModuleType:
    try:
        if not where.endswith(".py"):
            return importlib.import_module(where)
        path = Path(where)
        spec = importlib.util.spec_from_file_location(f"_audited_tools_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    except Exception as error:
        msg = f"{where} cannot be imported: {type(error).__name__}: {error}"
        raise ToolDeclarationError(msg) from error
    else:
        return module


def write_tools(tools: Iterable[tuple[str, str, str, int]]) -> str:
    """Return a TOML file of declarations to be corrected.

    Args:
        tools: name, effect, where that is from, and recorded calls of each tool.
    """
    lines = [
        "# What each tool does, for `repeatguard audit --tools`. Correct what was guessed from a name:",
        '# "read" changes nothing, "write" does, "live" may answer otherwise each time, "ask" asks',
        '# the user, "final" ends the task, "bookkeeping" is a plan or a thought, "unknown" may',
        "# change anything.",
        "# Further keys are those of guarded_tool: case_fold, money_fields, fields, volatile, ...",
    ]
    for name, effect, source, calls in tools:
        was = (
            ""
            if source == "declared"
            else f", {source}" + (" from its name" if source == "guessed" else "")
        )
        lines += [
            "",
            f"[tools.{_toml_key(name)}]",
            f"effect = {_toml_text(effect)}  # {calls} call{'s' * (calls != 1)}{was}",
        ]
    return "\n".join(lines) + "\n"


def _toml_key(name: str) -> str:
    bare = name and all(c.isascii() and (c.isalnum() or c in "-_") for c in name)
    return name if bare else _toml_text(name)


def _toml_text(text: str) -> str:
    # JSON's escapes are TOML's, but for the one character that JSON leaves as it is, and for
    # halves of pairs, which TOML cannot hold.
    clean = text.encode("utf-8", "replace").decode()
    return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007f")
