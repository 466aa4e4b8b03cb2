"""langchain create_agent on langgraph; BaseChatModel subclass; AsyncSqliteSaver."""

import json
from typing import Any, ClassVar

import aiosqlite
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from common import SYSTEM, TOOLS, Adapter, stream_turn, turn


class Scripted(BaseChatModel):
    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **kwargs):
        return self.bind(tools=tools)

    def _generate(self, *args, **kwargs):
        raise NotImplementedError

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        answer = await turn(len(messages))
        calls = [{"name": call.name, "args": call.args, "id": call.id} for call in answer.calls]
        message = AIMessage(content=answer.text or "", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        async for delta in stream_turn(len(messages)):
            if isinstance(delta, str):
                chunk = ChatGenerationChunk(message=AIMessageChunk(content=delta))
                if run_manager:
                    await run_manager.on_llm_new_token(delta, chunk=chunk)
                yield chunk
            else:
                chunks = [
                    tool_call_chunk(name=call.name, args=call.json, id=call.id, index=i)
                    for i, call in enumerate(delta)
                ]
                yield ChatGenerationChunk(
                    message=AIMessageChunk(content="", tool_call_chunks=chunks)
                )


def question(messages):
    return {"messages": messages}


class LangGraph(Adapter):
    name = "langgraph"
    packages = (
        "langgraph",
        "langchain",
        "langchain-core",
        "langgraph-checkpoint",
        "langgraph-checkpoint-sqlite",
        "langchain-openai",
    )
    store = "AsyncSqliteSaver, durability=async (default)"
    run_options: ClassVar[dict[str, Any]] = {}
    agent_options: ClassVar[dict[str, Any]] = {}

    def model(self):
        if self.mode == "http":
            from langchain_openai import ChatOpenAI

            return ChatOpenAI(model="fake", base_url=self.base_url, api_key="x", timeout=120)
        return Scripted()

    async def setup(self):
        model = self.model()
        self.bare = create_agent(model, system_prompt=SYSTEM)
        self.full = create_agent(model, tools=list(TOOLS), system_prompt=SYSTEM)
        self.config = {"recursion_limit": 200}

    async def run(self, prompt, tools):
        agent = self.full if tools else self.bare
        state = await agent.ainvoke(question([HumanMessage(prompt)]), self.config)
        return state["messages"][-1].content

    async def stream(self, prompt):
        count = size = 0
        asked = question([HumanMessage(prompt)])
        async for message, _ in self.bare.astream(asked, self.config, stream_mode="messages"):
            if isinstance(message, AIMessageChunk) and message.content:
                count += 1
                size += len(message.content)
        return count, size

    def history(self, messages):
        native = []
        for i, (kind, *rest) in enumerate(messages):
            if kind == "user":
                native.append(HumanMessage(rest[0], id=f"h{i}"))
            elif kind == "call":
                call = {"id": rest[0], "name": rest[1], "args": json.loads(rest[2])}
                native.append(AIMessage(content="", tool_calls=[call], id=f"h{i}"))
            elif kind == "tool":
                call_id, name, result = rest
                native.append(
                    ToolMessage(content=result, tool_call_id=call_id, name=name, id=f"h{i}")
                )
            else:
                native.append(AIMessage(content=rest[0], id=f"h{i}"))
        return native

    async def run_on(self, native, prompt):
        asked = question([*native, HumanMessage(prompt)])
        state = await self.full.ainvoke(asked, self.config)
        return state["messages"][-1].content

    async def open_store(self, path):
        self.db = await aiosqlite.connect(path + ".db")
        saver = AsyncSqliteSaver(self.db)
        await saver.setup()
        self.saved = create_agent(
            self.model(),
            tools=list(TOOLS),
            system_prompt=SYSTEM,
            checkpointer=saver,
            **self.agent_options,
        )

    async def stored_turn(self, thread, prompt):
        config = {"configurable": {"thread_id": thread}, "recursion_limit": 200}
        asked = question([HumanMessage(prompt)])
        state = await self.saved.ainvoke(asked, config, **self.run_options)
        return state["messages"][-1].content

    async def close_store(self):
        await self.db.close()


ADAPTER = LangGraph
