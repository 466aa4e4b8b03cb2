"""Gates: asked in order, the strictest answer counts, and a broken gate lets nothing pass."""

import logging
from itertools import product
from typing import Any

import msgspec
import pytest

from awaken import PluginRegistrar
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.plugins.plugin import Block, GateDecision, SetResult, Suspend, ToolGateContext
from awaken.contracts.suspension.tickets import SuspendTicket, Suspension
from awaken.contracts.tool_results import ToolResult
from awaken.runtime.run import Run
from awaken.runtime.tools.gate import ask_gates

from .worlds import Made, with_run

CALL = ToolCall(id="c", name="pay", arguments={"eur": 5})


def answers(number: int) -> list[GateDecision | None]:
    """One answer of each kind, recognisable by the number."""
    ticket = SuspendTicket(suspension=Suspension(id=f"s{number}"))
    return [
        None,
        SetResult(result=ToolResult.success("pay", number)),
        Suspend(ticket=ticket),
        Block(reason=str(number)),
    ]


def asked(*decisions: Any) -> tuple[GateDecision | None, list[Any]]:
    """The verdict of gates that decide so, and what each of them was asked."""
    seen: list[Any] = []

    def gate(number: int, decision: Any) -> Any:
        async def answering(context: ToolGateContext) -> GateDecision | None:
            seen.append((number, context.call, context.own))
            if isinstance(decision, Exception):
                raise decision
            return decision

        return answering

    def declare(registrar: PluginRegistrar) -> None:
        for number, decision in enumerate(decisions):
            registrar.gate(gate(number, decision))

    async def use(run: Run) -> GateDecision | None:
        return await ask_gates(run, CALL)

    return with_run(use, Made("p", declare, own=lambda _run, _agent: "mine")), seen


def test_block_beats_suspend_beats_result_and_of_equals_the_first_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    for kinds in product(range(4), repeat=3):
        decisions = [answers(number)[kind] for number, kind in enumerate(kinds)]
        verdict, seen = asked(*decisions)
        strictest = decisions[kinds.index(max(kinds))] if max(kinds) else None
        if isinstance(strictest, Suspend):
            strictest = Suspend(ticket=msgspec.structs.replace(strictest.ticket, asked_by="p"))
        assert verdict == strictest
        assert seen == [(number, CALL, "mine") for number in range(3)]


def test_two_equal_answers_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        asked(answers(0)[3], answers(1)[3])
    assert "Two gates answered call 'c' with Block." in caplog.text


@pytest.mark.parametrize("other", [None, answers(1)[1], answers(1)[2]])
def test_a_gate_that_fails_blocks_and_does_not_tell_its_secrets(
    other: GateDecision | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL):
        verdict, _ = asked(other, RuntimeError("password 123"))
    assert verdict == Block(reason="gate of 'p' failed: RuntimeError")


def test_without_gates_every_call_passes() -> None:
    assert asked() == (None, [])
