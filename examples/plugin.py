"""A plugin with a hook, a gate, an observer and a config section.

`Budget` tells the model how many tool calls are left, refuses calls beyond the budget, and keeps
a log of its own for each run. How large the budget is stands in the agent's config.
"""

import asyncio

import msgspec

from awaken import (
    Agent,
    AgentRuntime,
    AgentSpec,
    Phase,
    Plugin,
    PluginRegistrar,
    RunIdentity,
    StateCommand,
    StateKey,
    ToolResult,
    tool,
)
from awaken.messages import suffix_context
from awaken.plugins import (
    ADD_CONTEXT_MESSAGE,
    BeforeInferenceContext,
    BeforeToolExecuteContext,
    ConfigSection,
    GateDecision,
    RunEndContext,
    SetResult,
    ToolGateContext,
)
from awaken.testing import ScriptedModel, ToolCalls

USED: StateKey[int, int] = StateKey(
    "budget.used", default=0, apply=lambda used, more: used + more, merge="commutative"
)
reports: list[str] = []


class BudgetConfig(msgspec.Struct, forbid_unknown_fields=True):
    """The plugin's config section."""

    calls: int = 2


class Budget(Plugin):
    """Lets an agent make only so many tool calls in a run."""

    name = "budget"

    def register(self, registrar: PluginRegistrar) -> None:
        """Say what this plugin takes part in."""
        registrar.key(USED)
        registrar.hook(Phase.BEFORE_INFERENCE, self.tell)
        registrar.gate(self.gate)
        registrar.hook(Phase.BEFORE_TOOL_EXECUTE, self.count)
        registrar.observer(Phase.RUN_END, self.report)

    def config_sections(self) -> list[ConfigSection]:
        """Name the section, so that a wrong one is refused when the runtime is made."""
        return [ConfigSection.of("budget", BudgetConfig)]

    def activate(self, run: RunIdentity, agent: AgentSpec) -> list[str]:
        """Make a log for one run; hooks find it in `context.own`."""
        return [f"agent {agent.id}"]

    async def tell(self, context: BeforeInferenceContext) -> StateCommand:
        """Tell the model what is left; a hook is pure and returns what it wants done."""
        left = context.config("budget", BudgetConfig).calls - context.state(USED)
        message = suffix_context("budget", f"You have {left} tool calls left.")
        return StateCommand().schedule(ADD_CONTEXT_MESSAGE, message)

    async def gate(self, context: ToolGateContext) -> GateDecision | None:
        """Answer a call beyond the budget without running it."""
        if context.state(USED) < context.config("budget", BudgetConfig).calls:
            return None
        return SetResult(result=ToolResult.error(context.call.name, "The budget is used up."))

    async def count(self, context: BeforeToolExecuteContext) -> StateCommand:
        """Count a call that passed the gate."""
        return StateCommand().update(USED, 1)

    async def report(self, context: RunEndContext) -> None:
        """Report once; an observer may have effects."""
        reports.append(", ".join([*context.own, f"{context.state(USED)} calls"]))


@tool(effect="none")
async def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: a word"


async def main() -> None:
    model = ScriptedModel([ToolCalls([("look_up", {"word": word})]) for word in "abc"] + ["Done."])
    agent = Agent(
        "reader", model=model, tools=[look_up], plugins=[Budget()], config={"budget": {"calls": 2}}
    )
    async with AgentRuntime([agent]) as runtime:
        await runtime.run("reader", "Look a, b and c up.", thread_id="t1")
        messages = [record.message for record in await runtime.messages("t1")]

    told = [request.messages[-1].text for request in model.requests]
    answers = [message.text for message in messages if message.role == "tool"]
    print("\n".join(["The model was told:", *told, "The tools answered:", *answers, *reports]))

    assert [text.split()[2] for text in told] == ["2", "1", "0", "0"]
    assert answers == ["a: a word", "b: a word", "The budget is used up."]
    assert reports == ["agent reader, 2 calls"]
    assert not any("left" in message.text for message in messages), "it is not in the transcript"


if __name__ == "__main__":
    asyncio.run(main())
