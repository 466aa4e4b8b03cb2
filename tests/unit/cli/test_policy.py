"""`awaken policy`: what rules would have done and hide, and what was decided for always."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, tool
from awaken.contracts.suspension.permissions import ToolBehavior
from awaken.extensions.permission import PermissionPlugin
from awaken.extensions.permission.config import PermissionConfig
from awaken.extensions.permission.policy import PastCall, policy_diff
from awaken.extensions.permission.rule_compiler import compile_rules
from awaken.testing import ScriptedModel, ToolCalls

from .conftest import EVIL, Answer, Call

APP = """
from awaken import Agent, Plugin, tool
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
class Late(Plugin):
    name = "late"
    is_open = False

    async def open(self, host):
        self.is_open = True
        await host.renew()

    async def close(self):
        open("closed", "w").close()

    def register(self, registrar):
        if self.is_open:
            registrar.tool(remote)

@tool
async def remote() -> str:
    "Of a server."
    return ""

guarded = Agent(
    "guarded", model=ScriptedModel([]), tools=[Bash, Drop], plugins=[PermissionPlugin(), Late()],
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


def test_an_agent_that_never_ran_is_refused_instead_of_finding_nothing(compare: Any) -> None:
    answer = compare(DENYING, ALLOWING, "--agent", "tallker", "--json")
    assert (answer.code, answer.out, answer.error["code"]) == (2, "", "invalid_input")
    assert "'tallker'" in answer.error["message"]
    assert compare(DENYING, ALLOWING, "--agent", "talker").code == 1


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
    # One of them is there only while the plugin that brings it is open.
    assert answer.document["offered"] == ["Bash", "remote"]
    assert (answer.document["hidden"], (tmp_path / "closed").exists()) == (["Drop"], True)
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
        (("app.py", "guarded", "--call", " "), "--call"),
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
    rules = [compile_rules(msgspec.convert(it, PermissionConfig)).rules for it in (ASKING, DENYING)]
    past = [PastCall(thread_id="t", call_id=str(it), tool="announce") for it in range(3)]
    found = policy_diff(rules[0], rules[1], past)
    assert len(found.changes_to(ToolBehavior.DENY)) == found.calls == 3


@tool
async def erase() -> str:
    """Erase."""
    return "erased"


async def decided(store: str) -> None:
    """One answer for a thread, one for a person and one for the project."""
    calls = ToolCalls([("erase", {})])
    agent = Agent(
        "a",
        model=ScriptedModel([calls, "done"], cycle=True),
        tools=[erase],
        plugins=[PermissionPlugin()],
        config={
            "permission": {"rules": [{"tool": "erase", "behavior": "ask", "scope": "project"}]}
        },
    )
    async with AgentRuntime([agent], store=store) as runtime:
        for scope in ("thread", "user", "project"):
            user_id = "ann" if scope == "user" else "bob"
            asked = await runtime.run("a", "go", thread_id=f"t-{scope}", user_id=user_id)
            remember = {"scope": scope, "pattern": "era*"}
            (ticket,) = asked.tickets
            await runtime.decide(ticket.ticket_id, remember=remember, decided_by=EVIL)
            await runtime.wait(asked.run_id, timeout_ms=10_000)


@pytest.fixture
def answers(call: Call, tmp_path: Path) -> Call:
    """Call a command of `policy` on a store that remembers something."""
    store = f"sqlite:///{tmp_path}/answers.db"
    asyncio.run(decided(store))
    return lambda *arguments: call("policy", *arguments, "--store", store)


WHOSE = ("--thread", "t-thread", "--user", "ann")


def test_what_was_decided_for_always_is_listed_with_who_and_when(answers: Call) -> None:
    listed = answers("remembered", *WHOSE, "--json").document["items"]
    assert [it["scope"] for it in listed] == ["thread", "user", "project"]
    for it in listed:
        assert (it["tool"], it["pattern"], it["behavior"]) == ("erase", "era*", "allow")
        assert it["decided_by"] == EVIL
        assert it["decided_at"] > 0
    assert [it["scope"] for it in answers("remembered", "--json").document["items"]] == ["project"]
    shown = answers("remembered", *WHOSE)
    assert "\x1b" not in shown.out
    assert all(it["id"] in shown.out for it in listed)
    assert "Nothing is remembered." in answers("remembered", "--tenant", "theirs").out


def test_one_answer_or_all_of_a_scope_are_forgotten(answers: Call) -> None:
    thread, *_ = answers("remembered", *WHOSE, "--json").document["items"]
    gone = answers("forget", thread["id"], *WHOSE, "--json").document["forgotten"]
    assert [it["id"] for it in gone] == [thread["id"]]
    assert (
        "Forgotten: allow erase by era* for the user"
        in answers("forget", "--scope", "user", "--user", "ann").out
    )
    left = answers("remembered", *WHOSE, "--json").document["items"]
    assert [it["scope"] for it in left] == ["project"]
    again = answers("forget", thread["id"], *WHOSE, "--json")
    assert (again.code, again.error["code"]) == (1, "unknown_answer")


@pytest.mark.parametrize(
    "arguments",
    [(), ("x", "--scope", "user"), ("--scope", "thread"), ("--scope", "user"), ("--scope", "once")],
)
def test_a_forgetting_that_does_not_say_what_is_refused(
    answers: Call, arguments: tuple[str, ...]
) -> None:
    assert answers("forget", *arguments).code == 2
    assert answers("remembered", "--thread", "absent").code == 1


APPROVING = """
from awaken import Agent, ToolContext, tool
from awaken.testing import ScriptedModel

def is_guest(key: str, ctx: ToolContext):
    return ctx.context["guest"]

@tool(approval=lambda text: "red" in text)
def announce(text: str) -> str:
    "Announce."
    return text

@tool(approval=is_guest)
def read(key: str) -> str:
    "Read."
    return key

talker = Agent("talker", model=ScriptedModel([]), tools=[announce, read])
"""


def test_a_preview_knows_the_tools_that_ask_by_themselves(call: Call, tmp_path: Path) -> None:
    (tmp_path / "approving.py").write_text(APPROVING, encoding="utf-8")
    calls = ['announce {"text": "red"}', 'announce {"text": "blue"}', 'read {"key": "a"}']
    options = [it for each in calls for it in ("--call", each)]
    shown = call("policy", "preview", "approving.py", "talker", *options).out
    assert "approval announce (depends on the arguments), read (depends on the arguments)" in (
        " ".join(shown.split())
    )
    assert 'announce {"text": "red"}: ask (approval)' in shown
    assert 'announce {"text": "blue"}: allow (default)\n' in shown
    assert 'read {"key": "a"}: allow (default); whether the tool asks depends on the run' in shown


def test_a_comparison_with_the_code_knows_what_tools_want_to_be_approved(
    compare: Any, tmp_path: Path
) -> None:
    (tmp_path / "approving.py").write_text(APPROVING, encoding="utf-8")
    alone = compare(ASKING, ALLOWING)
    assert (alone.code, "not considered; name their code with --app" in alone.out) == (1, True)
    told = compare(ASKING, ALLOWING, "--app", "approving.py", "--json")
    assert (told.code, counts(told)) == (0, [0, 0, 0])
