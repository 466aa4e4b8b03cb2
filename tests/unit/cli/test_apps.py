"""Apps of one file and of several: every form of a place, in every command that loads one."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.forked_python import ForkedPython, run_python

from awaken.cli.apps import AppFailed, file_of, is_place, load_app
from awaken.cli.command_line import MODULES
from awaken.contracts.errors import InvalidInput

from .conftest import Call

MODEL = """
from awaken.testing import ScriptedModel

def scripted():
    return ScriptedModel(["At your service."], cycle=True)
"""
AGENTS = """
from awaken import Agent, tool
from awaken.extensions.permission import PermissionPlugin

from {models} import scripted

@tool(effect="none")
def add(a: int, b: int) -> int:
    '''Add.'''
    return a + b

helper = Agent("helper", model=scripted(), tools=[add], plugins=[PermissionPlugin()])
other = Agent("other", model=scripted())
"""
RUNTIME = """
from awaken import AgentRuntime
from {agents} import helper, other

runtime = AgentRuntime([helper, other], store="sqlite:///own.db")
"""
FACTORIES = """
from awaken import AgentRuntime
from {agents} import helper, other

def make_runtime():
    return AgentRuntime([helper, other], store="sqlite:///own.db")

def make_agents():
    return [helper, other]

async def make_later():
    return make_runtime()

class Made:
    inside = [helper]
"""
LONELY = """
from awaken import Agent, AgentRuntime
from awaken.extensions.permission import PermissionPlugin
from awaken.testing import ScriptedModel

model = ScriptedModel(["Alone."], cycle=True)
runtime = AgentRuntime([Agent("helper", model=model, plugins=[PermissionPlugin()])])
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with an app of several files and a package; returns what its names begin with."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AWAKEN_STORE", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"shop_{abs(hash(tmp_path)) % 10**8}"
    flat = {"models": f"{name}_models", "agents": f"{name}_agents"}
    write(tmp_path / f"{name}_models.py", MODEL)
    write(tmp_path / f"{name}_agents.py", AGENTS.format(**flat))
    write(tmp_path / f"{name}_runtime.py", RUNTIME.format(**flat))
    write(tmp_path / f"{name}_make.py", FACTORIES.format(**flat))
    write(tmp_path / f"{name}_lonely.py", LONELY)
    package = tmp_path / f"{name}_pkg"
    write(package / "__init__.py", "")
    write(package / "deep" / "__init__.py", "")
    write(package / "models.py", MODEL)
    write(package / "deep" / "agents.py", AGENTS.format(models="..models"))
    write(package / "main.py", RUNTIME.format(agents=".deep.agents"))
    return name


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


PLACES = (
    "{0}_agents.py", "{0}_agents.py:helper", "{0}_runtime.py", "{0}_runtime.py:runtime",
    "{0}_make.py:make_runtime", "{0}_make.py:make_agents", "{0}_make.py:make_later",
    "{0}_make.py:Made.inside", "{0}_pkg/main.py", "{0}_pkg/main.py:runtime",
    "{0}_pkg/deep/agents.py", "{0}_agents", "{0}_agents:helper", "{0}_pkg.main:runtime",
    "{0}_pkg.deep.agents:helper", "{0}_make:make_later", "{0}_lonely.py",
)  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_every_form_of_a_place_is_loaded(shop: str, place: str) -> None:
    app = load_app(place.format(shop))
    assert app.agents[0].id == "helper"
    names = ("runtime", "later", "lonely", "main")
    assert (app.runtime is not None) is any(it in place for it in names)
    assert file_of(place.format(shop)).is_file()


