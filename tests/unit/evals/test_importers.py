"""Files of other tools: inputs and assertions are carried over, and the rest is listed."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from awaken.contracts.evals.cases import Case
from awaken.contracts.evals.errors import InvalidDataset
from awaken.contracts.evals.scores import ScorerSpec
from awaken.evals.case_checks import DEPTH_MAX, NAMES_MAX, check_scorers
from awaken.evals.case_documents import read_case, write_case
from awaken.evals.dataset_writes import CASES_MAX
from awaken.evals.importers import ImportedCases, ImportFormat, import_cases
from awaken.evals.importers.drafts import TEXT_CHARS_MAX, TOTAL_BYTES_MAX


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
        spec("exact", value="spam", strip=False),
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
    with pytest.raises(InvalidDataset) as caught:
        import_cases(source, data)
    # It is the caller's file, whatever tools of its kind call theirs.
    assert not re.search(
        r"promptfooconfig|evalset\.json|fixtures\.json|dataset\.yaml", str(caught.value)
    )


def test_a_file_of_100_megabytes_is_refused() -> None:
    with pytest.raises(InvalidDataset, match="more than"):
        import_cases(ImportFormat.CSV, bytes(100 * 1024 * 1024))


def test_what_would_be_compared_otherwise_is_listed() -> None:
    """Each of these was carried over in silence, or lost, at some time."""
    check = {"type": "string_check", "input": "{{sample.output_text}}", "reference": "no"}
    openai = {"testing_criteria": [check | {"operation": "ne"}], "items": [{"input": "x"}]}
    promptfoo = {
        "providers": ["openai:gpt"],
        "prompts": ["Say {{word}} to {{who}}"],
        "defaultTest": {"threshold": 0.5},
        "tests": [
            {
                "vars": {"word": ["a", "b"]},
                "assert": [
                    {"type": "contains-any", "value": "hi, hello"},
                    {"type": "llm-rubric", "value": "kind", "threshold": 0.8, "provider": "p"},
                    {"type": "is-json", "value": "file://schema.json"},
                    {"type": "is-json", "value": "required: [a]"},
                    {"type": "equals", "value": "x", "metric": "m"},
                ],
            }
        ],
    }
    pydantic = {
        "cases": [
            {
                "inputs": "x",
                "expected_output": {"a": 1},
                "evaluators": [
                    "EqualsExpected",
                    {"Contains": "a", "MaxDuration": 2},
                    {"LLMJudge": {"rubric": "kind", "include_input": True}},
                ],
            }
        ]
    }
    rust = {"fixtures": [{"id": "a", "user_input": "x"}], "gate": {"require": []}, "scorers": [1]}
    wanted = {
        "openai": (openai, ["operation 'ne'"]),
        "promptfoo": (
            promptfoo,
            [
                "the configuration: field 'providers'",
                "defaultTest: field 'threshold'",
                "a test for each value of 'word'",
                "a variable of the prompt",
                "assertion 'llm-rubric': field 'provider'",
                "assertion 'is-json'",
                "assertion 'equals': field 'metric'",
            ],
        ),
        "pydantic": (
            pydantic,
            [
                "fields beyond the expected ones",
                "evaluator 'MaxDuration', in one entry with 'Contains'",
                "LLMJudge: field 'include_input'",
            ],
        ),
        "rust": (rust, ["field 'gate'", "field 'scorers'"]),
    }
    for source, (document, named) in wanted.items():
        made = import_cases(ImportFormat(source), json.dumps(document).encode())
        for part in named:
            assert any(part in it for it in made.left_out), (source, part, made.left_out)
        assert made == import_cases(ImportFormat(source), json.dumps(document).encode())
        if source == "promptfoo":
            (case,) = made.cases
            assert case.scorers[0].options["phrases"] == ["hi", "hello"]
            assert case.scorers[1].threshold == 0.8
            assert [it.scorer for it in case.scorers] == ["contains", "judge", "exact"]


def test_an_id_that_is_taken_is_listed_and_a_column_that_is_there_twice_refused() -> None:
    made = import_cases(ImportFormat.CSV, b"id,input\na,x\na,y\n")
    assert [it.id for it in made.cases] == ["a", "a-2"]
    assert made.left_out == ("case 2: its id 'a', which is taken: it is 'a-2'",)
    with pytest.raises(InvalidDataset, match="column 'answer' twice"):
        import_cases(ImportFormat.CSV, b"input,answer,answer\nx,y,z\n")


HOSTILE: tuple[Any, ...] = (None, 0, -1, 1e308, True, "", "x", [], [[]], {}, {"a": []}, [None])
EXAMPLES: dict[str, Any] = {
    "rust": {"fixtures": [{"id": "a", "user_input": "x", "expect": {"tool_sequence": ["t"]}}]},
    "jsonl": {"id": "a", "input": "x", "expected": "y", "tags": ["t"], "weight": 2, "split": "s"},
    "openai": {
        "name": "n",
        "testing_criteria": [
            {"type": "string_check", "input": "{{sample.output_text}}", "reference": "no",
             "operation": "eq"},
            {"type": "text_similarity", "input": "{{sample.output_text}}", "reference": "no",
             "evaluation_metric": "bleu", "pass_threshold": 0.7},
        ],
        "items": [{"item": {"input": [{"role": "user", "content": "Text"}], "ideal": "spam"}}],
    },
    "adk": {
        "eval_set_id": "s",
        "eval_cases": [
            {"eval_id": "a", "session_input": {"state": {"k": 1}}, "conversation": [
                {"user_content": {"parts": [{"text": "x"}]},
                 "final_response": {"parts": [{"text": "y"}]},
                 "intermediate_data": {"tool_uses": [{"name": "t", "args": {"a": 1}}]}}]},
            {"eval_id": "b", "conversation_scenario": {"starting_prompt": "p",
                                                       "conversation_plan": "g"}},
        ],
    },
    "pydantic": {
        "name": "n",
        "cases": [{"name": "a", "inputs": "x", "expected_output": "y", "metadata": {"k": 1},
                   "evaluators": ["EqualsExpected", {"Contains": {"value": "a"}},
                                  {"MaxDuration": 2.0}, {"LLMJudge": {"rubric": "r"}}]}],
    },
    "promptfoo": {
        "prompts": ["{{a}}"],
        "defaultTest": {"vars": {"b": "c"}, "assert": [{"type": "latency", "threshold": 5}]},
        "tests": [{"description": "d", "vars": {"a": "x"}, "metadata": {"k": 1},
                   "assert": [{"type": "contains-all", "value": ["a"]},
                              {"type": "llm-rubric", "value": "r", "threshold": 0.5},
                              {"type": "cost", "threshold": 0.1},
                              {"type": "regex", "value": "a"}]}],
    },
}  # fmt: skip


def list_changes(value: Any) -> Iterator[Any]:
    """Every document in which one value is another, or a field is missing."""
    yield from HOSTILE
    if isinstance(value, dict):
        for name in value:
            yield {key: it for key, it in value.items() if key != name}
            yield from ({**value, name: it} for it in list_changes(value[name]))
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from ([*value[:at], it, *value[at + 1 :]] for it in list_changes(part))


@pytest.mark.parametrize("source", EXAMPLES)
def test_a_hostile_file_is_read_whole_or_refused_by_a_typed_error(source: str) -> None:
    assert import_cases(ImportFormat(source), json.dumps(EXAMPLES[source]).encode()).cases
    tried = refused = 0
    for document in list_changes(EXAMPLES[source]):
        tried += 1
        try:
            made = import_cases(ImportFormat(source), json.dumps(document).encode())
        except InvalidDataset:
            refused += 1
            continue
        for case in made.cases:
            # What was read can be stored and read again.
            assert read_case(write_case(case), "case") == case
    assert 0 < refused < tried


@pytest.mark.parametrize("number", [".inf", "-.inf", ".nan"])
def test_a_number_that_is_none_is_refused(number: str) -> None:
    documents = {
        "promptfoo": f"tests: [{{assert: [{{type: latency, threshold: {number}}}]}}]",
        "pydantic": f"cases: [{{inputs: x, evaluators: [{{MaxDuration: {number}}}]}}]",
    }
    for source, text in documents.items():
        with pytest.raises(InvalidDataset):
            read(source, text)


@pytest.mark.parametrize(
    ("source", "row", "head"),
    [
        ("jsonl", b'{"input": "a"}\n', b""),
        ("csv", b"a\n", b"input\n"),
        ("openai", b'{"input": "a", "ideal": "b"}\n', b""),
    ],
)
def test_a_file_of_too_many_cases_is_refused_before_all_are_read(
    source: str, row: bytes, head: bytes
) -> None:
    assert len(import_cases(ImportFormat(source), head + row * CASES_MAX).cases) == CASES_MAX
    # The broken end is not reached.
    data = head + row * (CASES_MAX + 1) + b'{"' * 10
    with pytest.raises(InvalidDataset, match=f"the file: it has more than {CASES_MAX} cases"):
        import_cases(ImportFormat(source), data)


def test_a_list_of_too_many_cases_is_refused() -> None:
    fixtures = [{"id": f"c{no}", "user_input": "x"} for no in range(CASES_MAX + 1)]
    documents = {"rust": fixtures, "pydantic": {"cases": [{"inputs": "x"}] * (CASES_MAX + 1)}}
    for source, document in documents.items():
        with pytest.raises(InvalidDataset, match=f"more than {CASES_MAX} cases"):
            import_cases(ImportFormat(source), json.dumps(document).encode())


def test_what_a_file_says_once_does_not_become_more_than_is_kept() -> None:
    long = "x" * 1_000_000
    often = {"prompts": ["{{a}}" * 1_000], "tests": [{"vars": {"a": long}}]}
    shared = {
        "prompts": ["{{a}}"],
        "defaultTest": {"vars": {"b": long}},
        "tests": [{"vars": {"a": "x"}}] * 100,
    }
    criterion = {
        "type": "string_check",
        "operation": "eq",
        "input": "{{sample.output_text}}",
        "reference": "{{item.ideal}}" * 1_000,
    }
    items = {"items": [{"input": "a", "ideal": long}], "testing_criteria": [criterion]}
    for source, document, problem in (
        ("promptfoo", often, f"longer than {TEXT_CHARS_MAX} characters"),
        ("promptfoo", shared, f"more than {TOTAL_BYTES_MAX} bytes together"),
        ("openai", items, f"longer than {TEXT_CHARS_MAX} characters"),
    ):
        with pytest.raises(InvalidDataset, match=problem):
            import_cases(ImportFormat(source), json.dumps(document).encode())


def test_a_case_that_is_nested_too_deep_or_has_too_many_scorers_is_refused() -> None:
    def nest(depth: int) -> str:
        return '{"input": "a", "more": ' + "[" * depth + "]" * depth + "}"

    # The case and its metadata are two levels.
    assert read("jsonl", nest(DEPTH_MAX - 2)).cases
    for depth in (DEPTH_MAX - 1, 900):
        with pytest.raises(InvalidDataset, match=f"nested deeper than {DEPTH_MAX} levels"):
            read("jsonl", nest(depth))
    with pytest.raises(InvalidDataset):
        read("jsonl", nest(100_000))
    asserted = [{"type": "latency", "threshold": 5}]
    tests = [{"vars": {"a": "x"}, "assert": asserted * (NAMES_MAX + 1)}]
    with pytest.raises(InvalidDataset, match=f"at most {NAMES_MAX} scorers"):
        import_cases(ImportFormat.PROMPTFOO, json.dumps({"tests": tests}).encode())


def test_equal_names_are_numbered_each_once() -> None:
    rows = '{"input": "a", "id": "same"}\n{"input": "b", "id": "same-2"}\n' * 2
    ids = [it.id for it in read("jsonl", rows).cases]
    assert ids == ["same", "same-2", "same-3", "same-2-2"]


def test_items_of_openai_may_have_any_fields() -> None:
    item = {"item": {"ticket_text": "It is broken!", "correct_label": "Hardware", "id": "t1"}}
    made = read("openai", item)
    case = only(made)
    assert (case.id, case.user_input, case.expected) == ("t1", "It is broken!", "Hardware")
    assert case.scorers == (spec("exact", value="Hardware"),)
    assert "'ticket_text'" in "\n".join(made.left_out)
    criterion = {
        "type": "string_check", "input": "{{ sample.output_text }}", "operation": "eq",
        "reference": "{{ item.kind }}",
    }  # fmt: skip
    items = [{"item": {"ticket": "It is broken!", "kind": "Hardware"}}]
    whole = only(read("openai", {"testing_criteria": [criterion], "items": items}))
    assert whole.user_input == "It is broken!"
    assert whole.scorers == (spec("exact", value="Hardware", strip=False),)
    # Which of two texts is the input, nothing says.
    with pytest.raises(InvalidDataset, match="call its input `input`"):
        read("openai", {"item": {"title": "a", "body": "b", "correct_label": "c"}})


def test_what_promptfoo_has_in_other_files_is_listed_and_no_template_is_taken_literally() -> None:
    tests = [
        {"vars": {"q": "Hi"}, "assert": [
            {"type": "contains", "value": "hello {{name}}"},
            {"type": "contains", "value": "hello"},
        ]},
        {"vars": "file://vars.yaml", "assert": [{"type": "contains", "value": "a"}]},
        "file://more.yaml",
    ]  # fmt: skip
    whole = {"prompts": ["{{q}} {% if q %}there{% endif %}"], "tests": tests}
    made = read("promptfoo", whole | {"defaultTest": "file://default.yaml"})
    assert made.cases[0].scorers == (
        spec("contains", phrases=["hello"], mode="all", ignore_case=False),
    )
    assert len(made.cases) == 2
    listed = "\n".join(made.left_out)
    for words in (
        "test '1': assertion 'contains'",
        "test '1': a variable of the prompt",
        "'file://vars.yaml'",
        "test 3: the file 'file://more.yaml'",
        "'file://default.yaml'",
    ):
        assert words in listed, words
    with pytest.raises(InvalidDataset, match=r"they are in the file 'tests\.csv'; import that one"):
        read("promptfoo", {"prompts": ["{{q}}"], "tests": "tests.csv"})


def test_calls_in_the_events_of_an_adk_turn_are_expected() -> None:
    call = {"function_call": {"name": "roll", "args": {"sides": 6}}}
    events = [{"author": "agent", "content": {"parts": [{"text": "so"}, call]}}, {"author": "x"}]
    turn = {
        "user_content": {"parts": [{"text": "Roll."}]},
        "intermediate_data": {"invocation_events": events},
    }
    made = read("adk", {"eval_cases": [{"eval_id": "e", "conversation": [turn]}]})
    expect = only(made).expect
    assert expect is not None
    assert expect.tool_sequence == ("roll",)
    assert expect.required_tool_calls[0].args_subset == {"sides": 6}
    assert made.left_out == ()


def test_a_row_without_an_input_is_refused_with_the_columns_that_it_has() -> None:
    with pytest.raises(InvalidDataset, match="it has frage;antwort"):
        read("csv", "frage;antwort\nHallo;Welt\n")
