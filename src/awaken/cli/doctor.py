"""`awaken doctor`: checks what agents need on this machine, and says how to mend it."""

import asyncio
import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from awaken.contracts.errors import AwakenError

from .apps import FORMS, App, load_app
from .command_context import BusUrl, StoreUrl
from .command_line import new_app
from .doctor_checks import (
    CheckStatus,
    MachineCheck,
    check_agents,
    check_clock,
    check_environment_file,
    check_extras,
    check_keys,
    check_port,
    check_sandbox,
    check_versions,
)
from .doctor_store import check_carrier, check_store
from .output import DIM, ERROR, GOOD, WARNING, as_json, plain, print_stderr, print_stdout, style
from .reports import REFUSED, IsJson, report_errors
from .spinner import show_spinner

_MARKS = {
    CheckStatus.OK: ("ok", GOOD),
    CheckStatus.ABSENT: ("-", DIM),
    CheckStatus.WARNING: ("warning", WARNING),
    CheckStatus.FAILED: ("failed", ERROR),
}

app = new_app()


@app.command()
def doctor(
    app_place: Annotated[
        str | None, typer.Argument(metavar="APP", help=f"Also the keys of its agents: {FORMS}.")
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="As for `serve`.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65_535, help="As for `serve`.")
    ] = None,
    *,
    store_url: StoreUrl = None,
    bus_url: BusUrl = None,
    is_json: IsJson = False,
) -> None:
    """Check this machine: versions, keys, store, carrier, port, clock and sandbox.

    Whatever is ill, all checks are made; exits with 1 if one failed. No value of a key is printed.
    To see that the store can be
    written, one entry is written to it and removed. A store that does not exist is not created.
    """
    with report_errors(is_json=is_json):
        app, loaded = (None, None) if app_place is None else _check_app(app_place)
        with show_spinner("Checks…"):
            checks = asyncio.run(_check_all(app, loaded, (store_url, bus_url), host, port))
    is_good = all(it.status is not CheckStatus.FAILED for it in checks)
    print_stdout(as_json({"is_good": is_good, "checks": checks}) if is_json else _text(checks))
    if not is_good:
        raise typer.Exit(REFUSED)


def _check_app(place: str) -> tuple[App | None, MachineCheck]:
    """Load an app, and report whether that works; its own traceback goes to stderr."""
    try:
        # What its code prints is no part of the report.
        with redirect_stdout(sys.stderr):
            app = load_app(place)
    except AwakenError as error:
        if trace := getattr(error, "trace", ""):
            print_stderr(trace)
        return None, MachineCheck(name="app", status=CheckStatus.FAILED, detail=str(error))
    kind = "a runtime" if app.runtime is not None else f"{len(app.agents)} agents"
    return app, MachineCheck(name="app", detail=f"{place}: {kind}")


async def _check_all(
    app: App | None,
    loaded: MachineCheck | None,
    urls: tuple[str | None, str | None],
    host: str | None,
    port: int | None,
) -> list[MachineCheck]:
    found = [*check_versions(), *check_extras(), check_environment_file(), *check_keys()]
    if loaded is not None:
        found.append(loaded)
    if app is not None:
        found += check_agents(app)
    found += await check_store(app, urls[0])
    found.append(await check_carrier(app, *urls))
    return [*found, check_port(host, port), check_clock(), await check_sandbox()]


def _text(checks: list[MachineCheck]) -> str:
    width = max(len(it.name) for it in checks)
    lines = []
    for check in checks:
        mark, color = _MARKS[check.status]
        line = f"{style(mark.ljust(7), color)}  {check.name.ljust(width)}  {plain(check.detail)}"
        lines.append(line.rstrip())
        if check.remedy:
            lines.append(f"{' ' * (width + 11)}{plain(check.remedy)}")
    failed = sum(it.status is CheckStatus.FAILED for it in checks)
    end = f"{failed} of {len(checks)} checks failed." if failed else "Nothing is wrong."
    return "\n".join([*lines, "", style(end, ERROR if failed else GOOD)])
