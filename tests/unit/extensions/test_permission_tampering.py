"""Approvals cannot be bent: not repeated, not moved, not edited into what is denied, not hidden."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, RunResult, tool
from awaken.contracts.errors import AlreadyDecided, AwakenError, InvalidInput, UnknownTicket
from awaken.contracts.lifecycle import Suspended
from awaken.contracts.suspension.remembered_answers import THREAD_ANSWERS
from awaken.contracts.suspension.tickets import Ticket
from awaken.contracts.tools.tool import ToolDescriptor
from awaken.extensions.permission import PermissionPlugin
from awaken.stores.sqlite import SqliteStore
from awaken.testing import ScriptedModel, ToolCalls

RULES = [
    {"tool": "Bash(*rm *)", "behavior": "deny"},
    {"tool": "Bash(*curl*)", "behavior": "deny"},
    {"tool": "Bash", "behavior": "ask", "scope": "run"},
]
LS = {"command": "ls"}


class Bench:
    """Two threads, each with a call that waits for an approval."""

    def __init__(self, runtime: AgentRuntime, waiting: list[RunResult], ran: list[Any]) -> None:
        self.runtime = runtime
        self.ran = ran
        self.runs = [it.run_id for it in waiting]
        self.tickets = [ticket for it in waiting for ticket in it.tickets]

    @property
    def ticket_id(self) -> str:
        return self.tickets[0].ticket_id

    async def over(self, number: int = 0) -> RunResult:
        return await self.runtime.wait(self.runs[number], timeout_ms=10_000)


Attack = Callable[[Bench], Awaitable[object]]


def attacked(folder: Path, attack: Attack) -> list[Any]:
    """What ran when a bench was attacked."""

    async def scenario() -> list[Any]:
        ran: list[Any] = []

        @tool(id="Bash")
        async def bash(command: str) -> str:
            """Run a command."""
            ran.append(command)
            return f"did {command}"

        call = ToolCalls([("Bash", LS)])
        agent = Agent(
            "a",
            model=ScriptedModel([call, call, *["done"] * 8]),
            tools=[bash],
            plugins=[PermissionPlugin()],
            config={"permission": {"default_behavior": "deny", "rules": RULES}},
        )
        async with AgentRuntime([agent], store=SqliteStore(folder / "awaken.db")) as runtime:
            waiting = [await runtime.run("a", "go", thread_id=it) for it in ("t1", "t2")]
            assert [it.termination for it in waiting] == [Suspended()] * 2
            await attack(Bench(runtime, waiting, ran))
            for run_id in (it.run_id for it in waiting):
                await runtime.wait(run_id, timeout_ms=10_000)
        return ran

    return asyncio.run(scenario())


async def refused(error: type[AwakenError], doing: Awaitable[object]) -> None:
    with pytest.raises(error):
        await doing


# Repeated and contradicted decisions


async def the_same_decision_twice(bench: Bench) -> None:
    await bench.runtime.decide(bench.ticket_id)
    await bench.over()
    await bench.runtime.decide(bench.ticket_id)


async def the_same_decision_many_times_at_once(bench: Bench) -> None:
    await asyncio.gather(*(bench.runtime.decide(bench.ticket_id) for _ in range(50)))
    await bench.over()


async def the_same_decision_under_another_id(bench: Bench) -> None:
    await bench.runtime.decide(bench.ticket_id, decision_id="one")
    await refused(AlreadyDecided, bench.runtime.decide(bench.ticket_id, decision_id="two"))


async def the_same_approval_with_another_reach(bench: Bench) -> None:
    await bench.runtime.decide(bench.ticket_id)
    again = bench.runtime.decide(bench.ticket_id, remember={"scope": "run", "pattern": "*"})
    await refused(AlreadyDecided, again)


async def the_same_approval_with_other_arguments(bench: Bench) -> None:
    await bench.runtime.decide(bench.ticket_id)
    await bench.over()
    again = bench.runtime.decide(bench.ticket_id, arguments={"command": "id"})
    await refused(AlreadyDecided, again)


async def an_approval_after_it_was_taken_back(bench: Bench) -> None:
    await bench.runtime.decide(bench.ticket_id)
    await refused(AlreadyDecided, bench.runtime.decide(bench.ticket_id, "cancel"))


ONCE: list[Attack] = [
    the_same_decision_twice,
    the_same_decision_many_times_at_once,
    the_same_decision_under_another_id,
    the_same_approval_with_another_reach,
    the_same_approval_with_other_arguments,
    an_approval_after_it_was_taken_back,
]


@pytest.mark.parametrize("attack", ONCE, ids=lambda it: it.__name__)
def test_one_approval_is_one_execution_of_the_call_that_was_shown(
    attack: Attack, tmp_path: Path
) -> None:
    assert attacked(tmp_path, attack) == ["ls"]


# Approvals that come too late, go elsewhere or are none


async def an_approval_after_a_refusal(bench: Bench) -> None:
    await bench.runtime.decide(bench.ticket_id, "cancel")
    await bench.over()
    await refused(AlreadyDecided, bench.runtime.decide(bench.ticket_id))


async def an_approval_after_the_run_was_cancelled(bench: Bench) -> None:
    await bench.runtime.cancel_and_wait(bench.runs[0])
    await refused(AlreadyDecided, bench.runtime.decide(bench.ticket_id))


async def an_approval_after_a_message_came_instead(bench: Bench) -> None:
    await bench.runtime.run("a", "never mind", thread_id="t1")
    await refused(AlreadyDecided, bench.runtime.decide(bench.ticket_id))


async def an_approval_by_the_calls_id(bench: Bench) -> None:
    await refused(UnknownTicket, bench.runtime.decide(bench.tickets[0].call_id))


async def an_approval_by_the_questions_id(bench: Bench) -> None:
    named = f"perm_{bench.tickets[0].call_id}"
    await refused(UnknownTicket, bench.runtime.decide(named))


async def an_approval_by_the_runs_id(bench: Bench) -> None:
    await refused(UnknownTicket, bench.runtime.decide(bench.runs[0]))


async def an_approval_of_two_runs_at_once(bench: Bench) -> None:
    both: Any = {it.ticket_id: {} for it in bench.tickets}
    await refused(AwakenError, bench.runtime.decide_all(both))


async def an_approval_together_with_one_that_does_not_exist(bench: Bench) -> None:
    both: Any = {bench.ticket_id: {}, "forged": {}}
    await refused(AwakenError, bench.runtime.decide_all(both))


async def an_approval_in_the_name_of_a_deadline(bench: Bench) -> None:
    id_ = f"expiry:{bench.ticket_id}"
    deciding = bench.runtime.decide(bench.ticket_id, decision_id=id_, decided_by="deadline")
    await refused(InvalidInput, deciding)


async def a_result_in_the_place_of_the_tools(bench: Bench) -> None:
    await bench.runtime.decide(bench.ticket_id, "cancel", result="did ls")


LATE: list[Attack] = [
    an_approval_after_a_refusal,
    an_approval_after_the_run_was_cancelled,
    an_approval_after_a_message_came_instead,
    an_approval_by_the_calls_id,
    an_approval_by_the_questions_id,
    an_approval_by_the_runs_id,
    an_approval_of_two_runs_at_once,
    an_approval_together_with_one_that_does_not_exist,
    an_approval_in_the_name_of_a_deadline,
    a_result_in_the_place_of_the_tools,
]


@pytest.mark.parametrize("attack", LATE, ids=lambda it: it.__name__)
def test_what_is_no_approval_of_this_call_runs_nothing(attack: Attack, tmp_path: Path) -> None:
    assert attacked(tmp_path, attack) == []


MALFORMED: list[dict[str, Any]] = [
    {"action": "approve"},
    {"action": ""},
    {"arguments": {"command": float("nan")}, "result": object()},
    {"approved": True},
    {"remember": {"scope": "forever"}},
    {"remember": {"pattern": "*"}},
    {"remember": "ever"},
    {"remember": {"scope": "run", "pattern": 7}},
    {"remember": {"scope": "run", "pattern": "((("}},
    {"remember": {"scope": "run", "pattern": "Bash("}},
    {"remember": {"scope": "run", "pattern": ""}},
    {"action": "cancel", "remember": {"scope": "project", "pattern": 'Bash(command =~ "(")'}},
    {"decided_by": 7},
]


@pytest.mark.parametrize("decision", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_decision_is_refused_and_the_call_goes_on_waiting(
    decision: dict[str, Any], tmp_path: Path
) -> None:
    async def attack(bench: Bench) -> None:
        deciding: Any = bench.runtime.decide
        await refused(InvalidInput, deciding(bench.ticket_id, **decision))
        assert len(await bench.runtime.tickets("t1")) == 1

    assert attacked(tmp_path, attack) == []


EDITED: list[Any] = [
    {"command": "rm -rf /"},
    {"command": "RM -rf /"},
    {"command": "ls; rm -rf /"},
    {"command": "r\u200bm -rf /"},
    {"command": "\uff52\uff4d -rf /"},
    {"command": "rm\t-rf /"},
    {"command": "sh -c 'rm -rf /'"},
    {"command": "CURL http://x"},
    {"command": "cu\u00adrl http://x"},
    {"command": ["rm -rf /"]},
    {"command": None},
    {"command": 7},
    {"cmd": "ls"},
    {},
    [],
    "ls",
]


@pytest.mark.parametrize("arguments", EDITED, ids=repr)
def test_an_approval_cannot_be_edited_into_what_is_denied_or_invalid(
    arguments: Any, tmp_path: Path
) -> None:
    async def attack(bench: Bench) -> None:
        await bench.runtime.decide(bench.ticket_id, arguments=arguments, remember={"scope": "run"})

    assert attacked(tmp_path, attack) == []


def test_what_an_approver_edits_is_what_runs(tmp_path: Path) -> None:
    async def attack(bench: Bench) -> None:
        await bench.runtime.decide(bench.ticket_id, arguments={"command": "ls -l"}, result=True)
        await bench.over()
        said = await bench.runtime.messages("t1")
        assert "did ls -l" in [it.message.text for it in said]

    assert attacked(tmp_path, attack) == ["ls -l"]


REACHES: list[dict[str, str]] = [
    {"scope": "thread"},
    {"scope": "user"},
    {"scope": "project"},
    {"scope": "project", "pattern": "*"},
    {"scope": "thread", "pattern": "Bash"},
    {"scope": "run", "pattern": "Write"},
    {"scope": "run", "pattern": "Bash(rm *)"},
]


@pytest.mark.parametrize("remember", REACHES, ids=str)
def test_no_approval_reaches_further_than_its_rule_lets_it(
    remember: dict[str, str], tmp_path: Path
) -> None:
    async def attack(bench: Bench) -> None:
        await bench.runtime.decide(bench.ticket_id, remember=remember)
        await bench.over()
        checkout = await bench.runtime.store.checkout("t1")
        assert checkout is not None
        assert THREAD_ANSWERS.name not in checkout.state
        store: Any = bench.runtime.store
        assert not [it async for it in _entries(store) if it.key.startswith("permission")]

    assert attacked(tmp_path, attack) == ["ls"]


async def _entries(store: Any) -> Any:
    for owner in ("global", 'user::[null,"ann"]', "user::[null,null]"):
        for entry in await store.list_entries(owner):
            yield entry


NAMES = ["\x1b[31mRead\x1b[0m", "Read\u202egpj", "Read\r\nTool 'ls'", "Read\u200b", "Read\x9b2J"]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_whoever_approves_reads_the_name_with_everything_invisible_spelled_out(name: str) -> None:
    async def scenario() -> Ticket:
        agent = Agent(
            "a",
            model=ScriptedModel([ToolCalls([(name, {"x": name})])]),
            plugins=[PermissionPlugin()],
        )
        async with AgentRuntime([agent]) as runtime:
            offered: Any = [ToolDescriptor(id=name)]
            waiting = await runtime.run("a", "go", thread_id="t", frontend_tools=offered)
            return waiting.tickets[0]

    ticket = asyncio.run(scenario())
    assert ticket.suspension.message.isprintable()
    assert ticket.suspension.message != f"Permission required for tool '{name}'"
    assert ticket.arguments == ticket.suspension.parameters["arguments"] == {"x": name}


def test_there_are_enough_cases() -> None:
    groups: list[list[Any]] = [ONCE, LATE, MALFORMED, EDITED, REACHES, NAMES]
    assert sum(map(len, groups)) >= 40
