"""`awaken policy`: what changed rules would have done to past calls, and what rules hide."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken.contracts.permissions import ToolBehavior
from awaken.extensions.permission.checking import compiled
from awaken.extensions.permission.config import PermissionConfig
from awaken.extensions.permission.policy import PastCall, policy_diff

from .conftest import EVIL, Answer, Call

APP = """
from awaken import Agent, tool
from awaken.extensions.permission import PermissionPlugin
from awaken.testing import ScriptedModel

@tool
async def Bash(command: str) -> str:
    "Run."
    return command

@tool
async def Drop() -> str:
    "Drop."
    return ""

rules = [
    {"tool": "Drop", "behavior": "deny"},
    {"tool": "Bash(ls *)", "behavior": "allow"},
    {"tool": "Bash(rm *)", "behavior": "deny"},
]
guarded = Agent(
    "guarded", model=ScriptedModel([]), tools=[Bash, Drop], plugins=[PermissionPlugin()],
    config={"permission": {"rules": rules}},
)
free = Agent("free", model=ScriptedModel([]), tools=[Bash])
"""
ALLOWING = {"default_behavior": "allow"}
ASKING = {"rules": [{"tool": "announce", "behavior": "ask"}], "default_behavior": "allow"}
DENYING = {"rules": [{"tool": "a*", "behavior": "deny"}]}


@pytest.fixture
def compare(call: Call, tmp_path: Path, db: Path) -> Any:
    """Call `policy diff` with two documents."""

    def compared(old: Any, new: Any, *options: str) -> Answer:
        for name, document in (("old.yaml", old), ("new.yaml", new)):
            data = document if isinstance(document, bytes) else msgspec.yaml.encode(document)
            (tmp_path / name).write_bytes(data)
        return call("policy", "diff", "--old", "old.yaml", "--new", "new.yaml", *options)

    return compared


def counts(answer: Answer) -> list[int]:
    return [answer.document["newly"][it]["count"] for it in ("allow", "ask", "deny")]


def test_past_calls_that_would_be_refused_now_are_counted_and_shown(compare: Any) -> None:
    answer = compare(ALLOWING, DENYING, "--json")
    # `askUserQuestion` begins with the same letter.
    assert (answer.code, answer.document["calls"], counts(answer)) == (0, 3, [0, 0, 3])
    shown = answer.document["newly"]["deny"]["examples"]
    (announced,) = [it for it in shown if it["call"]["tool"] == "announce"]
    assert announced["call"]["arguments"] == {"text": EVIL}
    assert (announced["call"]["thread_id"], announced["call"]["run_id"]) == ("t-done", "r-done")
    assert announced["call"]["call_id"]
    assert (announced["before"], announced["after"]) == ("allow", "deny")
    assert announced["rule"] == "a*"


def test_a_looser_rule_set_ends_with_code_1_unless_that_is_wanted(compare: Any) -> None:
    for options, code in (((), 1), (("--allow-looser",), 0)):
        answer = compare(DENYING, ASKING, "--json", *options)
        assert (answer.code, counts(answer)) == (code, [2, 1, 0])
    assert compare(ASKING, DENYING).code == 0
    assert counts(compare(ALLOWING, ALLOWING, "--json")) == [0, 0, 0]


def test_people_see_exact_arguments_with_everything_invisible_spelled_out(compare: Any) -> None:
    answer = compare(ALLOWING, DENYING)
    assert "newly denied" in answer.out
    assert "allow -> deny by a*; thread t-done, run r-done, call " in answer.out
    assert r"\u001b[31mred\u001b[0m" in answer.out
    assert all(mark.isprintable() or mark == "\n" for mark in answer.out)
    assert "announce" not in compare(ALLOWING, DENYING, "--examples", "0").out


def test_only_the_calls_and_the_rules_of_one_agent_count(compare: Any) -> None:
    def document(section: Any) -> Any:
        of = {"id": "talker", "model_id": "m", "sections": {"permission": section}}
        return {"agents": [of, {"id": "asker", "model_id": "m"}]}

    answer = compare(document(ALLOWING), document(DENYING), "--agent", "talker", "--json")
    assert (answer.code, answer.document["calls"], counts(answer)) == (0, 2, [0, 0, 2])
    asker = compare(document(ALLOWING), document(DENYING), "--agent", "asker", "--json")
    assert (asker.document["calls"], counts(asker)) == (1, [0, 0, 0])
    refused = compare(document(ALLOWING), document(DENYING), "--json")
    assert (refused.code, "--agent" in refused.error["message"]) == (2, True)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"rules": [{"tool": "x(", "behavior": "deny"}]}, "rule 1 (x("),
        ({"rules": [{"tool": "x", "behaviour": "deny"}]}, "behavio"),
        ({"default": "deny"}, "default"),
        (b"- 1", "object"),
        (b"{", "new.yaml"),
        (b"\xff", "new.yaml"),
        (b"x" * (4 * 1024 * 1024 + 1), "larger"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(
    compare: Any, document: Any, text: str
) -> None:
    answer = compare(ALLOWING, document)
    assert (answer.code, answer.out) == (2, "")
    assert "new.yaml" in answer.err
    assert text in answer.err


def test_a_file_that_does_not_exist_is_named(call: Call, db: Path) -> None:
    answer = call("policy", "diff", "--old", "no.yaml", "--new", "no.yaml")
    assert (answer.code, "no.yaml" in answer.err) == (2, True)


def test_a_preview_shows_what_is_hidden_and_what_would_happen_to_calls(
    call: Call, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APP)
    calls = ['Bash {"command": "ls -l"}', 'Bash {"command": "rm x"}', "Bash", "Drop {}"]
    options = [it for text in calls for it in ("--call", text)]
    answer = call("policy", "preview", "app.py", "guarded", "--json", *options)
    assert answer.code == 0, answer.err
    assert (answer.document["hidden"], answer.document["offered"]) == (["Drop"], ["Bash"])
    happened = [(it["behavior"], it["rule"]) for it in answer.document["calls"]]
    assert happened == [
        ("allow", "Bash(ls *)"),
        ("deny", "Bash(rm *)"),
        ("ask", "default"),
        ("deny", "Drop"),
    ]
    text = call("policy", "preview", "app.py", "guarded", "--call", "Bash {}")
    assert ("Drop" in text.out, "Bash {}: ask (default)" in text.out) == (True, True)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("app.py", "free"), "no PermissionPlugin"),
        (("app.py", "nobody"), "nobody"),
        (("none.py", "free"), "none.py"),
        (("app.py", "guarded", "--call", "Bash {"), "no JSON"),
    ],
)
def test_a_preview_that_cannot_be_made_says_why(
    call: Call, tmp_path: Path, arguments: tuple[str, ...], text: str
) -> None:
    (tmp_path / "app.py").write_text(APP)
    answer = call("policy", "preview", *arguments)
    assert answer.code in (1, 2)
    assert (answer.out, text in answer.err) == ("", True)


def test_answers_and_grants_of_the_past_do_not_count_in_a_diff() -> None:
    rules = [compiled(msgspec.convert(it, PermissionConfig)).rules for it in (ASKING, DENYING)]
    past = [PastCall(thread_id="t", call_id=str(it), tool="announce") for it in range(3)]
    found = policy_diff(rules[0], rules[1], past)
    assert len(found.newly(ToolBehavior.DENY)) == found.calls == 3
