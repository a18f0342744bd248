"""The command `repeatguard`, each subcommand in a file of its own; wants the extra ``cli``."""

from __future__ import annotations

import sys
from collections.abc import Callable

_app: Callable[[], None] | None = None
try:
    import typer

    from repeatguard_sdk.cli._audit import audit
    from repeatguard_sdk.cli._report import report
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in ("rich", "typer"):
        raise
else:
    _app = typer.Typer(
        name="repeatguard",
        help="Keep tool-calling agents from going in circles: what the guard has seen, or would have.",
        no_args_is_help=True,
        add_completion=False,
        # Locals may hold what a tool said.
        pretty_exceptions_enable=False,
    )
    _app.command("audit")(audit)
    _app.command("report")(report)


def main() -> None:
    """Run the command line; the exit status is 2 where it cannot be run as it was asked for."""
    if _app is None:
        print(  # noqa: T201 - without typer and rich there is nothing else to say it with
            'repeatguard: the command line needs typer and rich: pip install "repeatguard-sdk[cli]"',
            file=sys.stderr,
        )
        raise SystemExit(2)
    _app()
