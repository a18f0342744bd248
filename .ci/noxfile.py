"""Everything that is checked besides the README's own commands: `nox -f .ci/noxfile.py`."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

import nox
import tomllib

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".nox"
DIST = WORK / "dist"
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
NEWEST = VERSIONS[-1]
RAY = "3.12"
EXAMPLES = ("garden_bench.py", "real_runs.py")
# What users have beside the package and what it is imported as, and the tests that need it.
NEIGHBOURS = {
    "anthropic": "anthropic",
    "google-genai": "google.genai",
    "langchain-core": "langchain_core",
    "numpy": "numpy",
    "openai": "openai",
    "opentelemetry-exporter-otlp-proto-common": "opentelemetry.exporter.otlp.proto.common",
    "opentelemetry-sdk": "opentelemetry.sdk",
    "orjson": "orjson",
    "trio": "trio",
}
NEIGHBOUR_TESTS = (
    "audit/test_files.py",
    "audit/test_readers_clients.py",
    "test_canonical.py",
    "test_messages.py",
    "sinks/test_opentelemetry.py",
    "test_trio.py",
)
LOWEST = ("attrs==23.2", "wrapt==2.2", "jinja2==3.1.0", "rich==13.0.0", "typer==0.16.0")
# That typer uses what a newer click warns of.
LOWEST += ("click==8.1.8",)
# What the page of the report is looked at with; its test is skipped where it is not installed.
BROWSER = ("chromium", "chromedriver")
BROWSER_PACKAGES = ("chromium", "chromium-driver")

# The frameworks the adapters live in, as their drivers and examples are called; each has an extra.
ADAPTERS = ("anthropic", "fastmcp", "langchain", "mcp", "openai", "openai_agents", "pydantic_ai")
# What the own cases of an adapter need beside its extra; at the oldest version they are skipped.
BESIDE = {"pydantic_ai": ("pydantic-ai-slim[mcp]", "fastmcp-slim[server]")}
VERIFIED = WORK / "verified.jsonl"

nox.options.envdir = str(WORK)
nox.options.error_on_missing_interpreters = True
nox.options.error_on_external_run = True
nox.options.sessions = ["lint", "wheel", "typing", "tests", "lowest", "compiled", "neighbours"]
nox.options.sessions += ["page", "ray", "examples", "instructions"]
nox.options.sessions += [f"{name}_{age}" for name in ADAPTERS for age in ("newest", "oldest")]
nox.options.sessions += ["verified"]


def _pyenv_root() -> Path | None:
    named = os.environ.get("PYENV_ROOT")
    if not named and shutil.which("pyenv"):
        asked = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=False)
        named = asked.stdout.strip()
    return Path(named) if named else None


def _works(python: str | Path) -> bool:
    # A pyenv shim exists for every version and fails for those that are not switched on.
    asked = subprocess.run([python, "-c", ""], capture_output=True, check=False)
    return asked.returncode == 0


def _find(version: str) -> str | None:
    """Return an interpreter of a version that works: from the path, or one that pyenv keeps."""
    on_path = shutil.which(f"python{version}")
    if on_path and _works(on_path):
        return on_path
    root = _pyenv_root()
    kept = sorted(root.glob(f"versions/{version}.*/bin/python{version}")) if root else []
    return next((str(python) for python in reversed(kept) if _works(python)), None)


def _here() -> str:
    """Return the version that the README's command runs the tests on: the machine's own."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    asked = subprocess.run(["python3", "-c", program], capture_output=True, text=True, check=True)
    return asked.stdout.strip()


def _offer_interpreters() -> None:
    """Put the interpreters first on the path, each under its own name, where nox looks for them."""
    links = WORK / "interpreters"
    links.mkdir(parents=True, exist_ok=True)
    for version in VERSIONS:
        link = links / f"python{version}"
        link.unlink(missing_ok=True)
        found = _find(version)
        if found is not None:
            link.symlink_to(Path(found).resolve())
    os.environ["PATH"] = os.pathsep.join([str(links), os.environ["PATH"]])


_offer_interpreters()


_built: list[Path] = []


def _wheel(session: nox.Session) -> Path:
    """Return the wheel, built once from the source archive, so that what that lacks is missed."""
    if not _built:
        shutil.rmtree(DIST, ignore_errors=True)
        session.install("build")
        session.run("python", "-m", "build", "--outdir", str(DIST), str(ROOT), silent=True)
        _built.extend(DIST.glob("*.whl"))
    return _built[0]


