"""Conversations: kept in a store, with questions of delegates, and as events for programs."""

import json
from pathlib import Path

import pytest

from .conftest import Call
from .test_command_line import imported_by

APP = """
from awaken import Agent, tool
from awaken.extensions.permission import PermissionPlugin
from awaken.testing import ScriptedModel, ToolCalls


@tool
async def pay(amount: int) -> str:
    "Pay."
    with open("paid", "a") as file:
        file.write(str(amount))
    return "paid"


def answer(request):
    last = request.messages[-1]
    if last.role == "tool":
        return f"I saw: {last.text}"
    if last.text.startswith("pay"):
        return ToolCalls([("pay", {"amount": 5})])
    return f"{len(request.messages)} messages"


rules = {"permission": {"default_behavior": "ask"}}
cashier = Agent(
    "cashier", model=ScriptedModel([answer], cycle=True), tools=[pay],
    plugins=[PermissionPlugin()], config=rules,
)


def ask_cashier(request):
    last = request.messages[-1]
    if last.role == "tool":
        return f"The cashier said: {last.text}"
    return ToolCalls([("agent_run_cashier", {"prompt": "pay now"})])


boss = Agent("boss", model=ScriptedModel([ask_cashier], cycle=True), delegates=["cashier"])
broken = Agent("broken", model=ScriptedModel([RuntimeError("no model")]))
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def test_programs_get_every_event_and_no_question(call: Call, shop: Path) -> None:
    done = call("run", "app.py", "cashier", "hello", "--json")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0, done.err
    assert [events[0]["event_type"], events[-1]["event_type"]] == ["run_start", "run_finish"]
    assert "1 messages" in "".join(it.get("delta", "") for it in events)
    waits = call("run", "app.py", "cashier", "pay", "--json", typed="y\n")
    assert waits.code == 1
    assert json.loads(waits.out.splitlines()[-1])["termination"]["type"] == "suspended"
    assert not (shop / "paid").exists()
    failed = call("run", "app.py", "broken", "hi", "--json")
    assert failed.code == 1
    unknown = call("run", "app.py", "nobody", "hi", "--json")
    assert (unknown.code, unknown.error["code"]) == (2, "unknown_agent")
    assert call("run", "app.py", "--json").error["code"] == "invalid_input"


def test_a_conversation_in_a_store_is_continued_with_its_open_question(
    call: Call, shop: Path
) -> None:
    place = ("--store", "sqlite:///chat.db", "--thread", "t1")
    assert "1 messages" in call("run", "app.py", "cashier", "hello", *place).out
    assert "3 messages" in call("run", "app.py", "cashier", "again", *place).out
    assert call("run", "app.py", "cashier", "pay", *place, "--json").code == 1
    waits = call("chat", "app.py", "cashier", *place, typed="yes\nhow many?\n")
    assert (waits.code, (shop / "paid").exists()) == (1, False)
    ticket = call("tickets", "list", "--store", "sqlite:///chat.db", "--json").document["items"][0]
    assert f"pay(amount=5)  ticket {ticket['ticket_id']}" in waits.err
    assert "--thread t1" in waits.err
    later = call("chat", "app.py", "cashier", *place, "--approve", "all", typed="how many?\n")
    assert "[pay {'amount': 5}] Permission required" in later.out
    assert (shop / "paid").read_text() == "5"
    assert "I saw: paid" in later.out
    assert "9 messages" in later.out
    missing = call("run", "app.py", "cashier", "hello", "--thread", "t1")
    assert (missing.code, "--store" in missing.err) == (2, True)


@pytest.mark.parametrize(("approve", "paid"), [("all", True), ("none", False)])
def test_questions_of_delegates_are_decided(
    call: Call, shop: Path, approve: str, paid: bool
) -> None:
    done = call("run", "app.py", "boss", "go", "--approve", approve)
    assert done.code == 0, done.err
    assert "[pay {'amount': 5}] Permission required" in done.out
    assert f"Decided by --approve {approve}." in done.out
    assert "The cashier said: " in done.out
    assert (shop / "paid").exists() is paid


@pytest.mark.parametrize("typed", ["", "y\n", "yes\nyes\n", "n\n", "always\n"])
@pytest.mark.parametrize("words", [["run", "app.py", "cashier", "pay"], ["chat", "app.py"]])
def test_without_a_terminal_no_line_approves_and_the_run_waits(
    call: Call, shop: Path, typed: str, words: list[str]
) -> None:
    is_chat = words[0] == "chat"
    done = call(*words, typed=f"pay\n{typed}hello\n" if is_chat else typed)
    assert done.code == 1
    assert not (shop / "paid").exists()
    assert done.err.startswith("awaken: the run waits for a decision, and there is no terminal")
    assert "  pay(amount=5)" in done.err
    assert "--approve all, --approve none" in done.err
    # What follows was not meant for a run that waits.
    assert "messages" not in done.out


def test_events_stay_events_where_calls_are_decided_in_advance(call: Call, shop: Path) -> None:
    done = call("run", "app.py", "cashier", "pay", "--json", "--approve", "all")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert (done.code, events[-1]["termination"]["type"]) == (0, "natural_end")
    assert (shop / "paid").read_text() == "5"


QUESTION_APP = """
from awaken import Agent
from awaken.demo.agents import ask_user_question
from awaken.testing import ScriptedModel, ToolCalls

question = ToolCalls([("askUserQuestion", {"question": "Really?"})])
asker = Agent("asker", model=ScriptedModel([question, "Thanks."]), tools=[ask_user_question])
"""


@pytest.mark.parametrize(("approve", "code"), [("all", 1), ("none", 0)])
def test_a_question_that_wants_an_answer_cannot_be_approved(
    call: Call, tmp_path: Path, approve: str, code: int
) -> None:
    (tmp_path / "app.py").write_text(QUESTION_APP)
    done = call("run", "app.py", "Hello", "--approve", approve)
    assert (done.code, "Thanks." in done.out) == (code, code == 0), done.err


def test_a_model_is_asked_without_an_app_and_a_wrong_name_gets_a_hint(
    call: Call, shop: Path
) -> None:
    assert "Scripted response to: hello" in call("chat", "-m", "scripted", typed="hello\n").out
    wrong = call("chat", "-m", "gpt-5-mini")
    assert (wrong.code, wrong.out) == (2, "")
    assert "did you mean 'openai:gpt-5-mini'?" in wrong.err
    assert "names its own models" in call("chat", "app.py", "-m", "scripted").err
    assert "takes no text" in call("chat", "app.py", "cashier", "hello").err


def test_commands_of_a_conversation_are_not_sent_to_the_model(call: Call, shop: Path) -> None:
    typed = "/help\n/thread\nhello\n/thread\n/agent nobody\n/agent boss\n/new\nhello\n/exit\nno\n"
    done = call("chat", "app.py", "cashier", "--approve", "none", typed=typed)
    assert done.code == 0, done.err
    for words in ("/new ", "no id before", "1 messages", "'nobody' is not", "You talk to 'boss'"):
        assert words in done.out
    assert "The cashier said: 1 messages" not in done.out
    assert "A new conversation begins." in done.out


def test_a_pipe_loads_no_terminal_library() -> None:
    modules = imported_by("run", "hello there")
    assert not {"rich", "readline", "markdown_it"} & modules
