"""The command as a whole: what it imports, what it lists, what its apps may be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from awaken import MailboxConfig, TenantLimits
from awaken.cli.apps import load_app
from awaken.cli.command_line import MODULES, SUMMARIES
from awaken.cli.main import app
from awaken.cli.worker import build_config
from awaken.contracts.errors import InvalidInput

from .conftest import Call

APP = """
from awaken import Agent
from awaken.testing import ScriptedModel

one = Agent("one", model=ScriptedModel(["1"]))
two = Agent("two", model=ScriptedModel(["2"]))
both = [one, two]
nothing = []
mixed = [one, "two"]
"""


def imported_by(*arguments: str) -> set[str]:
    """The modules that a command imports, in a process of its own."""
    code = (
        "import sys\n"
        "from awaken.cli.main import app\n"
        f"sys.argv = ['awaken', *{arguments!r}]\n"
        "try:\n    app()\n"
        "except SystemExit:\n    pass\n"
        "sys.stderr.write('\\n'.join(sys.modules))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "AWAKEN_STORE"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    return set(done.stderr.splitlines())


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_load_no_command_no_runtime_and_no_terminal_library(option: str) -> None:
    modules = imported_by(option)
    own = {name for name in modules if name.partition(".")[0] == "awaken"}
    front = {"awaken", "awaken._deferred_imports"}
    cli = {f"awaken.cli.{name}" for name in ("main", "command_line", "streams")}
    assert own == front | {"awaken.cli"} | cli
    heavy = {"aiohttp", "jsonschema_rs", "msgspec", "opentelemetry", "pydantic", "re2", "rich"}
    assert not heavy & modules


def test_the_list_of_commands_says_what_each_of_them_says_first() -> None:
    assert list(SUMMARIES) == list(MODULES)
    commands = typer.main.get_group(app).commands
    for name, summary in SUMMARIES.items():
        own = " ".join((commands[name].help or "").split())
        assert own.startswith(summary.rstrip(".")), name


def test_a_command_that_is_misspelt_is_not_searched_by_importing_all() -> None:
    modules = imported_by("sevre")
    assert not {f"awaken.cli.{name}" for name in MODULES.values()} & modules


def test_a_listing_imports_its_own_command_only(db: Path) -> None:
    modules = imported_by("runs", "list", "--store", f"sqlite:///{db}")
    unwanted = {"threads", "worker", "talking", "db", "sending"}
    assert not {f"awaken.cli.{name}" for name in unwanted} & modules
    assert not {"rich", "awaken.testing", "awaken.demo.agents"} & modules


def test_every_command_is_there_and_has_help(call: Call) -> None:
    listed = call("--help")
    assert listed.code == 0
    for name in MODULES:
        assert name in listed.out
        assert call(name, "--help").code == 0


@pytest.mark.parametrize(
    ("name", "found"), [("", ["one", "two"]), (":two", ["two"]), (":both", ["one", "two"])]
)
def test_an_app_is_a_file_or_a_name_in_it(tmp_path: Path, name: str, found: list[str]) -> None:
    path = tmp_path / "some_app.py"
    path.write_text(APP, encoding="utf-8")
    assert [agent.id for agent in load_app(f"{path}{name}").agents] == found


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (":missing", APP, "is no agent"),
        (":nothing", APP, "is no agent"),
        (":mixed", APP, "is no agent"),
        (":__name__", APP, "is no agent"),
        ("", "x = 1", "defines no agent"),
        ("", "import nothing_of_that_name", "ModuleNotFoundError"),
        ("", "def broken(", "SyntaxError"),
    ],
)
def test_what_is_no_app_is_refused(tmp_path: Path, name: str, content: str, problem: str) -> None:
    path = tmp_path / "some_app.py"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInput, match=problem):
        load_app(f"{path}{name}")


@pytest.mark.parametrize(
    "arguments",
    [
        ("worker", "nothing.py", "--store", "sqlite:///new.db"),
        ("worker", "--lease-ms", "10", "--store", "sqlite:///new.db"),
        ("worker",),
    ],
)
def test_a_worker_that_cannot_begin_makes_no_store(
    call: Call, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    answer = call(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert "Traceback" not in answer.err
    assert list(tmp_path.iterdir()) == []


def test_a_short_lease_is_renewed_and_looked_for_in_time() -> None:
    config = build_config(concurrency=3, lease_ms=600, drain_ms=7)
    assert (config.concurrency, config.lease_ms, config.drain_ms) == (3, 600, 7)
    assert (config.renew_ms, config.sweep_ms) == (200, 300)
    usual = build_config(concurrency=3, lease_ms=600_000, drain_ms=7)
    assert (usual.renew_ms, usual.sweep_ms) == (10_000, 15_000)


def test_what_no_option_names_stays_as_the_app_says_it() -> None:
    limits = {"acme": TenantLimits(max_busy=2)}
    own = MailboxConfig(tenants=limits, concurrency=5, renew_ms=1_000, lease_ms=9_000)
    config = build_config(own, drain_ms=7, lease_ms=6_000)
    assert (config.tenants, config.concurrency, config.drain_ms) == (limits, 5, 7)
    assert (config.lease_ms, config.renew_ms) == (6_000, 1_000)
