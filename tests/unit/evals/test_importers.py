"""Files of other tools: inputs and assertions are carried over, and the rest is listed."""

import json
from typing import Any

import pytest

from awaken.contracts.evals.cases import Case
from awaken.contracts.evals.errors import InvalidDataset
from awaken.contracts.evals.scores import ScorerSpec
from awaken.evals.case_checks import check_scorers
from awaken.evals.importers import ImportedCases, ImportFormat, import_cases


def read(source: str, data: Any) -> ImportedCases:
    packed = data if isinstance(data, bytes) else data.encode() if isinstance(data, str) else None
    made = import_cases(ImportFormat(source), packed or json.dumps(data).encode())
    for case in made.cases:
        # Whatever is imported can be stored.
        check_scorers(case.scorers, case.id)
    return made


def only(made: ImportedCases) -> Case:
    (case,) = made.cases
    return case


def spec(scorer: str, name: str = "", threshold: float = 0.5, **options: Any) -> ScorerSpec:
    return ScorerSpec(scorer=scorer, name=name, options=options, threshold=threshold)


def test_jsonl_rows_are_cases_and_other_columns_metadata() -> None:
    lines = [
        {"id": "one", "question": "2+2?", "answer": "4", "topic": "maths", "tags": ["easy"]},
        {"input": [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Hi"}]},
        {"id": "whole", "user_input": "x", "expect": {"final_answer_contains": ["y"]}},
    ]
    made = read("jsonl", "\n".join(map(json.dumps, lines)) + "\n\n")
    first, second, third = made.cases
    assert (first.id, first.user_input, first.expected) == ("one", "2+2?", "4")
    assert (first.metadata, first.tags) == ({"topic": "maths"}, ("easy",))
    assert first.scorers == (spec("contains"),)
    assert (second.id, second.history[0].text, second.input[0].text) == (
        "case-0002",
        "Be brief",
        "Hi",
    )
    assert third.expect is not None


def test_csv_has_a_head_and_one_case_per_row() -> None:
    made = read("csv", 'input,expected,tags,weight\r\n"a, ""b""",c,"x, y",2\r\nd,,,\r\n')
    first, second = made.cases
    assert (first.user_input, first.expected, first.tags, first.weight) == (
        'a, "b"',
        "c",
        ("x", "y"),
        2,
    )
    assert (second.user_input, second.expected, second.scorers) == ("d", None, ())


def test_rust_fixtures_come_one_by_one_or_as_a_dataset() -> None:
    fixture = {"id": "a", "user_input": "x", "expect": {}}
    for document in (
        fixture,
        [fixture],
        {"fixtures": [fixture]},
        {"spec": {"fixtures": [fixture]}},
    ):
        assert only(read("rust", document)).id == "a"
    with pytest.raises(InvalidDataset, match="given twice"):
        read("rust", [fixture, fixture])


def test_openai_samples_and_items_with_criteria() -> None:
    sample = {"input": [{"role": "user", "content": "Capital?"}], "ideal": ["Paris", "paris"]}
    case = only(read("openai", sample))
    assert case.scorers == (spec("contains", phrases=["Paris", "paris"], mode="any"),)
    whole = {
        "name": "Support",
        "metadata": {"team": "x"},
        "testing_criteria": [
            {"type": "string_check", "input": "{{ sample.output_text }}",
             "reference": "{{ item.label }}", "operation": "eq"},
            {"type": "string_check", "input": "{{sample.output_text}}", "reference": "no",
             "operation": "ilike"},
            {"type": "text_similarity", "input": "{{sample.output_text}}",
             "reference": "{{item.label}}", "evaluation_metric": "bleu", "pass_threshold": 0.7},
            {"type": "label_model", "model": "m"},
        ],
        "items": [{"item": {"input": "Text", "label": "spam"}, "sample": {"output_text": "ham"}}],
    }  # fmt: skip
    made = read("openai", whole)
    assert only(made).scorers == (
        spec("exact", value="spam"),
        spec("contains", phrases=["no"], ignore_case=True),
        spec("token_f1", value="spam", threshold=0.7),
    )
    assert only(made).metadata == {"label": "spam"}
    listed = "\n".join(made.left_out)
    for words in ("'metadata'", "bleu", "label_model", "'sample'"):
        assert words in listed


def test_adk_evalsets_with_turns_tools_and_state() -> None:
    def said(text: str) -> dict[str, Any]:
        return {"parts": [{"text": text}], "role": "user"}

    document = {
        "eval_set_id": "set",
        "eval_cases": [
            {
                "eval_id": "roll dice",
                "conversation": [
                    {
                        "user_content": said("Roll"),
                        "final_response": said("4"),
                        "intermediate_data": {
                            "tool_uses": [{"name": "roll", "args": {"sides": 6}}],
                            "intermediate_responses": [["x"]],
                        },
                    },
                    {"user_content": said("Again"), "final_response": said("5")},
                ],
                "session_input": {"app_name": "dice", "user_id": "u", "state": {"n": 1}},
                "rubrics": [{"id": "r"}],
            },
            {
                "eval_id": "talk",
                "conversation_scenario": {
                    "starting_prompt": "Hello",
                    "conversation_plan": "Get a refund",
                },
            },
        ],
    }
    made = read("adk", document)
    first, second = made.cases
    assert (first.id, first.user_input, first.expected) == ("roll-dice", "Roll", "5")
    assert [it.user_input for it in first.continued_turns] == ["Again"]
    assert first.state == {"n": 1}
    assert first.expect is not None
    assert first.expect.tool_sequence == ("roll",)
    assert first.expect.required_tool_calls[0].args_subset == {"sides": 6}
    assert first.scorers == (spec("token_f1", threshold=0.8),)
    assert second.user is not None
    assert (second.user.goal, second.user_input) == ("Get a refund", "Hello")
    listed = "\n".join(made.left_out)
    for words in ("rubrics", "intermediate_responses", "before the last"):
        assert words in listed
    old = [{"query": "Hi", "expected_tool_use": [{"tool_name": "t", "tool_input": {}}],
            "reference": "Hello"}]  # fmt: skip
    assert only(read("adk", old)).expect is not None


def test_pydantic_evals_with_shared_and_own_evaluators() -> None:
    made = read(
        "pydantic",
        """
name: capitals
cases:
- name: France
  inputs: What is the capital of France?
  expected_output: Paris
  metadata: {level: easy}
  evaluators:
  - EqualsExpected
  - Contains: {value: paris, case_sensitive: false}
  - MaxDuration: 1.5
- name: Object
  inputs: {a: 1}
  expected_output: {b: 2}
  evaluators: [EqualsExpected]
evaluators:
- IsInstance: str
- LLMJudge: {rubric: Is it polite?, model: other}
""",
    )
    first, second = made.cases
    assert first.scorers == (
        spec("judge", rubric="Is it polite?"),
        spec("exact", value="Paris", strip=False),
        spec("contains", phrases=["paris"], ignore_case=True),
        spec("max_ms", max=1500),
    )
    assert (second.user_input, second.scorers[1]) == (
        '{"a":1}',
        spec("json_subset", value={"b": 2}),
    )
    assert "case 'France': evaluator 'IsInstance'" in made.left_out
    assert any("the model 'other'" in it for it in made.left_out)


def test_promptfoo_tests_fill_the_prompt_and_keep_assertions() -> None:
    made = read(
        "promptfoo",
        """
description: Translations
prompts: ["Translate to {{ language }}: {{text}}", "file://other.txt"]
providers: [openai:gpt]
defaultTest: {assert: [{type: latency, threshold: 2000}]}
tests:
- description: French hello
  vars: {language: French, text: Hello}
  assert:
  - {type: icontains, value: bonjour}
  - {type: not-contains, value: "{{text}}"}
  - {type: contains-any, value: [a, b]}
  - {type: regex, value: "^B"}
  - {type: is-json, value: {type: object}}
  - {type: llm-rubric, value: Is it French?}
  - {type: javascript, value: "output.length > 1"}
  - {type: cost, threshold: 0.01}
  options: {transform: x}
""",
    )
    case = only(made)
    assert (case.id, case.user_input) == ("French-hello", "Translate to French: Hello")
    assert case.scorers == (
        spec("max_ms", max=2000),
        spec("contains", phrases=["bonjour"], ignore_case=True, mode="all"),
        spec("excludes", phrases=["Hello"], ignore_case=False),
        spec("contains", "contains.2", phrases=["a", "b"], ignore_case=False, mode="any"),
        spec("regex", pattern="^B", is_absent=False),
        spec("json_schema", schema={"type": "object"}, part="text"),
        spec("judge", rubric="Is it French?"),
        spec("max_cost_usd", max=0.01),
    )
    listed = "\n".join(made.left_out)
    for words in ("javascript", "other.txt", "'options'"):
        assert words in listed


@pytest.mark.parametrize("source", list(ImportFormat))
@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"\xff\xfe\x00", b"[1, 2]", b'{"cases": 5, "tests": 5}', b"null",
     b"[" * 9000, b"&a [*a]", b'{"id": ".."}', b"a,b\n1"],
)  # fmt: skip
def test_files_of_no_format_are_refused(source: ImportFormat, data: bytes) -> None:
    with pytest.raises(InvalidDataset):
        import_cases(source, data)


def test_a_file_of_100_megabytes_is_refused() -> None:
    with pytest.raises(InvalidDataset, match="more than"):
        import_cases(ImportFormat.CSV, bytes(100 * 1024 * 1024))
