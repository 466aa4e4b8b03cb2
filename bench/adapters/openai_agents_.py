"""openai-agents Runner; Model subclass; SQLiteSession. Tracing on (default), export dropped."""

from agents import (
    Agent,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    set_trace_processors,
)
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.tracing.processor_interface import TracingProcessor
from agents.usage import Usage
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseContentPartAddedEvent,
    ResponseContentPartDoneEvent,
    ResponseCreatedEvent,
    ResponseFunctionToolCall,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

from common import SYSTEM, TOOLS, Adapter, stream_turn, turn


class NullProcessor(TracingProcessor):
    """Spans are still made, as by default; only the HTTP export is dropped."""

    def on_trace_start(self, trace): ...

    def on_trace_end(self, trace): ...

    def on_span_start(self, span): ...

    def on_span_end(self, span): ...

    def shutdown(self): ...

    def force_flush(self): ...


def call_item(call):
    return ResponseFunctionToolCall(
        id="fc_" + call.id,
        call_id=call.id,
        name=call.name,
        arguments=call.json,
        type="function_call",
        status="completed",
    )


def text_part(text):
    return ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])


def message_item(text, status="completed"):
    return ResponseOutputMessage(
        id="msg_1",
        role="assistant",
        type="message",
        status=status,
        content=[text_part(text)] if text is not None else [],
    )


def response(output):
    return Response(
        id="r",
        created_at=0,
        model="scripted",
        object="response",
        output=output,
        tool_choice="auto",
        tools=[],
        parallel_tool_calls=True,
    )


def opening_events(seq):
    """What comes before the first text delta."""
    yield ResponseOutputItemAddedEvent(
        item=message_item(None, "in_progress"),
        output_index=0,
        sequence_number=seq,
        type="response.output_item.added",
    )
    yield ResponseContentPartAddedEvent(
        content_index=0,
        item_id="msg_1",
        output_index=0,
        sequence_number=seq,
        type="response.content_part.added",
        part=text_part(""),
    )


def closing_events(parts, output, seq):
    """What comes after the last delta."""
    if parts:
        output = [message_item("".join(parts))]
        yield ResponseContentPartDoneEvent(
            content_index=0,
            item_id="msg_1",
            output_index=0,
            sequence_number=seq,
            type="response.content_part.done",
            part=output[0].content[0],
        )
    for index, item in enumerate(output):
        yield ResponseOutputItemDoneEvent(
            item=item,
            output_index=index,
            sequence_number=seq,
            type="response.output_item.done",
        )
    yield ResponseCompletedEvent(
        response=response(output), sequence_number=seq, type="response.completed"
    )


class Scripted(Model):
    async def get_response(self, system_instructions, input, *args, **kwargs):
        answer = await turn(len(input))
        output = [call_item(call) for call in answer.calls] or [message_item(answer.text)]
        usage = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
        return ModelResponse(output=output, usage=usage, response_id=None)

    async def stream_response(self, *args, **kwargs):
        yield ResponseCreatedEvent(
            response=response([]), sequence_number=0, type="response.created"
        )
        parts, output, seq = [], [], 0
        async for delta in stream_turn():
            seq += 1
            if not isinstance(delta, str):
                output = [call_item(call) for call in delta]
                continue
            if not parts:
                for event in opening_events(seq):
                    yield event
            parts.append(delta)
            yield ResponseTextDeltaEvent(
                content_index=0,
                delta=delta,
                item_id="msg_1",
                output_index=0,
                logprobs=[],
                sequence_number=seq,
                type="response.output_text.delta",
            )
        for event in closing_events(parts, output, seq):
            yield event


class OpenAIAgents(Adapter):
    name = "openai-agents"
    packages = ("openai-agents", "openai", "pydantic")
    store = "SQLiteSession (file)"
    note = "tracing on (default), export dropped"
    tracing = True

    def model(self):
        if self.mode == "http":
            from agents import OpenAIChatCompletionsModel
            from openai import AsyncOpenAI

            client = AsyncOpenAI(base_url=self.base_url, api_key="x", timeout=120)
            return OpenAIChatCompletionsModel("fake", client)
        return Scripted()

    async def setup(self):
        set_trace_processors([NullProcessor()])
        model = self.model()
        tools = [function_tool(function) for function in TOOLS]
        self.bare = Agent(name="a", instructions=SYSTEM, model=model)
        self.full = Agent(name="a", instructions=SYSTEM, model=model, tools=tools)
        self.config = RunConfig(tracing_disabled=not self.tracing)

    async def drive(self, agent, asked, **options):
        result = await Runner.run(agent, asked, max_turns=100, run_config=self.config, **options)
        return result.final_output

    async def run(self, prompt, tools):
        return await self.drive(self.full if tools else self.bare, prompt)

    async def stream(self, prompt):
        count = size = 0
        result = Runner.run_streamed(self.bare, prompt, run_config=self.config)
        async for event in result.stream_events():
            if event.type != "raw_response_event":
                continue
            if event.data.type == "response.output_text.delta":
                count += 1
                size += len(event.data.delta)
        return count, size

    def history(self, messages):
        native = []
        for i, (kind, *rest) in enumerate(messages):
            if kind == "call":
                call_id, name, arguments = rest
                item = {"type": "function_call", "call_id": call_id, "name": name}
                native.append({**item, "arguments": arguments})
            elif kind == "tool":
                item = {"type": "function_call_output", "call_id": rest[0], "output": rest[2]}
                native.append(item)
            elif kind == "user":
                native.append({"role": "user", "content": rest[0]})
            else:
                text = {"type": "output_text", "text": rest[0], "annotations": []}
                item = {"role": "assistant", "type": "message", "status": "completed"}
                native.append({**item, "id": f"msg_{i}", "content": [text]})
        return native

    async def run_on(self, native, prompt):
        return await self.drive(self.full, [*native, {"role": "user", "content": prompt}])

    async def open_store(self, path):
        # One object per thread; it reads the items again every turn.
        self.session = SQLiteSession("thread-1", path + ".db")

    async def stored_turn(self, thread, prompt):
        return await self.drive(self.full, prompt, session=self.session)

    async def close_store(self):
        self.session.close()


ADAPTER = OpenAIAgents
