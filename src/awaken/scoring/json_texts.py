"""JSON in answers of models."""

_FENCE = "```"


def strip_fence(text: str) -> str:
    """The text without the blanks and the Markdown fence around the whole of it."""
    text = text.strip()
    if not text.startswith(_FENCE) or not text.endswith(_FENCE):
        return text
    # No expression: on a text of blank lines it would take quadratic time.
    head, _, rest = text.partition("\n")
    if head.strip() not in (_FENCE, f"{_FENCE}json") or not rest:
        return text
    return rest.removesuffix(_FENCE).strip()
