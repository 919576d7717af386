"""Write the golden file of words again: `make words`."""

from __future__ import annotations

from tests.words.messages import GOLDEN, messages

if __name__ == "__main__":
    GOLDEN.write_text(messages())
