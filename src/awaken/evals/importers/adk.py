"""Evalsets of Google's ADK: conversations with the tools and answers that are expected."""

from typing import Any

from awaken.contracts.evals.cases import CaseTurn, Expectation, RequiredCall
from awaken.contracts.evals.errors import InvalidDataset
from awaken.contracts.evals.worlds import SimulatedUser

from .documents import read_document
from .drafts import ImportDraft, ScorerList, need_dict, need_list

MATCH = 0.8
"""The share of common words from which ADK takes an answer as right."""
_CASE = ("eval_id", "conversation", "session_input", "creation_timestamp", "conversation_scenario")
_TURN = ("invocation_id", "user_content", "final_response", "intermediate_data")


def import_adk(data: bytes, draft: ImportDraft) -> None:
    """Read an evalset, or a test file of the older form."""
    document = read_document(data, "evalset.json")
    if isinstance(document, list):
        for number, it in enumerate(document, 1):
            _add_old(draft, need_dict(it, f"case {number}"), number)
        return
    whole = need_dict(document, "the evalset")
    draft.description = str(whole.get("description") or whole.get("name") or "")
    known = ("eval_set_id", "name", "description", "eval_cases", "creation_timestamp")
    draft.leave_fields_out("the evalset", whole, known)
    for number, it in enumerate(need_list(whole.get("eval_cases"), "eval_cases"), 1):
        _add_case(draft, need_dict(it, f"case {number}"), number)


def _add_case(draft: ImportDraft, case: dict[str, Any], number: int) -> None:
    name = str(case.get("eval_id") or "")
    what = f"case '{name or number}'"
    draft.leave_fields_out(what, case, _CASE)
    session = need_dict(case.get("session_input") or {}, what)
    draft.leave_fields_out(what, session, ("state", "app_name", "user_id"))
    made: dict[str, Any] = {"state": need_dict(session.get("state") or {}, what)}
    scenario = case.get("conversation_scenario")
    turns = need_list(case.get("conversation"), what)
    if scenario is not None and turns:
        draft.leave_out(what, "field 'conversation_scenario', beside its conversation")
    if scenario is not None and not turns:
        plan = need_dict(scenario, what)
        goal = str(plan.get("conversation_plan") or "")
        prompt = str(plan.get("starting_prompt") or goal)
        draft.leave_fields_out(what, plan, ("starting_prompt", "conversation_plan"))
        draft.add(name, number, user_input=prompt, user=SimulatedUser(goal=goal), **made)
        return
    _add_turns(draft, [need_dict(it, what) for it in turns], made, (name, number, what))


def _add_turns(
    draft: ImportDraft, turns: list[dict[str, Any]], made: dict[str, Any], named: Any
) -> None:
    name, number, what = named
    if not turns:
        raise InvalidDataset(what=what, problem="it has no conversation")
    inputs, calls, answer = [], [], None
    for turn in turns:
        draft.leave_fields_out(what, turn, _TURN)
        said = _read_text(draft, turn.get("user_content"), what)
        if not said:
            raise InvalidDataset(what=what, problem="a turn has no text of the user")
        inputs.append(said)
        between = need_dict(turn.get("intermediate_data") or {}, what)
        draft.leave_fields_out(what, between, ("tool_uses", "invocation_events"))
        for use in (*need_list(between.get("tool_uses"), what), *_list_event_calls(between, what)):
            fields = need_dict(use, what)
            calls.append((str(fields.get("name") or ""), fields.get("args")))
        answer = _read_text(draft, turn.get("final_response"), what)
    if len(turns) > 1 and any(it.get("final_response") for it in turns[:-1]):
        draft.leave_out(what, "the expected answers of turns before the last")
    _finish(draft, name, number, inputs, calls, answer, made)


def _list_event_calls(between: dict[str, Any], what: str) -> list[Any]:
    """Return the calls in the events of a turn, as newer releases keep them."""
    events = (need_dict(it, what) for it in need_list(between.get("invocation_events"), what))
    contents = (need_dict(it.get("content") or {}, what) for it in events)
    parts = (it for content in contents for it in need_list(content.get("parts"), what))
    calls = (need_dict(it, what).get("function_call") for it in parts)
    return [it for it in calls if it is not None]


def _add_old(draft: ImportDraft, case: dict[str, Any], number: int) -> None:
    what = f"case {number}"
    turns = need_list(case.get("data"), what) if "data" in case else [case]
    session = need_dict(case.get("initial_session") or {}, what)
    made = {"state": need_dict(session.get("state") or {}, what)}
    inputs, calls, answer = [], [], None
    for it in turns:
        turn = need_dict(it, what)
        if "query" not in turn:
            raise InvalidDataset(what=what, problem="a turn has no `query`")
        inputs.append(str(turn["query"]))
        for use in need_list(turn.get("expected_tool_use"), what):
            fields = need_dict(use, what)
            calls.append((str(fields.get("tool_name") or ""), fields.get("tool_input")))
        answer = turn.get("reference")
        known = ("query", "expected_tool_use", "reference", "data", "name", "initial_session")
        draft.leave_fields_out(what, turn, known)
    if not inputs:
        raise InvalidDataset(what=what, problem="it has no turns")
    _finish(draft, str(case.get("name") or ""), number, inputs, calls, answer, made)


def _finish(  # noqa: PLR0913 - one parameter for each part of a case
    draft: ImportDraft,
    name: str,
    number: int,
    inputs: list[str],
    calls: list[tuple[str, Any]],
    answer: Any,
    made: dict[str, Any],
) -> None:
    scorers = ScorerList()
    if answer:
        scorers.add("token_f1", threshold=MATCH)
    expect = None
    if calls:
        expect = Expectation(
            tool_sequence=tuple(it for it, _ in calls),
            required_tool_calls=tuple(
                RequiredCall(name=it, args_subset=args) for it, args in calls if args
            ),
        )
    draft.add(
        name,
        number,
        user_input=inputs[0],
        continued_turns=tuple(CaseTurn(user_input=it) for it in inputs[1:]),
        expected=answer or None,
        expect=expect,
        scorers=tuple(scorers.specs),
        **made,
    )


def _read_text(draft: ImportDraft, content: Any, what: str) -> str | None:
    if content is None:
        return None
    texts = []
    for part in need_list(need_dict(content, what).get("parts"), what):
        fields = need_dict(part, what)
        if isinstance(fields.get("text"), str):
            texts.append(fields["text"])
        else:
            draft.leave_out(what, f"a part with {', '.join(sorted(fields)) or 'nothing'}")
    return "".join(texts)