@pytest.mark.parametrize("place", PLACES)
def test_it_works_from_another_folder(
    shop: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ".py" not in place:
        return
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert load_app(f"../{place.format(shop)}").agents[0].id == "helper"


COMMANDS: dict[str, Any] = {
    "run": lambda place: ("run", place, "helper", "hi"),
    "chat": lambda place: ("chat", place, "helper"),
    "doctor": lambda place: ("doctor", place, "--port", "0", "--json"),
    "test": lambda place: ("test", place, "--schedules", "1", "--json"),
    "policy": lambda place: ("policy", "preview", place, "helper", "--json"),
    "models": lambda place: ("models", "list", "--app", place, "--json"),
    "upgrade": lambda place: ("upgrade", "check", place, "--store", "sqlite:///some.db", "--json"),
    "recording": lambda place: (
        "recording",
        "show",
        "none",
        "--app",
        place,
        "--store",
        "sqlite:///some.db",
    ),
    "memory": lambda place: ("memory", "reindex", "--app", place, "--store", "sqlite:///some.db"),
    "schedules": lambda place: (
        "schedules",
        "create",
        "helper",
        "hi",
        "--every",
        "3600",
        "--app",
        place,
        "--store",
        "sqlite:///some.db",
    ),
    "mcp-login": lambda place: ("mcp-login", place, "none"),
    "serve": None,
    "worker": None,
    "mcp": None,
    "acp": None,
}
"""How each command that loads an app is called; those without go on until they are stopped."""


def test_no_command_that_loads_an_app_is_left_out() -> None:
    loading = set()
    for name, module in MODULES.items():
        text = Path(load_app.__code__.co_filename).with_name(f"{module}.py").read_text("utf-8")
        if "load_app" in text or "load_stdio_target" in text:
            loading.add(name)
    assert loading == set(COMMANDS)


SHORT = [name for name, arguments in COMMANDS.items() if arguments is not None]
EVERYWHERE = ("{0}_agents.py", "{0}_runtime.py", "{0}_pkg.main:runtime", "{0}_make.py:make_later")


@pytest.mark.parametrize("place", [*EVERYWHERE, "{0}_lonely.py"])
@pytest.mark.parametrize("name", SHORT)
def test_every_command_takes_it(shop: str, call: Call, name: str, place: str) -> None:
    if name in ("memory", "recording", "schedules", "upgrade"):
        assert call("run", f"{shop}_runtime.py", "helper", "hi").code == 0
        os.replace("own.db", "some.db")
    done = call(*COMMANDS[name](place.format(shop)))
    if name == "mcp-login":
        assert "MCP server 'none' is invalid: it does not exist" in done.err
        return
    if name == "memory":
        assert "the runtime has no embedding model" in done.err
        return
    if name == "recording":
        # The app was loaded, and its run is looked for.
        assert "run not found: none" in done.err
        return
    assert done.code == 0, done.err
    if name == "run":
        assert done.out.strip() in ("At your service.", "Alone.")
    if name == "models":
        assert "helper" in [it["agent_id"] for it in done.document["agents"]]


@pytest.mark.parametrize("place", ["{0}_runtime.py", "{0}_pkg.main:runtime", "{0}_make:make_later"])
@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_process_serves_and_works_for_it(shop: str, command: str, place: str) -> None:
    more = ("--port", "0") if command == "serve" else ()
    arguments = ["-m", "awaken", command, place.format(shop), *more, "--json"]
    with ForkedPython(
        *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=30)
    assert line, error
    ready = json.loads(line)
    assert (ready["event"], ready["agents"]) == ("ready", ["helper", "other"])
    assert ready["store"] == "sqlite:///own.db"
    assert process.returncode == 0, error


@pytest.mark.parametrize("command", ["mcp", "acp"])
def test_what_talks_over_a_pipe_takes_it(shop: str, command: str) -> None:
    done = run_python("-m", "awaken", command, f"{shop}_pkg.main:runtime")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


RAISING = {
    "statement": (
        "x = 1\n\ndef inner():\n    raise RuntimeError('my own mistake')\n\ninner()\n",
        4,
    ),
    "missing": ("import nothing_of_that_name_here\n", 1),
    "syntax": ("x = 1\ndef broken(\n", 2),
    "agent": ("from awaken import Agent\n\nhelper = Agent('', model='x')\n", 3),
    "chain": (
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('mine') from e\n",
        4,
    ),
}


@pytest.mark.parametrize("raised", RAISING)
@pytest.mark.parametrize("name", SHORT)
def test_what_a_persons_code_raises_is_shown_where_it_is_raised(
    shop: str, call: Call, name: str, raised: str, tmp_path: Path
) -> None:
    text, line = RAISING[raised]
    write(tmp_path / f"{shop}_bad.py", text)
    if name in ("schedules", "upgrade"):
        assert call("run", f"{shop}_runtime.py", "helper", "hi").code == 0
        os.replace("own.db", "some.db")
    done = call(*(it for it in COMMANDS[name](f"{shop}_bad.py") if it != "--json"))
    assert f'{shop}_bad.py", line {line}' in done.err
    if name == "doctor":
        # One failed check among the others.
        assert (done.code, "cannot be imported" in done.out) == (1, True)
    else:
        assert (done.code, "cannot be imported" in done.err.splitlines()[-1]) == (2, True)
    assert "importlib" not in done.err
    assert "awaken/cli" not in done.err


def test_what_a_sibling_or_a_factory_raises_is_shown_too(shop: str, tmp_path: Path) -> None:
    write(tmp_path / f"{shop}_sibling.py", "raise RuntimeError('in the sibling')\n")
    write(tmp_path / f"{shop}_uses.py", f"import {shop}_sibling\n")
    write(
        tmp_path / f"{shop}_factory.py",
        "def make():\n    raise RuntimeError('mine')\n\nasync def later():\n    make()\n",
    )
    with pytest.raises(AppFailed) as refused:
        load_app(f"{shop}_uses.py")
    assert f'{shop}_uses.py", line 1' in refused.value.trace
    assert f'{shop}_sibling.py", line 1' in refused.value.trace
    assert "importlib" not in refused.value.trace
    for name in ("make", "later"):
        with pytest.raises(AppFailed) as refused:
            load_app(f"{shop}_factory.py:{name}")
        assert f'{shop}_factory.py", line 2, in make' in refused.value.trace


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("nothing.py", "is not a file"),
        ("nothing_of_that_name", "no module of that name can be imported from"),
        ("{0}_pkg.nothing:x", "no module of that name"),
        ("{0}_agents.py:nobody", "there is no 'nobody'"),
        ("{0}_agents.py:add", "is no agent and no runtime"),
        ("{0}_models.py", "defines no agent and no runtime"),
        ("{0}_two.py", "several runtimes: one, two; name one, as {0}_two.py:one"),
        ("some.txt", "is no Python file"),
    ],
)
def test_what_is_no_app_is_refused_with_a_way_out(
    shop: str, tmp_path: Path, place: str, problem: str
) -> None:
    write(tmp_path / "some.txt", "x")
    both = "from awaken import AgentRuntime\none = AgentRuntime()\ntwo = AgentRuntime()\n"
    write(tmp_path / f"{shop}_two.py", both)
    with pytest.raises(InvalidInput) as refused:
        load_app(place.format(shop))
    found = str(refused.value)
    if place.endswith(":add"):
        # A tool is called as a factory would be; whatever it says, it is no agent.
        assert "agent" in found or "cannot be imported" in found
    else:
        assert problem.format(shop) in found


