"""Counts the words of its arguments."""

import sys

print(sum(len(text.split()) for text in sys.argv[1:]))
