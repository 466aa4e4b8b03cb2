"""Retrieval that checks itself, ported from LangGraph.

Original: the code cells of `examples/rag/langgraph_agentic_rag.ipynb` of `langchain-ai/langgraph`
at commit f09cfe8ffc1eeffd68f4b628ed69c30f7cad229f: 217 lines that are not blank. Nothing is copied.
`MODEL=openai:gpt-5-mini` runs it with a real model.
The model decides whether to search. A judge reads what was found: if it does not answer the
question, a writer words the question better, and the model searches again. There, this is a graph
of four nodes and conditional edges. Here, the loop is the agent's own; judge and writer are agents
that the tool asks, each in a durable run.
"""

import asyncio
import os
import re
from dataclasses import dataclass

import msgspec

from awaken import Agent, AgentRuntime, Retry, ToolCallDone, ToolCallReady, ToolContext, tool
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import Delegation

NOTES = [
    "Short-term memory of an agent is its prompt: it ends with the conversation.",
    "Long-term memory of an agent is kept in a store outside, and is searched when needed.",
    "A plan divides a task into steps that can be checked one by one.",
    "An attack on a model hides instructions in a document that it reads.",
]


@dataclass
class Judgement:
    """Whether what was found answers the question."""

    answers: bool


def rank_notes(query: str) -> list[str]:
    """The notes that share words with the query, best first."""
    wanted = set(re.findall(r"\w{4,}", query.lower()))
    scores = {note: len(wanted & set(re.findall(r"\w{4,}", note.lower()))) for note in NOTES}
    return sorted((it for it in NOTES if scores[it]), key=lambda it: -scores[it])[:2]


async def ask(ctx: ToolContext, agent_id: str, prompt: str) -> str:
    answer = await ctx.sub_runs.delegate(Delegation(agent_id=agent_id, prompt=prompt))
    return answer.text


@tool(effect="none", retries=3)
async def search_notes(query: str, ctx: ToolContext) -> str:
    """Search the notes about agents, prompts and attacks on models."""
    found = "\n".join(rank_notes(query)) or "nothing"
    judged = await ask(ctx, "judge", f"Question: {query}\nFound: {found}")
    if msgspec.json.decode(judged, type=Judgement).answers:
        return found
    better = await ask(ctx, "writer", f"Question: {query}")
    raise Retry(f"what was found does not answer this; search for: {better}")


def build_agents() -> list[Agent]:
    """The searcher and the two agents that its tool asks, with models that follow a script."""
    real = os.environ.get("MODEL")
    searches = ["How do agents plan to remember?", "types of memory of an agent"]
    searching = [ToolCalls([("search_notes", {"query": it})]) for it in searches]
    final = "An agent has short-term memory in its prompt and long-term memory in a store."
    return [
        Agent(
            "searcher",
            model=real or ScriptedModel([*searching, final]),
            instructions="Search the notes if the question needs it. Answer in one sentence.",
            tools=[search_notes],
        ),
        Agent(
            "judge",
            model=real or ScriptedModel(['{"answers": false}', '{"answers": true}']),
            instructions="Does the text that was found answer the question?",
            output_type=Judgement,
        ),
        Agent(
            "writer",
            model=real or ScriptedModel([searches[1]]),
            instructions="Word the question so that a search for its words finds the answer.",
        ),
    ]


async def main() -> None:
    async with AgentRuntime(build_agents()) as runtime:
        run = await runtime.start("searcher", "Which kinds of memory does an agent have?")
        async for event in run.events():
            match event:
                case ToolCallReady():
                    print(f"{event.name}: {event.arguments['query']}")
                case ToolCallDone():
                    print(f"= {event.result.data or event.result.message}")
        print((await run.result()).text)
        print([it.agent_id for it in await runtime.list_runs()])


if __name__ == "__main__":
    asyncio.run(main())
