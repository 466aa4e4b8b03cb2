"""The public test kit: what proves awaken right, usable on your own stores and agents.

Belongs here: conformance suites, fake time and ids, scripted models, a fake vendor, schedules and
crash points.
Does not: anything that production code needs.
May import: everything below it. Names no concrete store, and only `fixtures` needs pytest.
"""

from .agent_reports import AgentReport, AgentViolated, Violation
from .agent_simulation import simulate_agent
from .bus_conformance import BUS_CHECKS
from .eval_cases import eval_cases
from .event_order import assert_valid_events, check_events
from .fakes import EventRecorder, FakeClock, LoopClock, SequentialIds
from .model_server import (
    FakeModelServer,
    HttpAnswer,
    ModelRequest,
    Said,
    Sent,
    Silence,
    continue_answer,
)
from .scripted_model import (
    Answer,
    Chunks,
    Entry,
    Reasoning,
    ScriptedModel,
    ScriptExhausted,
    ToolCalls,
    Turn,
)
from .simulation import (
    InjectionPoint,
    ScheduleFailed,
    SimulationReport,
    enumerate_awaits,
    inject_at,
    inject_cancellation,
    replay,
    simulate,
)
from .store_conformance import (
    CONFIG_CHECKS,
    EVAL_CHECKS,
    MEMORY_CHECKS,
    PROFILE_CHECKS,
    SCHEDULE_CHECKS,
    STORE_CHECKS,
    StoreCheck,
)
from .transcripts import (
    anthropic_problems,
    assert_valid_transcript,
    check_transcript,
    gemini_problems,
    openai_problems,
)
from .virtual_time import make_virtual_runtime, run_in_virtual_time, wait_for_end

__all__ = [
    "BUS_CHECKS",
    "CONFIG_CHECKS",
    "EVAL_CHECKS",
    "MEMORY_CHECKS",
    "PROFILE_CHECKS",
    "SCHEDULE_CHECKS",
    "STORE_CHECKS",
    "AgentReport",
    "AgentViolated",
    "Answer",
    "Chunks",
    "Entry",
    "EventRecorder",
    "FakeClock",
    "FakeModelServer",
    "HttpAnswer",
    "InjectionPoint",
    "LoopClock",
    "ModelRequest",
    "Reasoning",
    "Said",
    "ScheduleFailed",
    "ScriptExhausted",
    "ScriptedModel",
    "Sent",
    "SequentialIds",
    "Silence",
    "SimulationReport",
    "StoreCheck",
    "ToolCalls",
    "Turn",
    "Violation",
    "anthropic_problems",
    "assert_valid_events",
    "assert_valid_transcript",
    "check_events",
    "check_transcript",
    "continue_answer",
    "enumerate_awaits",
    "eval_cases",
    "gemini_problems",
    "inject_at",
    "inject_cancellation",
    "make_virtual_runtime",
    "openai_problems",
    "replay",
    "run_in_virtual_time",
    "simulate",
    "simulate_agent",
    "wait_for_end",
]
