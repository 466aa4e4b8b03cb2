"""Permission in runs: calls pass, wait or are refused, and answers hold as far as they may."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from awaken import (
    Agent,
    AgentRuntime,
    Plugin,
    PluginRegistrar,
    RunResult,
    StateCommand,
    ToolContext,
    tool,
)
from awaken.contracts.errors import RunFailed, StoreUnavailable
from awaken.contracts.events import ToolCallDone
from awaken.contracts.lifecycle import Blocked, NaturalEnd, Suspended
from awaken.contracts.messages.message import Role
from awaken.contracts.models.inference import InferenceRequest
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.plugin import Suspend, ToolGateContext
from awaken.contracts.state.profile import GLOBAL_SCOPE
from awaken.contracts.suspension.permissions import TOOL_GRANTS, ToolGrant
from awaken.contracts.suspension.remembered_answers import SHARED_ANSWERS, THREAD_ANSWERS
from awaken.contracts.suspension.tickets import SuspendTicket, Suspension, Ticket
from awaken.contracts.tool_results import ToolStatus
from awaken.contracts.tools.tool import ToolDescriptor
from awaken.extensions.handoff import HandoffPlugin
from awaken.extensions.permission import PermissionPlugin
from awaken.extensions.permission.remembered_rules import RememberedRules
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import ScriptedModel, ToolCalls
from awaken.testing.scripted_model import Answer, Entry

Rules = list[dict[str, str]]


def obedient(request: InferenceRequest) -> Answer:
    """Runs the lines that the user wrote, one in each step, then says that it is done."""
    said = [it for it in request.messages if it.role in (Role.USER, Role.ASSISTANT)]
    asked = max(at for at, it in enumerate(said) if it.role is Role.USER)
    lines = said[asked].text.splitlines()
    step = len(said) - asked - 1
    return bash(*lines[step].split(" & ")) if step < len(lines) else "done"


def bash(*commands: str) -> ToolCalls:
    return ToolCalls([("Bash", {"command": it}) for it in commands])


def rules(*written: tuple[str, ...]) -> Rules:
    names = ("tool", "behavior", "scope")
    return [dict(zip(names, it, strict=False)) for it in written]


class Workshop:
    """An agent that does as it is told, with tools that note what they were called with."""

    def __init__(self, *plugins: Plugin, script: Sequence[Entry] = (), **section: Any) -> None:
        self.ran: list[tuple[str, str]] = []
        self.model = ScriptedModel(script or [obedient], cycle=not script)
        self.agent = Agent(
            "worker",
            model=self.model,
            tools=[self._tool(name) for name in ("Bash", "Read", "Write")],
            plugins=[PermissionPlugin(), *plugins],
            config={"permission": section} if section else {},
        )

    def _tool(self, name: str) -> Any:
        @tool(id=name, description=name)
        async def run(command: str = "") -> str:
            self.ran.append((name, command))
            return f"did {command}"

        return run

    @property
    def commands(self) -> list[str]:
        return [command for _, command in self.ran]

    @property
    def offered(self) -> list[list[str]]:
        return [[it.id for it in request.tools] for request in self.model.requests]


async def told(runtime: AgentRuntime, text: str, thread_id: str = "t", **options: Any) -> RunResult:
    return await runtime.run("worker", text, thread_id=thread_id, **options)


async def answered(runtime: AgentRuntime, *actions: str, **decision: Any) -> RunResult:
    """Decide on the open tickets in call order, and wait for the run."""
    tickets = sorted(await runtime.tickets("t"), key=lambda it: it.call_id)
    for ticket, action in zip(tickets, actions, strict=True):
        await runtime.decide(ticket.ticket_id, action, **decision)
    return await runtime.wait(tickets[0].run_id)


async def tool_texts(runtime: AgentRuntime, thread_id: str = "t") -> list[str]:
    said = await runtime.messages(thread_id)
    return [it.message.text for it in said if it.message.tool_call_id is not None]


RM_DENIED = rules(("Bash(rm *)", "deny"), ("Bash", "allow"))
ASKED = rules(("Bash(ls *)", "ask", "project"))


def test_an_allowed_call_runs_and_nobody_is_asked() -> None:
    async def scenario() -> None:
        shop = Workshop(rules=rules(("Bash(ls)", "allow")))
        async with AgentRuntime([shop.agent]) as runtime:
            result = await told(runtime, "ls")
            assert (shop.commands, result.text) == (["ls"], "done")

    asyncio.run(scenario())


def test_a_denied_call_is_a_result_that_the_model_reads_and_the_run_goes_on() -> None:
    async def scenario() -> None:
        shop = Workshop(rules=RM_DENIED)
        async with AgentRuntime([shop.agent]) as runtime:
            done = [it async for it in runtime.stream("worker", "rm x & ls", thread_id="t")]
            results = [it.result for it in done if isinstance(it, ToolCallDone)]
            assert shop.commands == ["ls"]
            assert results[0].status is ToolStatus.ERROR
            assert results[0].metadata == {"code": "tool_denied", "rule": "Bash(rm *)"}
            denied, did = await tool_texts(runtime)
            assert denied == results[0].message
            assert "'Bash' is denied" in denied
            assert did == "did ls"
            (record,) = await runtime.list_runs("t")
            assert record.termination == NaturalEnd()

    asyncio.run(scenario())


def test_a_denied_call_ends_the_run_where_the_section_says_so() -> None:
    async def scenario() -> None:
        shop = Workshop(rules=RM_DENIED, on_deny="end")
        async with AgentRuntime([shop.agent]) as runtime:
            result = await told(runtime, "ls a & rm x & ls b")
            assert isinstance(result.termination, Blocked)
            assert "'Bash' is denied" in result.termination.reason
            assert shop.commands == ["ls a"]

    asyncio.run(scenario())


def test_without_a_section_every_call_is_asked_about() -> None:
    async def scenario() -> None:
        shop = Workshop()
        async with AgentRuntime([shop.agent]) as runtime:
            assert (await told(runtime, "ls")).termination == Suspended()
            assert shop.ran == []

    asyncio.run(scenario())


def test_a_ticket_says_what_is_asked_by_which_rule_and_how_far_an_answer_may_reach() -> None:
    async def scenario() -> list[Ticket]:
        calls = ToolCalls([("Bash", {"command": "rm x"}), ("Read", {})])
        shop = Workshop(script=[calls], rules=rules(("Bash(rm *)", "ask", "run")))
        async with AgentRuntime([shop.agent]) as runtime:
            await told(runtime, "go", user_id="ann")
            return sorted(await runtime.tickets("t"), key=lambda it: it.call_id)

    first, second = asyncio.run(scenario())
    assert first.suspension.id == first.ticket_id
    assert (first.question_kind, first.topic) == ("permission", "")
    assert first.suspension.action == "tool:PermissionConfirm"
    assert "'Bash'" in first.suspension.message
    assert (first.tool_name, first.arguments) == ("Bash", {"command": "rm x"})
    assert first.suspension.parameters == {
        "tool": "Bash",
        "arguments": {"command": "rm x"},
        "rule": "Bash(rm *)",
        "remember": {"scopes": ["once", "run"], "tool": "Bash", "pattern": "Bash(rm *)"},
    }
    asks = second.suspension.parameters
    assert asks["rule"] == "default"
    scopes = ["once", "run", "thread"]
    assert asks["remember"] == {"scopes": scopes, "tool": "Read", "pattern": "*"}


@pytest.mark.parametrize(("user_id", "is_known"), [("ann", True), (None, False)])
def test_a_ticket_offers_the_scope_of_a_person_only_where_it_is_known_who_that_is(
    user_id: str | None, is_known: bool
) -> None:
    async def scenario() -> None:
        shop = Workshop(rules=ASKED)
        async with AgentRuntime([shop.agent]) as runtime:
            (ticket,) = (await told(runtime, "ls a", user_id=user_id)).tickets
            scopes = ticket.suspension.parameters["remember"]["scopes"]
            wide = ["project", "user"] if is_known else ["project"]
            assert scopes == ["once", "run", "thread", *wide]

    asyncio.run(scenario())


def test_an_approval_says_nothing_about_the_next_call() -> None:
    async def scenario() -> None:
        shop = Workshop()
        async with AgentRuntime([shop.agent]) as runtime:
            await told(runtime, "ls\nls")
            result = await answered(runtime, "resume")
            assert (result.termination, shop.commands) == (Suspended(), ["ls"])

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("scope", "in_run", "in_thread", "of_ann", "of_bob"),
    [
        ("once", False, False, False, False),
        ("run", True, False, False, False),
        ("thread", True, True, False, False),
        ("user", True, True, True, False),
        ("project", True, True, True, True),
    ],
)
def test_always_allow_holds_exactly_as_far_as_it_says(
    scope: str, in_run: bool, in_thread: bool, of_ann: bool, of_bob: bool
) -> None:
    async def scenario() -> None:
        shop = Workshop(rules=ASKED)
        async with AgentRuntime([shop.agent]) as runtime:
            await told(runtime, "ls a\nls b", user_id="ann")
            result = await answered(runtime, "resume", remember={"scope": scope})
            assert ("ls a" in shop.commands, "ls b" in shop.commands) == (True, in_run)
            await runtime.cancel_and_wait(result.run_id)
            await told(runtime, "ls c", "t", user_id="ann")
            await told(runtime, "ls d", "of ann", user_id="ann")
            await told(runtime, "ls e", "of bob", user_id="bob")
            passed = [f"ls {it}" in shop.commands for it in "cde"]
            assert passed == [in_thread, of_ann, of_bob]

    asyncio.run(scenario())


@pytest.mark.parametrize("scope", ["run", "thread", "user", "project"])
def test_always_deny_is_remembered_as_far_although_the_call_never_runs(scope: str) -> None:
    async def scenario() -> None:
        shop = Workshop(rules=ASKED)
        async with AgentRuntime([shop.agent]) as runtime:
            await told(runtime, "ls a\nls b", user_id="ann")
            result = await answered(runtime, "cancel", remember={"scope": scope})
            assert (result.termination, shop.ran) == (NaturalEnd(), [])
            assert "denied" in (await tool_texts(runtime))[1]
            for thread_id, scopes in (("t", ("thread",)), ("u", ())):
                later = await told(runtime, "ls c", thread_id, user_id="ann")
                is_denied = scope in (*scopes, "user", "project")
                assert later.termination == (NaturalEnd() if is_denied else Suspended())
            assert shop.ran == []

    asyncio.run(scenario())


def test_what_one_tenant_or_one_of_its_users_allowed_is_nobody_elses() -> None:
    async def scenario() -> None:
        shop = Workshop(rules=ASKED)
        async with AgentRuntime([shop.agent]) as runtime:
            for scope, place in (("project", "p"), ("user", "u")):
                who = {"tenant_id": f"a::{place}", "user_id": "x"}
                waiting = await told(runtime, f"ls {place}", place, **who)
                (ticket,) = waiting.tickets
                await runtime.decide(ticket.ticket_id, remember={"scope": scope})
                assert (await runtime.wait(waiting.run_id)).termination == NaturalEnd()
            shop.ran.clear()
            strangers: list[dict[str, str]] = [
                {},
                {"user_id": "x"},
                {"tenant_id": "a"},
                {"tenant_id": "a", "user_id": "u::x"},
                {"tenant_id": "a::u"},
                {"tenant_id": "a::u", "user_id": "y"},
                {"tenant_id": "b", "user_id": "x"},
            ]
            for number, who in enumerate(strangers):
                result = await told(runtime, "ls z", f"s{number}", **who)
                assert result.termination == Suspended(), who
            assert shop.ran == []
            for number, tenant in enumerate(("a::p", "a::u")):
                await told(runtime, "ls own", f"o{number}", tenant_id=tenant, user_id="x")
            assert shop.commands == ["ls own", "ls own"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("limit", "wanted", "user_id", "kept"),
    [
        ("once", "project", "ann", None),
        ("run", "thread", "ann", None),
        ("thread", "project", "ann", "thread"),
        ("thread", "user", "ann", "thread"),
        ("user", "project", "ann", "user"),
        ("user", "user", None, "thread"),
        ("project", "user", "ann", "user"),
    ],
)
def test_an_answer_is_narrowed_to_what_its_rule_lets_be_remembered(
    limit: str, wanted: str, user_id: str | None, kept: str | None, tmp_path: Path
) -> None:
    async def scenario() -> None:
        shop = Workshop(rules=rules(("Bash", "ask", limit)))
        store = SqliteStore(tmp_path / "awaken.db")
        async with AgentRuntime([shop.agent], store=store) as runtime:
            await told(runtime, "ls a", user_id=user_id)
            await answered(runtime, "resume", remember={"scope": wanted}, decided_by="eve")
            checkout = await store.checkout("t")
            assert checkout is not None
            stored = checkout.state.get(THREAD_ANSWERS.name)
            found = {} if stored is None else THREAD_ANSWERS.decode(stored)
            for owner in (GLOBAL_SCOPE, 'user::[null,"ann"]'):
                entry = await store.find_entry(owner, SHARED_ANSWERS.name)
                if entry is not None:
                    found = {**found, **msgspec.convert(entry.value, SHARED_ANSWERS.type)}
            assert [it.scope for it in found.values()] == ([] if kept is None else [kept])
            for it in found.values():
                assert it.narrowed_from == (None if kept == wanted else wanted)
                assert (it.pattern, it.tool, it.decided_by) == ("Bash", "Bash", "eve")

    asyncio.run(scenario())


def test_always_about_a_rule_for_many_tools_is_about_the_tool_that_was_shown() -> None:
    async def scenario() -> None:
        script: list[Entry] = [
            bash("ls"),
            ToolCalls([("Bash", {"command": "ls"}), ("Write", {"command": "x"})]),
        ]
        shop = Workshop(script=script, rules=rules(("*", "ask")))
        async with AgentRuntime([shop.agent]) as runtime:
            await told(runtime, "go")
            result = await answered(runtime, "resume", remember={"scope": "thread"})
            assert result.termination == Suspended()
            assert shop.ran == [("Bash", "ls")] * 2

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["Re*d", "[", "Read(", "a b", "/x/", "*", "read"])
@pytest.mark.parametrize("action", ["resume", "cancel"])
def test_always_works_for_tools_whose_names_are_no_patterns(name: str, action: str) -> None:
    async def scenario() -> None:
        shop = Workshop(script=[ToolCalls([(name, {})]), ToolCalls([(name, {}), ("Write", {})])])
        offered = [ToolDescriptor(id=name)]
        async with AgentRuntime([shop.agent]) as runtime:
            await told(runtime, "go", frontend_tools=offered)
            await answered(runtime, action, remember={"scope": "thread"})
            while own := [it for it in await runtime.tickets("t") if it.tool_name == name]:
                assert own[0].suspension.action == f"tool:{name}"
                await runtime.decide(own[0].ticket_id, result="picked")
                await runtime.wait(own[0].run_id)
            (asked,) = await runtime.tickets("t")
            assert asked.suspension.message == "Permission required for tool 'Write'"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("pattern", "is_remembered"),
    [("Bash(ls *)", True), ("*", True), ("Bash(rm *)", False), ("Read", False)],
)
@pytest.mark.parametrize("action", ["resume", "cancel"])
def test_a_pattern_that_does_not_mean_the_asked_call_is_not_remembered(
    pattern: str, is_remembered: bool, action: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        shop = Workshop()
        async with AgentRuntime([shop.agent]) as runtime:
            await told(runtime, "ls a\nls b\nrm c")
            remember = {"scope": "thread", "pattern": pattern}
            await answered(runtime, action, remember=remember)
            (ticket,) = await runtime.tickets("t") or (None,)
            asked = None if ticket is None else ticket.arguments["command"]
            expected = "ls b" if not is_remembered else "rm c" if pattern != "*" else None
            assert asked == expected

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert ("is not remembered" in caplog.text) is not is_remembered


@pytest.mark.parametrize(
    ("behavior", "action"),
    [("allow", "resume"), ("ask", "resume"), ("allow", "cancel"), ("ask", "cancel")],
)
def test_an_answer_to_what_the_tool_itself_asks_is_not_remembered(
    behavior: str, action: str
) -> None:
    @tool
    async def confirm(ctx: ToolContext) -> Any:
        is_sure = ctx.resume is not None and ctx.resume.result == "sure"
        return "yes" if is_sure else ctx.suspend("Really?")

    async def scenario() -> None:
        agent = Agent(
            "worker",
            model=ScriptedModel([ToolCalls([("confirm", {})]), "done"]),
            tools=[confirm],
            plugins=[PermissionPlugin()],
            config={"permission": {"rules": rules(("confirm", behavior))}},
        )
        async with AgentRuntime([agent]) as runtime:
            await told(runtime, "go")
            if behavior == "ask":
                await answered(runtime, "resume")
            remember = {"scope": "thread", "pattern": "*"}
            result = await answered(runtime, action, result="sure", remember=remember)
            assert result.termination == NaturalEnd()
            checkout = await runtime.store.checkout("t")
            assert checkout is not None
            assert THREAD_ANSWERS.name not in checkout.state

    asyncio.run(scenario())


@pytest.mark.parametrize(("pattern", "later"), [("Bash(ls *)", "ls b"), ("Bash(cp *)", "cp b")])
def test_what_is_remembered_must_mean_the_call_that_was_asked_about_not_the_edited_one(
    pattern: str, later: str
) -> None:
    async def scenario() -> None:
        shop = Workshop()
        async with AgentRuntime([shop.agent]) as runtime:
            await told(runtime, f"ls a\n{later}")
            remember = {"scope": "thread", "pattern": pattern}
            result = await answered(
                runtime, "resume", arguments={"command": "cp a"}, remember=remember
            )
            is_asked = later == "cp b"
            assert result.termination == (Suspended() if is_asked else NaturalEnd())
            assert shop.commands == (["cp a"] if is_asked else ["cp a", "ls b"])

    asyncio.run(scenario())


def test_edited_arguments_are_decided_about_anew() -> None:
    async def scenario() -> None:
        shop = Workshop(rules=rules(("Bash(rm *)", "deny"), ("Bash", "ask")))
        async with AgentRuntime([shop.agent]) as runtime:
            await told(runtime, "ls a\nls b")
            await answered(runtime, "resume", arguments={"command": "rm x"})
            assert shop.ran == []
            await answered(runtime, "resume", arguments={"command": "ls c"})
            assert shop.commands == ["ls c"]

    asyncio.run(scenario())


def test_of_parallel_calls_each_is_decided_on_its_own_and_each_answer_is_kept() -> None:
    async def scenario() -> None:
        shop = Workshop()
        async with AgentRuntime([shop.agent]) as runtime:
            await told(runtime, "ls a & rm b & cp c")
            first, second, third = sorted(await runtime.tickets("t"), key=lambda it: it.call_id)
            result = await runtime.decide_all(
                {
                    first.ticket_id: {"remember": {"scope": "thread", "pattern": "Bash(ls *)"}},
                    second.ticket_id: {
                        "action": "cancel",
                        "remember": {"scope": "thread", "pattern": "Bash(rm *)"},
                    },
                    third.ticket_id: {"remember": {"scope": "thread", "pattern": "Bash(cp *)"}},
                }
            )
            await runtime.wait(result[0].run_id)
            assert shop.commands == ["ls a", "cp c"]
            await told(runtime, "cp d & ls e & rm f")
            assert shop.commands == ["ls a", "cp c", "cp d", "ls e"]
            assert await runtime.tickets("t") == ()

    asyncio.run(scenario())


class Granting(Plugin):
    """Grants patterns when a run begins, as a skill does for its tools."""

    name = "granting"

    def __init__(self, *patterns: str, agent_id: str = "") -> None:
        self._grant = ToolGrant(source="skill:test", patterns=patterns, agent_id=agent_id)

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.hook(Phase.RUN_START, self._start)

    async def _start(self, _: Any) -> StateCommand:
        return StateCommand().update(TOOL_GRANTS, self._grant)


def test_a_grant_answers_for_the_run_and_never_undoes_a_denial() -> None:
    async def scenario() -> None:
        grants = Granting("Bash(ls *)", "Bash(rm *)", "Bash(id)", "Bash(", "Write")
        written = rules(("Bash(rm *)", "deny"), ("Bash(id)", "ask", "once"))
        shop = Workshop(grants, rules=written)
        async with AgentRuntime([shop.agent]) as runtime:
            result = await told(runtime, "ls a & rm b & id & cp d")
            assert result.termination == Suspended()
            assert shop.commands == ["ls a"]
            asked = [it.arguments["command"] for it in await runtime.tickets("t")]
            assert sorted(asked) == ["cp d", "id"]
            assert THREAD_ANSWERS.name not in ((await runtime.store.checkout("t")) or shop).state

    asyncio.run(scenario())


@pytest.mark.parametrize(("granted_to", "ran"), [("first", []), ("", ["ls"])])
def test_a_grant_of_one_agent_is_not_handed_on_to_another(granted_to: str, ran: list[str]) -> None:
    async def scenario() -> None:
        shop = Workshop(script=[bash("ls"), "done"])
        transfer = ToolCalls([("transfer_to_agent", {"agent_id": "worker"})])
        first = Agent(
            "first",
            model=ScriptedModel([transfer]),
            plugins=[Granting("Bash", agent_id=granted_to), HandoffPlugin({"worker": "works"})],
        )
        async with AgentRuntime([first, shop.agent]) as runtime:
            await runtime.run("first", "ls", thread_id="t")
            assert shop.commands == ran
            assert len(await runtime.tickets("t")) == 1 - len(ran)

    asyncio.run(scenario())


def test_a_grant_counts_again_when_its_agent_does() -> None:
    async def scenario() -> None:
        standing, given = (
            RememberedRules(),
            {"s": ToolGrant(source="s", patterns=("A",), agent_id="a")},
        )
        found = []
        for agent_id in ("a", "b", "a"):
            states: dict[Any, Any] = {TOOL_GRANTS: given}
            context: Any = SimpleNamespace(
                state=lambda key, states=states: states.get(key, key.default),
                agent=SimpleNamespace(id=agent_id),
                profile=None,
            )
            found.append(len(await standing.answers(context)))
        assert found == [1, 0, 1]

    asyncio.run(scenario())


@pytest.mark.parametrize("action", ["resume", "cancel"])
@pytest.mark.parametrize("pattern", ["*", "/.*/", "B*", "/Bash|Read|Write/"])
def test_an_answer_with_a_pattern_is_about_the_tool_that_was_shown(
    action: str, pattern: str
) -> None:
    async def scenario() -> None:
        calls = [ToolCalls([(name, {"command": "x"})]) for name in ("Bash", "Read", "Bash")]
        shop = Workshop(script=[calls[0], "done", calls[1]])
        async with AgentRuntime([shop.agent]) as runtime:
            await told(runtime, "go")
            remember = {"scope": "thread", "pattern": pattern}
            await answered(runtime, action, remember=remember)
            result = await told(runtime, "go")
            assert result.termination == Suspended()
            assert [it.tool_name for it in await runtime.tickets("t")] == ["Read"]
            assert "Read" not in [name for name, _ in shop.ran]
            assert "Read" in shop.offered[-1]

    asyncio.run(scenario())


def test_where_the_default_denies_no_grant_and_no_answer_lets_a_call_pass() -> None:
    async def scenario() -> None:
        shop = Workshop(Granting("*"), default_behavior="deny")
        async with AgentRuntime([shop.agent]) as runtime:
            await told(runtime, "ls")
            assert shop.ran == []
            assert shop.offered[0] == []

    asyncio.run(scenario())


def test_denied_tools_are_not_shown_to_the_model_nor_are_those_that_people_deny() -> None:
    async def scenario() -> None:
        shop = Workshop(rules=rules(("Wr*", "deny"), ("Bash(rm *)", "deny"), ("Read", "allow")))
        frontend = [ToolDescriptor(id=name) for name in ("Wrap", "Pick")]
        async with AgentRuntime([shop.agent]) as runtime:
            await told(runtime, "ls a\nls b", frontend_tools=frontend)
            assert shop.offered == [["Bash", "Pick", "Read"]]
            await answered(runtime, "cancel", remember={"scope": "thread"})
            assert shop.offered[1:] == [["Pick", "Read"]] * 2

    asyncio.run(scenario())


def test_a_changed_section_holds_on_the_same_thread_at_once() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        for behavior, expected in (("allow", 1), ("deny", 1), ("allow", 2)):
            shop = Workshop(rules=rules(("Bash", behavior)))
            async with AgentRuntime([shop.agent], store=store) as runtime:
                await told(runtime, "ls")
            expected_here = ["ls"] if behavior == "allow" else []
            assert shop.commands == expected_here, expected
            checkout = await store.checkout("t")
            assert checkout is not None
            assert not [name for name in checkout.state if name.startswith("permission")]

    asyncio.run(scenario())


def test_an_answer_that_a_changed_rule_no_longer_lets_reach_so_far_is_asked_for_again(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        ends = []
        for number, scope in enumerate(("project", "project", "user")):
            shop = Workshop(rules=rules(("Bash", "ask", scope)))
            store = SqliteStore(tmp_path / "awaken.db")
            async with AgentRuntime([shop.agent], store=store) as runtime:
                ends.append((await told(runtime, "ls", f"t{number}")).termination)
                for ticket in await runtime.tickets(f"t{number}"):
                    await runtime.decide(ticket.ticket_id, remember={"scope": "project"})
                    await runtime.wait(ticket.run_id)
        assert ends == [Suspended(), NaturalEnd(), Suspended()]

    asyncio.run(scenario())


def test_a_store_that_cannot_be_read_lets_nothing_pass(tmp_path: Path) -> None:
    class Away(SqliteStore):
        async def find_entry(self, owner: str, key: str) -> Any:
            if key == SHARED_ANSWERS.name:
                raise StoreUnavailable(store="memory", problem="it is away")
            return await super().find_entry(owner, key)

    async def scenario() -> None:
        shop = Workshop(rules=rules(("Bash", "allow")))
        async with AgentRuntime([shop.agent], store=Away(tmp_path / "awaken.db")) as runtime:
            with pytest.raises(RunFailed):
                await told(runtime, "ls")
        assert shop.ran == []

    asyncio.run(scenario())


def test_answers_of_a_project_are_read_once_in_a_run(tmp_path: Path) -> None:
    class Counting(SqliteStore):
        reads = 0

        async def find_entry(self, owner: str, key: str) -> Any:
            self.reads += key == SHARED_ANSWERS.name
            return await super().find_entry(owner, key)

    async def scenario() -> None:
        store = Counting(tmp_path / "awaken.db")
        shop = Workshop(rules=rules(("Bash", "allow")))
        async with AgentRuntime([shop.agent], store=store) as runtime:
            await told(runtime, "ls a\nls b & ls c\nls d")
        assert (len(shop.ran), store.reads) == (4, 1)

    asyncio.run(scenario())


class Doubtful(Plugin):
    """Asks about every call, in the words of the permission plugin."""

    name = "doubtful"

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.gate(self._ask)

    async def _ask(self, context: ToolGateContext) -> Suspend:
        copied = Suspension(id=f"perm_{context.call.id}", action="tool:PermissionConfirm")
        return Suspend(ticket=SuspendTicket(suspension=copied))


@pytest.mark.parametrize("action", ["resume", "cancel"])
def test_an_answer_to_somebody_elses_question_is_no_permission_and_no_denial(action: str) -> None:
    async def scenario() -> None:
        shop = Workshop(Doubtful(), rules=rules(("Bash", "ask")))
        async with AgentRuntime([shop.agent]) as runtime:
            asked = await runtime.run("worker", "ls", thread_id="t")
            first = asked.tickets[0]
            while first.asked_by == "permission":
                await runtime.decide(first.ticket_id)
                await runtime.wait(asked.run_id)
                (first,) = await runtime.tickets("t")
            await runtime.decide(first.ticket_id, action, remember="thread")
            await runtime.wait(asked.run_id)
            again = await runtime.run("worker", "ls", thread_id="t")
            questions = {it.asked_by for it in again.tickets}
            assert again.is_waiting
            assert questions <= {"permission", "doubtful"}
            kept = (await runtime.store.checkout("t")).state
        assert THREAD_ANSWERS.name not in kept

    asyncio.run(scenario())
