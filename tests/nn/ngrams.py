"""n-gram models of characters: the yardstick for a network that foresees text."""

import math
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Mapping


class NGram(ABC):
    """p(c | h) from how often the characters c followed the last order - 1 characters h, mixed with what lower orders say.

    The lowest order is mixed with the uniform distribution over `vocabulary` characters.
    """

    def __init__(self, text: str, order: int, vocabulary: int) -> None:
        self.order, self.vocabulary = order, vocabulary
        self._levels = [Level(counts, self.discounts(counts)) for counts in self.counts(text, order)]

    @abstractmethod
    def counts(self, text: str, order: int) -> list[Counter[str]]:
        """Return what is counted for grams of 1 to `order` characters."""

    @abstractmethod
    def discounts(self, counts: Mapping[str, int]) -> tuple[float, float, float] | None:
        """Return what is taken off counts of 1, of 2, and above, for lower orders; None for Witten and Bell's way."""

    def probability(self, history: str, character: str) -> float:
        """Return p(character | history)."""
        found = 1 / self.vocabulary
        for length, level in enumerate(self._levels):
            context = history[len(history) - length :]
            if length > len(history) or context not in level.totals:
                break
            found = level.mix(context, character, found)
        return found

    def bits(self, text: str, before: str = "") -> float:
        """Return the bits per character of a text that follows another."""
        whole = before + text
        places = range(len(before), len(whole))
        found = (self.probability(whole[max(0, place - self.order + 1) : place], whole[place]) for place in places)
        return -sum(map(math.log2, found)) / len(text)


class Level:
    """The counts of one order."""

    def __init__(self, counts: Mapping[str, int], discounts: tuple[float, float, float] | None) -> None:
        self._counts, self._discounts = counts, discounts
        self.totals: defaultdict[str, float] = defaultdict(float)
        self._freed: defaultdict[str, float] = defaultdict(float)
        for gram, count in counts.items():
            self.totals[gram[:-1]] += count if discounts else count + 1
            self._freed[gram[:-1]] += discounts[min(count, 3) - 1] if discounts else 1

    def mix(self, context: str, character: str, lower: float) -> float:
        """Return the probability after a context that was seen, given that of the lower order."""
        count = self._counts.get(context + character, 0)
        kept = count - self._discounts[min(count, 3) - 1] if count and self._discounts else count
        return (kept + self._freed[context] * lower) / self.totals[context]


class WittenBell(NGram):
    """(N(hc) + T(h) p(c | shorter h)) / (N(h) + T(h)) with T(h) the number of different characters after h (1991)."""

    def counts(self, text: str, order: int) -> list[Counter[str]]:
        return [Counter(text[place : place + n] for place in range(len(text) - n + 1)) for n in range(1, order + 1)]

    def discounts(self, counts: Mapping[str, int]) -> None:
        return None


class KneserNey(NGram):
    """Interpolated, modified Kneser-Ney smoothing (Chen and Goodman, "An Empirical Study of Smoothing Techniques for Language
    Modeling", 1999): below the highest order counts how many different characters stand in front of a gram.
    """

    def counts(self, text: str, order: int) -> list[Counter[str]]:
        found = [Counter(text[place : place + order] for place in range(len(text) - order + 1))]
        while len(found) < order:
            found.insert(0, Counter(gram[1:] for gram in found[0]))
        return found

    def discounts(self, counts: Mapping[str, int]) -> tuple[float, float, float]:
        times = Counter(counts.values())
        once, twice, thrice, four = (max(1, times[number]) for number in (1, 2, 3, 4))
        y = once / (once + 2 * twice)
        estimates = (1 - 2 * y * twice / once, 2 - 3 * y * thrice / twice, 3 - 4 * y * four / thrice)
        # small texts may give estimates that are no discounts
        first, second, third = (min(max(each, 0.1), number - 0.1) for number, each in enumerate(estimates, start=1))
        return first, second, third
