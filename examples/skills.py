"""An agent that takes up skills from a folder: one in its own run, one with an editor's help.

The model sees a short catalog. What a skill says comes into the conversation only when it is
taken up, with its arguments in place, and brings the permission for its tools along.
"""

import asyncio
from pathlib import Path

from awaken import Agent, AgentRuntime, tool
from awaken.extensions.skills import SkillsPlugin
from awaken.testing import ScriptedModel, ToolCalls

SKILLS = Path(__file__).parent / "skills"


@tool(effect="none")
async def list_changes() -> list[str]:
    """List the changes since the last release."""
    return ["You can pause a run.", "Faster start."]


def writer() -> tuple[Agent, ScriptedModel]:
    """Writes release notes; an editor reads them."""
    skill = {"skill": "release-notes", "args": "1.4"}
    style = {"skill": "release-notes", "path": "references/style.md"}
    draft = {"skill": "proofread", "args": "You can puase a run."}
    model = ScriptedModel(
        [
            ToolCalls([("skill", skill)]),
            ToolCalls([("list_changes", {}), ("load_skill_resource", style)]),
            ToolCalls([("skill", draft)]),
            "1.4: You can pause a run.",
        ]
    )
    agent = Agent(
        "writer",
        model=model,
        tools=[list_changes],
        delegates=["editor"],
        plugins=[SkillsPlugin(SKILLS)],
    )
    return agent, model


async def main() -> None:
    agent, model = writer()
    editor = Agent("editor", model=ScriptedModel(["You can pause a run."]))
    async with AgentRuntime([agent, editor]) as runtime:
        result = await runtime.run("writer", "What is new in 1.4?", thread_id="release")

    first, second, *_, last = model.requests
    print(first.system[-1])
    print(second.messages[-1].text)
    print(result.text)

    assert "<name>release-notes</name>" in first.system[-1]
    assert "release notes of version 1.4" in second.messages[-1].text
    assert any("Begin with what the reader can do now" in it.text for it in last.messages)
    assert any('"response":"You can pause a run."' in it.text for it in last.messages)


if __name__ == "__main__":
    asyncio.run(main())
