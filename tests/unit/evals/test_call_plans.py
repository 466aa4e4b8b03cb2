"""Which recorded call answers which call of a replay."""

from typing import Any

from tests.unit.scoring.outcomes import make_call, make_recording, make_step

from awaken.contracts.evals.recordings import RecordedCall
from awaken.contracts.evals.worlds import ToolPolicy
from awaken.evals.recorded_tools import CallPlan, Missing
from awaken.messages import ToolCall


def recorded(arguments: dict[str, Any], *, has_run: bool = True) -> RecordedCall:
    return make_call("helper", arguments, "done", has_run=has_run)


def test_a_question_that_was_refused_takes_no_answer_from_a_later_one() -> None:
    refused, asked = recorded({"wrong": 1}, has_run=False), recorded({"prompt": "b"})
    recording = make_recording(make_step(refused), make_step(asked))
    plan = CallPlan(recording, ToolPolicy(), {"helper"})
    plan.add(1, [ToolCall(id="1", name="helper", arguments={"wrong": 1})])
    plan.add(2, [ToolCall(id="2", name="helper", arguments={"prompt": "b"})])
    assert isinstance(plan.find(1, "1"), Missing)
    assert plan.find(2, "2") == asked


def test_a_question_in_other_words_takes_the_answer_that_the_agent_gave() -> None:
    asked = recorded({"prompt": "b"})
    plan = CallPlan(make_recording(make_step(asked)), ToolPolicy(), {"helper"})
    plan.add(1, [ToolCall(id="1", name="helper", arguments={"prompt": "please b"})])
    assert plan.find(1, "1") == asked