_compiled: dict[str, Path] = {}


def _compiled_wheel(session: nox.Session) -> Path:
    """Return the wheel of the compiled build for the session's Python, made from the source archive."""
    version = str(session.python)
    if version not in _compiled:
        _wheel(session)
        (source,) = DIST.glob("*.tar.gz")
        place = DIST / version
        session.run(
            *("python", "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(place), str(source)),
            env={"HATCH_BUILD_HOOK_ENABLE_MYPYC": "1"},
        )
        (_compiled[version],) = place.glob("*.whl")
    return _compiled[version]


def _without_the_package(session: nox.Session) -> Path:
    """Return a copy of the tests from where the source tree cannot be imported by accident."""
    place = Path(session.create_tmp()) / "checkout"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name in ("README.md", "CHANGELOG.md", "pyproject.toml"):
        shutil.copy(ROOT / name, place)
    for name in ("tests", "examples"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    return place


def _pytest(session: nox.Session) -> None:
    session.install("pytest-xdist")
    session.chdir(_without_the_package(session))
    # Not `python -m pytest`, which would put the working directory on the path.
    session.run("pytest", "-q", "-n", "auto", *session.posargs)


@nox.session(python=NEWEST)
def lint(session: nox.Session) -> None:
    """Check rules and format."""
    session.install("ruff>=0.8")
    session.chdir(ROOT)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session(python=NEWEST)
def wheel(session: nox.Session) -> None:
    """Build, and look into what was built."""
    wheel = _wheel(session)
    with zipfile.ZipFile(wheel) as archive:
        shipped = set(archive.namelist())
    package = {name for name in shipped if name.startswith("repeatguard_sdk/")}
    rest = {name for name in shipped - package if ".dist-info/" not in name}
    if rest:
        session.error(f"the wheel holds more than the package: {sorted(rest)}")
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "repeatguard_sdk").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    if package != sources or "repeatguard_sdk/py.typed" not in package:
        session.error(f"wheel and source differ in {sorted(package ^ sources)}")
    (source,) = DIST.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        top = {Path(name).parts[1] for name in archive.getnames()}
    wanted = {"CHANGELOG.md", "README.md", "examples", "pyproject.toml", "repeatguard_sdk", "tests"}
    if not wanted <= top:
        session.error(f"the source archive lacks {sorted(wanted - top)}")
    session.log(f"{wheel.name}: {len(package)} files of the package, py.typed among them")


@nox.session(python=NEWEST)
def typing(session: nox.Session) -> None:
    """Check the package, and how decorated tools look to a type checker."""
    session.install(f"{_wheel(session)}[tests,typing]")
    session.chdir(ROOT)
    session.run("mypy")
    session.run("mypy", "--strict", "tests/typing")
    session.run("pyright", "--pythonpath", f"{session.bin}/python")


@nox.session(python=[version for version in VERSIONS if version != _here()])
def tests(session: nox.Session) -> None:
    """Run the tests against the wheel."""
    session.install(f"{_wheel(session)}[tests]")
    _pytest(session)


@nox.session(python=VERSIONS[0])
def lowest(session: nox.Session) -> None:
    """Run the tests against the oldest dependencies that are promised."""
    session.install(f"{_wheel(session)}[tests]", *LOWEST)
    _pytest(session)


@nox.session(python=[VERSIONS[0], NEWEST])
def compiled(session: nox.Session) -> None:
    """Run the tests against the compiled build."""
    session.install(f"{_compiled_wheel(session)}[tests]")
    session.run("python", "-c", "from repeatguard_sdk._locking import COMPILED; assert COMPILED")
    _pytest(session)


@nox.session(python=NEWEST)
def neighbours(session: nox.Session) -> None:
    """Run the tests that need real clients, tracers, trio, numpy or orjson; none is skipped."""
    session.install(f"{_compiled_wheel(session)}[tests]", *NEIGHBOURS)
    session.chdir(_without_the_package(session))
    for module in NEIGHBOURS.values():
        # Where one is missing its tests would be skipped without a word.
        session.run("python", "-W", "ignore", "-c", f"import {module}", silent=True)
    session.run("pytest", "-q", *(f"tests/{name}" for name in NEIGHBOUR_TESTS))


@nox.session(python=NEWEST)
def page(session: nox.Session) -> None:
    """Look at the page of the report in a browser, which is installed if it is missing."""
    if not all(map(shutil.which, BROWSER)):
        session.run("apt-get", "update", "-qq", external=True)
        session.run("apt-get", "install", "-qq", "-y", *BROWSER_PACKAGES, external=True)
    for program in BROWSER:
        # Where one is missing the test would be skipped without a word.
        session.run(program, "--version", external=True)
    session.install(f"{_wheel(session)}[tests]", "selenium>=4.20")
    session.chdir(_without_the_package(session))
    session.run("python", "-c", "import selenium.webdriver", silent=True)
    session.run("pytest", "-q", "tests/report/test_page.py")


@nox.session(python=RAY)
def ray(session: nox.Session) -> None:
    """Audit a folder on a local Ray cluster, in an environment of its own: it is a large one."""
    session.install(f"{_wheel(session)}[tests]", "ray[data]>=2.40")
    session.chdir(_without_the_package(session))
    session.run("python", "-W", "ignore", "-c", "import ray.data", silent=True)
    with tempfile.TemporaryDirectory(dir="/tmp") as outside:
        # Ray's workers do not start below a virtual environment, where nox has its temporary files,
        # and without workers it waits for ever.
        command = ("timeout", "600", f"{session.bin}/pytest", "-q", "tests/audit/test_with_ray.py")
        session.run(*command, env={"RAY_TMPDIR": outside, "TMPDIR": outside}, external=True)


@nox.session(python=VERSIONS)
def examples(session: nox.Session) -> None:
    """Run the examples with nothing installed but the package."""
    session.install(str(_wheel(session)))
    for name in EXAMPLES:
        session.run("python", str(ROOT / "examples" / name), silent=True)


@nox.session(python=VERSIONS)
def instructions(session: nox.Session) -> None:
    """Hold the number of instructions of a guarded call within 5 % of what is kept."""
    session.install(str(_wheel(session)))
    session.chdir(_without_the_package(session))
    session.run("python", "tests/benchmarks/instructions.py", "--check", silent=True)


def _oldest(extra: str) -> list[str]:
    """Return the requirements of an extra, each at the oldest version it admits."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted: list[str] = project["optional-dependencies"][extra]
    return [requirement.split(",")[0].replace(">=", "==") for requirement in wanted]


_began: list[str] = []


def _adapter(session: nox.Session, name: str, age: str) -> None:
    """Hold one adapter to the contract, in an environment of its own, and run its example."""
    extra = name.replace("_", "-")
    wanted = _oldest(extra) if age == "oldest" else list(BESIDE.get(name, ()))
    # The newest with the compiled build, the oldest with the other one.
    wheel = _wheel(session) if age == "oldest" else _compiled_wheel(session)
    # Not all that the tests want: frameworks pin what they need of it.
    session.install(f"{wheel}[{extra}]", *wanted, "hypothesis>=6.100", "pytest>=8.2")
    session.chdir(_without_the_package(session))
    if not _began:
        # What earlier runs of nox verified is not what this one did.
        VERIFIED.unlink(missing_ok=True)
        _began.append(name)
    asked_for = {"REPEATGUARD_FRAMEWORK": name, "REPEATGUARD_VERIFIED": str(VERIFIED)}
    session.run("pytest", "-q", "tests/integrations", *session.posargs, env=asked_for)
    session.run("python", f"examples/{name}_loop.py", silent=True)


for _name in ADAPTERS:
    for _age in ("newest", "oldest"):
        _session = functools.partial(_adapter, name=_name, age=_age)
        functools.update_wrapper(_session, _adapter)
        nox.session(_session, python=NEWEST, name=f"{_name}_{_age}")


@nox.session(python=NEWEST)
def verified(session: nox.Session) -> None:
    """Print what the adapters' sessions have verified, as the README's table has it."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    lines = VERIFIED.read_text(encoding="utf-8").splitlines() if VERIFIED.exists() else []
    for line in lines:
        row = json.loads(line)
        found.setdefault(row["name"], {})[row["version"]] = row
    for name, rows in sorted(found.items()):
        ages = sorted(rows, key=lambda version: [int(part) for part in version.split(".")])
        passed = ", ".join(str(rows[version].get("passed", 0)) for version in ages)
        without = ", ".join(str(rows[version].get("not applicable", 0)) for version in ages)
        session.log(f"| {name} | {', '.join(ages)} | {passed} | {without} |")
