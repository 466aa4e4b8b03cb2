"""The words of `awaken run` and `awaken chat`: each is read in one way, and errors name it."""

import subprocess
import sys
from pathlib import Path

import pytest

from awaken.cli.run_words import RunWords, read_agent, read_words, split_app
from awaken.contracts.errors import InvalidInput

from .conftest import Call

KNOWN = ["assistant", "billing"]

APPS = [
    (["agent.py"], "agent.py", []),
    (["agent.py:helper", "hi"], "agent.py:helper", ["hi"]),
    (["pkg.mod:runtime", "hi"], "pkg.mod:runtime", ["hi"]),
    (["./a/agent.py", "hi"], "./a/agent.py", ["hi"]),
    (["hello"], None, ["hello"]),
    (["what is in agent.py"], None, ["what is in agent.py"]),
    (["Note: this is a text"], None, ["Note: this is a text"]),
    (["agent.py", "note:important"], "agent.py", ["note:important"]),
    ([], None, []),
]
WORDS: list[tuple[list[str], str | None, tuple[str | None, str | None]]] = [
    ([], None, (None, None)),
    (["Hello"], None, (None, "Hello")),
    (["Hello!"], None, (None, "Hello!")),
    (["RUN_WEATHER_TOOL"], None, (None, "RUN_WEATHER_TOOL")),
    (["-"], None, (None, "-")),
    (["what is up?"], None, (None, "what is up?")),
    (["ask the assistant about it"], None, (None, "ask the assistant about it")),
    (["assistant"], None, ("assistant", None)),
    (["assistant", "Hello"], None, ("assistant", "Hello")),
    (["assistant", "billing"], None, ("assistant", "billing")),
    (["assistant", "-"], None, ("assistant", "-")),
    (["nobody", "Hello"], None, ("nobody", "Hello")),
    ([], "billing", ("billing", None)),
    (["assistant"], "billing", ("billing", "assistant")),
    (["asistant"], "assistant", ("assistant", "asistant")),
]
REFUSED = [
    ([""], None, "it is empty; leave it out for a conversation"),
    (["  "], None, "it is empty"),
    (["assistant", ""], None, "it is empty"),
    (["asistant"], None, "did you mean 'assistant'? To say it, name the agent too: --agent "),
    (["Assistant"], None, "did you mean 'assistant'?"),
    (["what", "is", "up"], None, 'quote the text: "what is up"'),
    (["assistant", "is", "up"], None, "quote the text"),
    (["what", "now"], "assistant", 'quote the text: "what now"'),
]


@pytest.mark.parametrize(("words", "place", "rest"), APPS)
def test_the_first_word_is_the_app_if_it_looks_like_one(
    words: list[str], place: str | None, rest: list[str]
) -> None:
    assert split_app(words, None) == (place, rest)
    assert split_app(words, "other.py") == ("other.py", words)


@pytest.mark.parametrize(("words", "agent_id", "expected"), WORDS)
def test_a_word_is_an_agent_or_the_text(
    words: list[str], agent_id: str | None, expected: tuple[str | None, str | None]
) -> None:
    assert read_words(words, agent_id, KNOWN, KNOWN.__contains__) == RunWords(*expected)


@pytest.mark.parametrize(("words", "agent_id", "problem"), REFUSED)
def test_what_could_mean_two_things_is_refused_with_the_way_out(
    words: list[str], agent_id: str | None, problem: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_words(words, agent_id, KNOWN, KNOWN.__contains__)
    assert problem in str(refused.value)


def test_a_conversation_takes_an_agent_and_no_text() -> None:
    assert read_agent(["billing"], None) == read_agent([], "billing") == ("billing", None)
    assert read_agent([], None) == (None, None)
    for words, agent_id in ((["billing", "hi"], None), (["hi"], "billing")):
        with pytest.raises(InvalidInput, match=r"it takes no text; `awaken run …"):
            read_agent(words, agent_id)


APP = """
from awaken import Agent
from awaken.testing import ScriptedModel

def answer(request):
    return f"You said: {request.messages[-1].text!r}"

assistant = Agent("assistant", model=ScriptedModel([answer], cycle=True))
"""


@pytest.mark.parametrize(
    ("words", "typed", "answer"),
    [
        (["Hello"], "", "You said: 'Hello'"),
        (["-"], "two\nlines\n", "You said: 'two\\nlines'"),
        (["--agent", "assistant", "assistant"], "", "You said: 'assistant'"),
        (["--", "-v is an option"], "", "You said: '-v is an option'"),
        (["assistant", "-"], b"caf\xff".decode("latin-1"), "You said: 'cafÿ'"),
    ],
)
def test_the_text_reaches_the_agent(
    call: Call, tmp_path: Path, words: list[str], typed: str, answer: str
) -> None:
    (tmp_path / "agent.py").write_text(APP)
    done = call("run", "agent.py", *words, typed=typed)
    assert (done.code, done.out.strip(), done.err) == (0, answer, "")


def test_a_mistake_names_the_way_out(call: Call, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(APP)
    asked = call("run", "agent.py", "what", "now")
    assert asked.code == 2
    assert "Agent 'what' is not registered; known agents: assistant." in asked.err
    assert 'quote it: "what now"' in asked.err.splitlines()[-1]
    unknown = call("chat", "agent.py", "nobody")
    assert "known agents: assistant." in unknown.err
    assert 'To say something, write `awaken run … "nobody"`.' in unknown.err
    empty = call("run", "agent.py", "-")
    assert (empty.code, "stdin is invalid: it has no text" in empty.err) == (2, True)


def test_bytes_that_are_no_text_do_not_stop_it(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(APP)
    command = [sys.executable, "-m", "awaken", "run", "agent.py", "-"]
    done = subprocess.run(
        command, cwd=tmp_path, input=b"\xff\xfe", capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, b"You said: " in done.stdout) == (0, True), done.stderr
