"""Kneser-Ney n-gram models of characters: the yardstick for a network that predicts text."""

import math
from collections import Counter, defaultdict


class NGram:
    """Interpolated, modified Kneser-Ney smoothing (Chen and Goodman, "An Empirical Study of Smoothing Techniques for Language
    Modeling", 1999), down to the uniform distribution over `vocabulary` characters.

    p(c | h) = max(N(hc) - D, 0) / N(h) + backoff(h) p(c | h without its first character), where N counts at the highest order
    how often, below it how many different characters stand in front, and D depends on whether that is 1, 2 or more.
    """

    def __init__(self, text: str, order: int, vocabulary: int) -> None:
        self.order, self.vocabulary = order, vocabulary
        counts = Counter(text[place : place + order] for place in range(len(text) - order + 1))
        self._levels = [_Level(counts)]
        for _ in range(order - 1):
            counts = Counter(gram[1:] for gram in counts)
            self._levels.insert(0, _Level(counts))

    def probability(self, history: str, character: str) -> float:
        """Return p(character | history); only the last order - 1 characters of the history count."""
        found = 1 / self.vocabulary
        for length, level in enumerate(self._levels):
            context = history[len(history) - length :]
            if length > len(history) or context not in level.totals:
                break
            found = level.share(context, character) + level.backoff(context) * found
        return found

    def bits(self, text: str, before: str = "") -> float:
        """Return the bits per character of a text that follows another."""
        whole = before[len(before) - self.order :] + text
        start = len(whole) - len(text)
        histories = (whole[max(0, place - self.order + 1) : place] for place in range(start, len(whole)))
        return -sum(math.log2(self.probability(h, c)) for h, c in zip(histories, text, strict=True)) / len(text)


class _Level:
    """The counts of one order and their discounts."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        once, twice, thrice, four = (max(1, sum(n == times for n in counts.values())) for times in (1, 2, 3, 4))
        y = once / (once + 2 * twice)
        estimates = (1 - 2 * y * twice / once, 2 - 3 * y * thrice / twice, 3 - 4 * y * four / thrice)
        # small texts may give estimates that are no discounts
        self._discounts = [0.0, *(min(max(estimate, 0.1), times - 0.1) for times, estimate in enumerate(estimates, start=1))]
        self.totals: defaultdict[str, int] = defaultdict(int)
        self._taken: defaultdict[str, float] = defaultdict(float)
        for gram, count in counts.items():
            self.totals[gram[:-1]] += count
            self._taken[gram[:-1]] += self._discounts[min(count, 3)]

    def share(self, context: str, character: str) -> float:
        """Return max(N(hc) - D, 0) / N(h)."""
        count = self._counts.get(context + character, 0)
        return (count - self._discounts[min(count, 3)]) / self.totals[context]

    def backoff(self, context: str) -> float:
        """Return what the discounts leave for lower orders."""
        return self._taken[context] / self.totals[context]
