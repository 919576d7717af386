"""Record the words of messages, and lower the numbers of faults in prose: `make words`."""

from __future__ import annotations

from tests.words.messages import GOLDEN, messages
from tests.words.prose import COUNTS, counts, recorded

if __name__ == "__main__":
    GOLDEN.write_text(messages())
    allowed = recorded()
    lower = {name: min(count, allowed.get(name, 0)) for name, count in counts().items()}
    COUNTS.write_text("".join(f"{name} {count}\n" for name, count in lower.items() if count))
