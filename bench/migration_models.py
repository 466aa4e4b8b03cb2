"""Models of other frameworks that play a script: texts, and lists of `(tool, arguments)`.

Each function is imported in the environment of its framework only.
"""

import json
from itertools import count


def make_langgraph_script(*turns):
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, AIMessageChunk
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

    left, ids = iter(turns), count(1)

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self):
            return "scripted"

        def bind_tools(self, tools, **kwargs):
            return self

        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            turn = next(left)
            calls = [] if isinstance(turn, str) else turn
            message = AIMessage(
                content=turn if isinstance(turn, str) else "",
                tool_calls=[
                    {"name": name, "args": arguments, "id": f"call_{next(ids)}"}
                    for name, arguments in calls
                ],
            )
            return ChatResult(generations=[ChatGeneration(message=message)])

        def _stream(self, messages, stop=None, run_manager=None, **kwargs):
            message = self._generate(messages).generations[0].message
            for piece in message.content.split(" ") if message.content else [""]:
                chunk = AIMessageChunk(content=piece + " " * bool(piece))
                yield ChatGenerationChunk(message=chunk)

    return Scripted()


def make_pydantic_ai_script(*turns):
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import DeltaToolCall, FunctionModel

    left, ids = iter(turns), count(1)

    def answer(messages, info):
        turn = next(left)
        if isinstance(turn, str):
            return ModelResponse(parts=[TextPart(turn)])
        calls = [ToolCallPart(name, given, f"call_{next(ids)}") for name, given in turn]
        return ModelResponse(parts=calls)

    async def stream(messages, info):
        turn = next(left)
        if isinstance(turn, str):
            for piece in turn.split(" "):
                yield piece + " "
        else:
            yield {
                place: DeltaToolCall(name, json.dumps(given), tool_call_id=f"call_{next(ids)}")
                for place, (name, given) in enumerate(turn)
            }

    return FunctionModel(answer, stream_function=stream)


def make_openai_agents_script(*turns):
    from agents import set_tracing_disabled
    from agents.items import ModelResponse
    from agents.models.interface import Model
    from agents.usage import Usage
    from openai.types.responses import (
        Response,
        ResponseCompletedEvent,
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
        ResponseTextDeltaEvent,
    )

    set_tracing_disabled(True)
    left, ids = iter(turns), count(1)

    def build_output(turn):
        if not isinstance(turn, str):
            return [
                ResponseFunctionToolCall(
                    call_id=f"call_{next(ids)}",
                    name=name,
                    arguments=json.dumps(given),
                    type="function_call",
                )
                for name, given in turn
            ]
        text = ResponseOutputText(text=turn, type="output_text", annotations=[], logprobs=[])
        return [
            ResponseOutputMessage(
                id=f"msg_{next(ids)}",
                role="assistant",
                type="message",
                status="completed",
                content=[text],
            )
        ]

    class Scripted(Model):
        async def get_response(self, *args, **kwargs):
            return ModelResponse(output=build_output(next(left)), usage=Usage(), response_id=None)

        async def stream_response(self, *args, **kwargs):
            turn = next(left)
            for piece in turn.split(" ") if isinstance(turn, str) else []:
                yield ResponseTextDeltaEvent(
                    content_index=0,
                    delta=piece + " ",
                    item_id="msg",
                    logprobs=[],
                    output_index=0,
                    sequence_number=0,
                    type="response.output_text.delta",
                )
            response = Response(
                id="r",
                created_at=0,
                model="scripted",
                object="response",
                output=build_output(turn),
                tool_choice="auto",
                tools=[],
                parallel_tool_calls=True,
            )
            yield ResponseCompletedEvent(
                response=response, sequence_number=0, type="response.completed"
            )

    return Scripted()
