"""The shape of the code: who may import whom, what importing it loads, what is documented."""

from __future__ import annotations

import ast
import graphlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import repeatguard_sdk
from repeatguard_sdk import audit

PACKAGE = Path(inspect.getfile(repeatguard_sdk)).parent
TESTS = Path(__file__).parent
TOP = "repeatguard_sdk"

# A module imports only from rows above its own; modules of one row do not know each other. The
# first number is the level a reader thinks in (0 words, 1 one tool and one call, 2 memory and
# text, 3 rules and ends, 4 the run, 5 the decorator, 6 what is built on both, 7 the command line).
LEVELS = """
0.0  _compiling _locking _types exceptions _forking _portable _scope _text
1.0  _binding _call _copies _hosted _ladder _options _ring _slot _spec _walk
1.1  _encode _flight _rules _shown _wording
1.2  _canonical _entry _event _suspicion
1.3  _key
2.0  _ledger _observation _registry
2.1  _admission _dispatch _emitting _identity _memory _messages _redaction _toolset
2.2  _recalling
3.0  _following _outcome detectors sinks
3.1  _default_sink _policy events
3.2  _arguments _joining _meeting _reporting _settling _speaking
3.3  _withholding
3.4  _engine
3.5  _firsts _refusing _reviewing _turning
4.0  _telling
4.1  _calling
4.2  _awaiting _guarding _named_calls
4.3  _adapting
4.4  _run
5.0  _scripted _tool
6.0  audit integrations report testing
7.0  cli
7.1  __main__
"""
THIRD_PARTY = {"attrs", "wrapt"}
# Imported for a type checker only, where the compiler reads it.
FOR_THE_COMPILER = {"mypy_extensions"}
# What an extra brings, and the part of the package that may import it at its top: nothing of the
# core loads that part.
EXTRAS = {
    "audit": {"ijson", "orjson"},
    "cli": {"rich", "typer"},
    "report": {"jinja2"},
    "sinks": {"opentelemetry"},
}
# Slow to load and seldom needed. Their order is checked like that of all others.
PUT_OFF = {
    ("_reviewing", f"{TOP}.detectors.asked_again"),
    ("_reviewing", f"{TOP}._slot"),
    ("_observation", f"{TOP}._wording"),
    ("_reporting", f"{TOP}._event"),
    ("_following", f"{TOP}._event"),
    ("_adapting", f"{TOP}._recalling"),
    ("_reporting", f"{TOP}._suspicion"),
    ("_speaking", f"{TOP}._wording"),
    ("cli", f"{TOP}.report.as_html"),
    ("_default_sink", f"{TOP}.sinks.sqlite"),
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
MAX_LINES = 400

ROW_OF = {
    name: row for row, line in enumerate(LEVELS.strip().splitlines()) for name in line.split()[1:]
}
SOURCES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
TEST_SOURCES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in TESTS.rglob("*.py")}


def module_of(path: Path) -> str:
    """Return the name a module has in the table: that of its file, or of its folder."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Yield each imported module and its statement: late ones and those for annotations too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert 0 == node.level, f"line {node.lineno}: write the import in full"
            if node.module == TOP:
                yield from ((f"{TOP}.{alias.name}", node) for alias in node.names)
            else:
                yield node.module or "", node
        elif isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)


def late(tree: ast.Module) -> set[ast.AST]:
    """Return what stands inside of functions."""
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
    return {inner for function in functions for inner in ast.walk(function)}


def ours(name: str) -> str | None:
    """Return the table's name of a module of the package, `None` for any other."""
    parts = name.split(".")
    return parts[1] if parts[0] == TOP and len(parts) > 1 else None


def edges() -> set[tuple[str, str]]:
    return {
        (module_of(path), imported)
        for path, tree in SOURCES.items()
        if module_of(path) != "__init__"
        for imported in (ours(name) for name, _ in imports(tree))
        if imported is not None and imported != module_of(path)
    }


def test_every_module_has_a_level() -> None:
    """The table names every module once, and no module that is not there."""
    named = re.findall(r"\b[a-z_]+\b", LEVELS)
    assert sorted({module_of(path) for path in SOURCES} - {"__init__"}) == sorted(named)


def test_imports_go_down() -> None:
    """A module imports only from rows above its own in the table."""
    nowhere = len(ROW_OF)
    wrong = {
        (user, used)
        for user, used in edges()
        if ROW_OF.get(used, nowhere) >= ROW_OF.get(user, nowhere)
    }
    assert set() == wrong


def test_no_cycles() -> None:
    """No module imports itself by way of others, not even late, and no file of a folder does."""
    graph: dict[str, set[str]] = {}
    for user, used in edges():
        graph.setdefault(user, set()).add(used)
    graphlib.TopologicalSorter(graph).prepare()
    files: dict[str, set[str]] = {}
    for path, tree in SOURCES.items():
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        files[name.removesuffix(".__init__")] = {used for used, _ in imports(tree)}
    graphlib.TopologicalSorter(files).prepare()


