"""Instructions for models: how to show A2UI surfaces, and how to write the other formats."""

from collections.abc import Mapping
from importlib.resources import files
from string import Template

from .a2ui_language import Language, Properties, language_of
from .config import GenerativeUiConfig, OpenUiConfig

_FIRST_ORDER = """\
Begin a surface with surfaceUpdate and show it with beginRendering, whose `root` is the id of the
outermost component. Fill in what components refer to by path with dataModelUpdate."""
_LATER_ORDER = """\
Begin a surface with createSurface, then give its components with updateComponents; the outermost
one has the id "root". Fill in what components refer to by path with updateDataModel."""
_FIRST_WRAPPING = 'A component is {"id": "title", "component": {"Text": {"text": …}}}.'
_LATER_WRAPPING = 'A component is {"id": "title", "component": "Text", "text": …}.'


def a2ui_instructions(config: GenerativeUiConfig) -> str:
    """The A2UI instructions of an agent; always the same for the same config."""
    language = language_of(config.version)
    is_own = config.catalog_id in (None, language.catalog_id)
    own = _lines(language.components) if is_own else "those that your instructions name."
    calls = _lines(language.functions)
    text = _fill_template(
        "a2ui_rules.md",
        version=language.version,
        messages=_lines(language.messages),
        order=_FIRST_ORDER if language.is_nested else _LATER_ORDER,
        wrapping=_FIRST_WRAPPING if language.is_nested else _LATER_WRAPPING,
        catalog=config.catalog_id or language.catalog_id,
        components=own,
        functions=f"The functions that can be called are:\n\n{calls}\n\n" if calls else "",
        kinds=_kinds(language),
    )
    examples = f"## Examples\n\n{config.examples}" if config.examples else ""
    return "\n\n".join(filter(None, (text, examples, config.instructions)))


def json_render_rules(components: Mapping[str, str]) -> str:
    """The instructions for a JSON render spec with these components."""
    known = "".join(f"\n- {name}: {purpose}" for name, purpose in components.items())
    return _fill_template(
        "json_render_rules.md", components=f"\n\nThe components are:\n{known}" if known else ""
    )


def openui_rules(library: OpenUiConfig) -> str:
    """The instructions for OpenUI Lang with the components of a library."""
    names = list(library.components)
    root = library.root or (names[0] if names else "Card")
    other = next((it for it in names if it != root), "Text")
    known = "".join(f"\n- {it}({', '.join(library.components[it])})" for it in names)
    components = f"\n\nThe components are:\n{known}" if known else ""
    return _fill_template("openui_rules.md", root=root, other=other, components=components)


def _fill_template(name: str, **fields: str) -> str:
    text = files(__package__).joinpath(name).read_text("utf-8")
    return Template(text).substitute(fields).strip()


def _lines(table: Mapping[str, Properties]) -> str:
    return "\n".join(
        f"- {name}: {', '.join(f'{it} {kind}' for it, kind in properties.items())}"
        for name, properties in table.items()
    )


def _kinds(language: Language) -> str:
    tables = (language.messages, language.components, language.functions)
    used = {it for table in tables for properties in table.values() for it in properties.values()}
    words = sorted(it for it in used if "|" not in it and it != "components")
    return "\n".join(f"- {it}: {language.describe_kind(it)}" for it in words)
