"""A runtime of one's own takes the options of commands that its code leaves open."""

from pathlib import Path

import pytest

from awaken.cli.managed_start import ManagedStart
from awaken.cli.serve_targets import load_app_target
from awaken.errors import InvalidInput, Misuse

from .conftest import Call

APP = """
from dataclasses import dataclass
from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.testing import ScriptedModel, ToolCalls

@dataclass
class Customer:
    id: str
    plan: str = "free"

@tool
def read(ctx: ToolContext) -> str:
    "Read."
    return ctx.deps["name"]

script = ScriptedModel([ToolCalls([("read", {{}})]), lambda it: it.messages[-1].text], cycle=True)
helper = Agent("helper", model=script, tools=[read])
typed = Agent("typed", model=ScriptedModel(["Hello."], cycle=True), context_type=Customer)
runtime = AgentRuntime([helper, typed], deps={{"name": "a pool"}}{more})

def make():
    return AgentRuntime([helper], deps={{"name": "a pool"}})
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AWAKEN_STORE", raising=False)
    path = tmp_path / "own_app.py"
    path.write_text(APP.format(more=""), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["", ":runtime", ":make"])
def test_a_runtime_without_a_store_gets_that_of_the_command(place: Path, name: str) -> None:
    served = load_app_target(f"{place}{name}", "sqlite:///some.db").runtime
    assert served.store.is_shared
    assert served.given["deps"] == {"name": "a pool"}
    assert served.managed is not None


def test_what_the_code_says_is_not_replaced(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write_text(APP.format(more=', store="sqlite:///own.db", managed=False'), encoding="utf-8")
    with pytest.raises(InvalidInput, match="has its own"):
        load_app_target(str(place), "sqlite:///some.db")
    monkeypatch.setenv("AWAKEN_STORE", "sqlite:///some.db")
    assert load_app_target(str(place), "sqlite:///some.db").runtime.managed is None
    with pytest.raises(InvalidInput, match="needs managed=True"):
        load_app_target(str(place), None, ManagedStart(folder=place.parent))


def test_managed_configuration_follows_the_options(place: Path) -> None:
    pinned = load_app_target(str(place), None, ManagedStart(publication=3)).runtime
    assert pinned.managed is not None
    off = load_app_target(str(place), None, ManagedStart(is_managed=False)).runtime
    assert off.managed is None


def test_an_open_runtime_is_not_made_again(place: Path) -> None:
    runtime = load_app_target(str(place), None).runtime
    runtime._is_open = True
    with pytest.raises(Misuse, match="open"):
        runtime.with_options(store="sqlite:///some.db")


def test_run_keeps_a_conversation_of_a_runtime_in_the_store(call: Call, place: Path) -> None:
    done = call("run", "own_app.py:runtime", "helper", "go", "--store", "sqlite:///some.db")
    assert (done.code, "a pool" in done.out) == (0, True)
    assert Path("some.db").exists()


@pytest.mark.parametrize("text", ["Hello", "RUN_TOOL", "Hello!", "two words"])
def test_a_text_of_one_word_is_said_to_the_first_agent(call: Call, place: Path, text: str) -> None:
    done = call("run", "own_app.py", text)
    assert (done.code, "a pool" in done.out) == (0, True)


@pytest.mark.parametrize("arguments", [("completion", "bash"), ("init", "new")])
def test_a_malformed_file_of_variables_stops_no_command_that_needs_none(
    call: Call, place: Path, arguments: tuple[str, ...]
) -> None:
    Path(".env").write_text("bad line\n", encoding="utf-8")
    assert call(*arguments).code == 0


def test_doctor_reports_an_ill_file_and_an_ill_app_among_its_checks(
    call: Call, place: Path
) -> None:
    Path(".env").write_text("bad line\n", encoding="utf-8")
    for text in ("import nothing_like_it", "x = ", "raise SystemExit(3)", "x = 1"):
        Path("ill.py").write_text(text, encoding="utf-8")
        done = call("doctor", "ill.py", "--json")
        found = {it["name"]: it.get("status") for it in done.document["checks"]}
        assert (done.code, found["app"], found[".env"]) == (1, "failed", "failed")
        assert "python" in found


def test_queued_input_has_a_context(call: Call, place: Path) -> None:
    store = ("--store", "sqlite:///queue.db")
    done = call("submit", "typed", "hi", "--context", '{"id": "c-7"}', *store, "--json")
    assert done.code == 0, done.err
    shown = call("threads", "show", done.document["thread_id"], *store, "--json")
    assert shown.code == 0
    refused = call("submit", "typed", "hi", "--context", "[1]", *store)
    assert (refused.code, "no JSON object" in refused.err) == (2, True)


def test_a_bus_of_the_command_is_used_unless_the_code_has_one(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "nats://127.0.0.1:1"
    assert load_app_target(str(place), "sqlite:///some.db", bus_url=url).runtime.given["bus"] == url
    assert "bus" not in load_app_target(str(place), "sqlite:///some.db", bus_url="").runtime.given
    place.write_text(APP.format(more=', bus="none"'), encoding="utf-8")
    with pytest.raises(InvalidInput, match="--bus"):
        load_app_target(str(place), "sqlite:///some.db", bus_url=url)
    monkeypatch.setenv("AWAKEN_BUS", url)
    kept = load_app_target(str(place), "sqlite:///some.db", bus_url=url)
    assert kept.runtime.given["bus"] == "none"
