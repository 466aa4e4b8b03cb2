"""langgraph with one checkpoint per run instead of one per superstep (persist variant)."""

from typing import ClassVar

from adapters.langgraph_ import LangGraph


class LangGraphExit(LangGraph):
    name = "langgraph(exit)"
    store = "AsyncSqliteSaver, durability=exit"
    run_options: ClassVar = {"durability": "exit"}


ADAPTER = LangGraphExit
