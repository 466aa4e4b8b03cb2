"""The public test kit: what proves awaken right, usable on your own stores and agents.

Belongs here: conformance suites, fake time and ids, scripted models, schedules and crash points.
Does not: anything that production code needs.
May import: contracts and the runtime. Never a store, a provider or pytest.
"""

from .fakes import EventRecorder, FakeClock, SequentialIds
from .scripted_model import (
    Chunks,
    Reasoning,
    ScriptedModel,
    ScriptExhausted,
    ToolCalls,
    Turn,
)

__all__ = [
    "Chunks",
    "EventRecorder",
    "FakeClock",
    "Reasoning",
    "ScriptExhausted",
    "ScriptedModel",
    "SequentialIds",
    "ToolCalls",
    "Turn",
]
