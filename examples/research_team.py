"""A lead that has two researchers at work in the background, and reports when both are done.

Each researcher is a durable run of its own. The lead's run has nothing to do meanwhile; what a
researcher found comes into its conversation as soon as it is there, exactly once.
"""

import asyncio

from awaken import Agent, AgentRuntime
from awaken.extensions.background import BackgroundTasksPlugin
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, ToolCalls

FINDINGS = {"rivers": "The Rhine is 1,233 km long.", "mountains": "The Zugspitze has 2,962 m."}


def research(request: InferenceRequest) -> str:
    """What a researcher finds, by what it was asked."""
    topic = request.messages[-1].text
    return FINDINGS[topic]


def report(request: InferenceRequest) -> str:
    """The lead's answer: complete as soon as it has heard of both."""
    heard = " ".join(message.text for message in request.messages)
    found = [finding for finding in FINDINGS.values() if finding in heard]
    return " ".join(sorted(found)) if len(found) == len(FINDINGS) else "Somebody is still reading."


def lead() -> Agent:
    """Starts one researcher for each topic."""
    start = [
        ("spawn_agent", {"agent_id": "researcher", "prompt": topic, "name": topic})
        for topic in FINDINGS
    ]
    return Agent(
        "lead",
        model=ScriptedModel([ToolCalls(start), report, report, report]),
        instructions="Have your researchers find out what is asked, then report.",
        delegates=["researcher"],
        plugins=[BackgroundTasksPlugin()],
    )


async def main() -> None:
    researcher = Agent("researcher", model=ScriptedModel([research, research]))
    async with AgentRuntime([lead(), researcher]) as runtime:
        result = await runtime.run("lead", "Rivers and mountains, please.", thread_id="geography")
        tasks = await runtime.tasks("geography")
        messages = await runtime.messages("geography")

    print(result.text)
    for task in tasks:
        print(f"{task.name}: {task.status} ({task.result})")

    told = [it for it in messages if it.message.sender is not None]
    assert result.text == "The Rhine is 1,233 km long. The Zugspitze has 2,962 m."
    assert {task.name: task.result for task in tasks} == FINDINGS
    assert len(told) == len(FINDINGS)


if __name__ == "__main__":
    asyncio.run(main())
