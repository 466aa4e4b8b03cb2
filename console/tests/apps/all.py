"""The apps of these tests in one server: to start one costs as much as a test."""

from context import greeter, open_minded
from hostile import hostile
from inbox import chooser, cleaner, hider, hotel, lengthy, mailer, payer, spacer

from durable import many, refund, reporter, steady

__all__ = [
    "chooser",
    "cleaner",
    "greeter",
    "hider",
    "hostile",
    "hotel",
    "lengthy",
    "mailer",
    "many",
    "open_minded",
    "payer",
    "refund",
    "reporter",
    "spacer",
    "steady",
]
