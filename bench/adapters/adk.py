"""google-adk LlmAgent + Runner; BaseLlm subclass; in-memory and database sessions."""

import itertools
import json
import logging

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.events import Event
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from common import SYSTEM, TOOLS, Adapter, stream_turn, turn

USAGE = types.GenerateContentResponseUsageMetadata(
    prompt_token_count=10, candidates_token_count=5, total_token_count=15
)
WHO = {"app_name": "app", "user_id": "u"}


def text_content(role, text):
    return types.Content(role=role, parts=[types.Part(text=text)])


def call_content(calls):
    """`calls` are (id, name, args) triples."""
    parts = [
        types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=args))
        for call_id, name, args in calls
    ]
    return types.Content(role="model", parts=parts)


def result_content(call_id, name, result):
    response = types.FunctionResponse(id=call_id, name=name, response={"result": result})
    return types.Content(role="user", parts=[types.Part(function_response=response)])


def scripted_content(calls):
    return call_content((call.id, call.name, call.args) for call in calls)


def text_of(event):
    """The text of an event's first part, if any."""
    if event.content and event.content.parts:
        return event.content.parts[0].text
    return None


class Scripted(BaseLlm):
    model: str = "scripted"

    async def generate_content_async(self, llm_request, stream=False):
        if not stream:
            answer = await turn(len(llm_request.contents))
            if answer.calls:
                content = scripted_content(answer.calls)
            else:
                content = text_content("model", answer.text)
            yield LlmResponse(content=content, usage_metadata=USAGE)
            return
        parts = []
        async for delta in stream_turn():
            if isinstance(delta, str):
                parts.append(delta)
                yield LlmResponse(content=text_content("model", delta), partial=True)
            else:
                yield LlmResponse(content=scripted_content(delta), usage_metadata=USAGE)
        if parts:
            whole = text_content("model", "".join(parts))
            yield LlmResponse(content=whole, usage_metadata=USAGE)


class ADK(Adapter):
    name = "google-adk"
    packages = ("google-adk", "google-genai", "pydantic", "litellm")
    store = "DatabaseSessionService sqlite+aiosqlite"
    note = "in-memory session per run (Runner needs one); HTTP mode goes through LiteLlm"

    def model(self):
        if self.mode == "http":
            import litellm
            from google.adk.models.lite_llm import LiteLlm

            litellm.suppress_debug_info = True
            litellm.telemetry = False
            return LiteLlm(model="openai/fake", api_base=self.base_url, api_key="x")
        return Scripted()

    async def setup(self):
        logging.getLogger("google_adk").setLevel(logging.ERROR)
        self.bare = LlmAgent(name="a", model=self.model(), instruction=SYSTEM)
        self.full = LlmAgent(name="a", model=self.model(), instruction=SYSTEM, tools=list(TOOLS))
        self.sessions = InMemorySessionService()
        self.bare_runner = self.runner(self.bare, self.sessions)
        self.full_runner = self.runner(self.full, self.sessions)
        self.streaming = RunConfig(streaming_mode=StreamingMode.SSE)
        self.ids = map(str, itertools.count())
        self.previous = None

    def runner(self, agent, sessions):
        return Runner(app_name="app", agent=agent, session_service=sessions)

    async def drive(self, runner, session_id, prompt):
        last = ""
        asked = text_content("user", prompt)
        async for event in runner.run_async(user_id="u", session_id=session_id, new_message=asked):
            last = text_of(event) or last
        return last

    async def run(self, prompt, tools):
        session_id = next(self.ids)
        await self.sessions.create_session(**WHO, session_id=session_id)
        runner = self.full_runner if tools else self.bare_runner
        answer = await self.drive(runner, session_id, prompt)
        # Deleted, or memory would grow without end.
        await self.sessions.delete_session(**WHO, session_id=session_id)
        return answer

    async def stream(self, prompt):
        count = size = 0
        session_id = next(self.ids)
        await self.sessions.create_session(**WHO, session_id=session_id)
        async for event in self.bare_runner.run_async(
            user_id="u",
            session_id=session_id,
            new_message=text_content("user", prompt),
            run_config=self.streaming,
        ):
            text = text_of(event) if event.partial else None
            if text:
                count += 1
                size += len(text)
        await self.sessions.delete_session(**WHO, session_id=session_id)
        return count, size

    def history(self, messages):
        native = []
        for kind, *rest in messages:
            if kind == "user":
                native.append(Event(author="user", content=text_content("user", rest[0])))
                continue
            if kind == "call":
                call_id, name, arguments = rest
                content = call_content([(call_id, name, json.loads(arguments))])
            elif kind == "tool":
                call_id, name, result = rest
                content = result_content(call_id, name, int(result))
            else:
                content = text_content("model", rest[0])
            native.append(Event(author="a", content=content))
        return native

    async def fresh(self, native):
        if self.previous:
            await self.sessions.delete_session(**WHO, session_id=self.previous)
        self.previous = next(self.ids)
        session = await self.sessions.create_session(**WHO, session_id=self.previous)
        for event in native:
            await self.sessions.append_event(session, event.model_copy())
        return self.previous

    async def run_on(self, native, prompt):
        return await self.drive(self.full_runner, native, prompt)

    def make_database(self, path):
        from google.adk.sessions import DatabaseSessionService

        return DatabaseSessionService(f"sqlite+aiosqlite:///{path}.db")

    async def open_store(self, path):
        self.database = self.make_database(path)
        self.stored_runner = self.runner(self.full, self.database)
        await self.database.create_session(**WHO, session_id="thread-1")

    async def stored_turn(self, thread, prompt):
        return await self.drive(self.stored_runner, thread, prompt)

    async def close_store(self):
        await self.database.db_engine.dispose()


ADAPTER = ADK
