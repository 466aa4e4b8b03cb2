"""The nine phases of a run, in order."""

from enum import StrEnum


class Phase(StrEnum):
    """A point in a run at which hooks are called."""

    RUN_START = "run_start"
    STEP_START = "step_start"
    BEFORE_INFERENCE = "before_inference"
    AFTER_INFERENCE = "after_inference"
    TOOL_GATE = "tool_gate"
    BEFORE_TOOL_EXECUTE = "before_tool_execute"
    AFTER_TOOL_EXECUTE = "after_tool_execute"
    STEP_END = "step_end"
    RUN_END = "run_end"