def test_a_file_that_is_called_like_a_library_takes_nothings_place(
    shop: str, tmp_path: Path
) -> None:
    write(tmp_path / "json.py", LONELY)
    assert load_app("json.py").agents[0].id == "helper"
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("app.py", True), ("folder/app.py:runtime", True), ("pkg.module:attr", True),
        ("module:attr", True), ("helper", False), ("pkg.module", False), ("hello there", False),
        ("remote/agent", False), ("tell me: why", False),
    ],
)  # fmt: skip
def test_an_app_is_told_from_an_agent(word: str, expected: bool) -> None:
    assert is_place(word) is expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("helper", "hi"), "At your service."),
        (("other", "hi"), "At your service."),
        (("hi there",), "At your service."),
        ((), "You talk to 'helper'"),
        (("other",), "You talk to 'other'"),
    ],
)
def test_run_takes_an_app_an_agent_and_a_text(
    shop: str, call: Call, words: tuple[str, ...], said: str
) -> None:
    done = call("run", f"{shop}_runtime.py", *words)
    assert done.code == 0, done.err
    assert said in done.out


def test_run_refuses_more_words_than_it_has_a_meaning_for(shop: str, call: Call) -> None:
    done = call("run", f"{shop}_runtime.py", "helper", "tell", "me")
    assert done.code == 2
    assert "quote the text" in done.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("{0}_runtime.py", "--store", "sqlite:///x.db"), "has its own"),
        (("{0}_lonely.py",), "its store is in memory"),
    ],
)
def test_a_worker_leaves_a_runtime_what_it_says_itself(
    shop: str, call: Call, arguments: tuple[str, ...], problem: str
) -> None:
    done = call("worker", *(it.format(shop) for it in arguments))
    assert done.code == 2
    assert problem in done.err
