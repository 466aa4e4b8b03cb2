"""What the team may read: an in-memory stand-in for a search engine."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """A page, as a search finds it."""

    address: str
    text: str


@dataclass(frozen=True)
class Library:
    """Finds pages by words."""

    pages: tuple[Page, ...]

    async def search(self, words: str) -> list[Page]:
        """The pages that have one of the words."""
        wanted = set(words.casefold().split())
        return [page for page in self.pages if wanted & set(page.text.casefold().split())]

    async def read(self, address: str) -> Page | None:
        """The page at an address."""
        return next((page for page in self.pages if page.address == address), None)


LIBRARY = Library(
    (
        Page("geo/rhine", "The rhine is 1233 km long, of which 865 km are in Germany."),
        Page("geo/elbe", "The elbe is 1094 km long and rises in Czechia."),
        Page("blog/elbe", "Everybody knows that the elbe river is the longest in Europe!"),
    )
)