def test_files_of_one_kind_do_not_know_each_other() -> None:
    """The detectors and the adapters, one file each, import no sibling but what is named as shared."""
    wrong = [
        (path.name, name)
        for path, tree in SOURCES.items()
        if path.parent.name in ("detectors", "integrations")
        for name, _ in imports(tree)
        if ours(name) == module_of(path) and not name.rpartition(".")[2].startswith("_")
    ]
    assert [] == wrong


def test_only_the_two_dependencies_at_the_top() -> None:
    """At its top a module imports the standard library, attrs, wrapt, the package or its own extra."""
    always = THIRD_PARTY | {TOP} | set(sys.stdlib_module_names)
    wrong = [
        (path.name, name)
        for path, tree in SOURCES.items()
        for inside in [late(tree)]
        for name, statement in imports(tree)
        if statement not in inside
        and name not in FOR_THE_COMPILER
        and name.split(".")[0] not in always | EXTRAS.get(module_of(path), set())
    ]
    assert [] == wrong


def test_imports_of_the_package_are_at_the_top() -> None:
    """No function imports a module of the package, unless to put off loading it on purpose."""
    found = {
        (module_of(path), name)
        for path, tree in SOURCES.items()
        for inside in [late(tree)]
        for name, statement in imports(tree)
        if ours(name) is not None and statement in inside
    }
    assert found <= PUT_OFF


def test_importing_loads_nothing_else() -> None:
    """`import repeatguard_sdk` loads nothing but the standard library, attrs and wrapt."""
    program = (
        "import sys; before = set(sys.modules); import repeatguard_sdk; "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split()) - set(sys.stdlib_module_names)
    # All compiled modules are in one library beside the package.
    loaded = {name for name in loaded if not name.endswith("__mypyc")}
    assert {TOP, "attr", "attrs", "wrapt"} >= loaded


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_modules_are_short_and_say_what_they_are(path: Path) -> None:
    """A module has at most 400 lines and begins with a docstring."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES
    assert ast.get_docstring(SOURCES[path])


def compiled_modules() -> list[Path]:
    """Return the modules of the compiled build, as the project names them."""
    project = (TESTS.parent / "pyproject.toml").read_text(encoding="utf-8")
    hook = project.partition("[tool.hatch.build.targets.wheel.hooks.mypyc]")[2]
    names = re.findall(rf'"/{TOP}/(.+\.py)"', hook.partition("mypy-args")[0])
    assert names
    return [PACKAGE / name for name in names]


def test_what_is_compiled_can_be() -> None:
    """A compiled module is there, defines nothing public, and no coroutine."""
    # Compiled classes have no docstrings, and compiled coroutines take no cancellation on 3.13.
    public = {*repeatguard_sdk.__all__, *audit.__all__}
    for path in compiled_modules():
        assert path in SOURCES
        defined = [node for node in ast.walk(SOURCES[path]) if isinstance(node, DEFINITIONS)]
        assert not public & {node.name for node in defined}, path
        assert not any(isinstance(node, ast.AsyncFunctionDef) for node in defined), path


def test_public_names_are_sorted() -> None:
    """The public names are sorted and none is there twice."""
    assert sorted(set(repeatguard_sdk.__all__)) == repeatguard_sdk.__all__


def test_names_that_load_late_are_listed() -> None:
    """What few programs name is loaded when it is named, and `dir` tells of it all the same."""
    program = (
        "import sys, repeatguard_sdk as made; early = {'_slot', '_wording', '_event', 'hashlib'}; "
        "assert not early & {name.rpartition('.')[2] for name in sys.modules}; "
        "assert {*made.__all__} <= {*dir(made)}; "
        "assert made.Slot is made.Slot and 'Slot' in vars(made)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_run_without_a_sink_loads_no_events() -> None:
    """Whoever keeps no events does not pay for their classes."""
    program = (
        "import sys; from repeatguard_sdk import Registry, Run\n"
        "with Run(registry=Registry()) as run: run.user_message()\n"
        "assert 'repeatguard_sdk._event' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("name", repeatguard_sdk.__all__)
def test_public_names_are_documented(name: str) -> None:
    """Every public name is there and says what it is."""
    documented = inspect.getdoc(getattr(repeatguard_sdk, name)) or ""
    assert documented
    assert not documented.startswith(f"{name}("), "a generated docstring is none"


def test_the_version_is_that_of_the_metadata() -> None:
    """The version is read when asked for, and other unknown names stay unknown."""
    assert re.fullmatch(r"\d+\.\d+\.\d+", repeatguard_sdk.__version__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = repeatguard_sdk.nothing


def all_tests(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS) and node.name.startswith("test_"):
            yield node


def test_every_test_says_what_holds() -> None:
    """Every test has a docstring of one sentence."""
    one_sentence = re.compile(r"(?!.*[.!?]\s+[A-Z]).*\S\.[\"'`)]*", re.DOTALL)
    wrong = [
        f"{path.name}:{test.lineno} {test.name}"
        for path, tree in TEST_SOURCES.items()
        for test in all_tests(tree)
        if not one_sentence.fullmatch(ast.get_docstring(test) or "")
    ]
    assert [] == wrong
