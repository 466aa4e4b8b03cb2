"""langgraph with the beta DeltaChannel for messages (persist variant)."""

from typing import Annotated, ClassVar

from langchain.agents import AgentState
from langchain_core.messages import AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph.message import _messages_delta_reducer

from adapters.langgraph_ import LangGraph


class DeltaState(AgentState):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


class LangGraphDelta(LangGraph):
    name = "langgraph(delta,beta)"
    store = "AsyncSqliteSaver, DeltaChannel(messages), durability=async"
    agent_options: ClassVar = {"state_schema": DeltaState}


ADAPTER = LangGraphDelta
