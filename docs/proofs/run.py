"""Searches the model of protocol 2 for states that break a query: none as the protocol is written, one with each planted flaw.

`python docs/proofs/run.py [world ...]`, or `make proofs` for all of it. Exit code 0 when every row is as expected, 1 when one
is not or the model is faulty, 3 without Maude.
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

MODEL = Path(__file__).with_name("protocol.maude")
LEAST_STATES = 15  # a search that ends before, and has found nothing, has not tried anything
NO_MAUDE = 3


class Row(NamedTuple):
    """One search: in the model with `flaw`, started as `world`, for a state in which `query` is broken."""

    query: str
    world: str
    flaw: str
    found: bool

    @property
    def condition(self) -> str:
        """Of the states that are looked for."""
        if self.query == "completes":
            return "complete(X:State)"
        return "broken(X:State) =/= nothing" if self.query == "all queries" else f"violates('{self.query}, X:State)"


WORLDS = ("one-each", "unix", "sockets", "led-in", "called", "insider", "peers", "two-each")
APART = ("sockets", "led-in")  # ends that must never agree
ROWS = (
    *(Row("completes", world, "as-written", world not in APART) for world in WORLDS),
    *(Row("all queries", world, "as-written", False) for world in WORLDS),
    Row("agreement", "one-each", "keyless", True),
    Row("secrecy", "one-each", "plain", True),
    Row("stream", "one-each", "plain", True),
    Row("no-downgrade", "one-each", "offers-outside", True),
    Row("stream", "one-each", "one-record-key", True),
    Row("nonces", "one-each", "one-record-key", True),
    Row("forward-secrecy", "one-each", "no-shares", True),
    Row("agreement", "one-each", "one-proof-key", True),
    Row("stream", "one-each", "unnumbered", True),
    Row("stream", "one-each", "bare-header", True),
    Row("agreement", "unix", "keyless", True),
    Row("agreement", "sockets", "unbound", True),
    Row("agreement", "sockets", "claims-private", True),
    Row("secrecy", "sockets", "claims-private", True),
    Row("agreement", "led-in", "claims-private", True),
    Row("agreement", "peers", "job-outside", True),
    Row("agreement", "two-each", "stale-server", True),
    Row("roles", "insider", "any-role", True),
)


class Search(NamedTuple):
    """What Maude says: the number of the first state that was looked for, if there is one, and how many it has seen."""

    state: int | None
    states: int


def maude(program: str, commands: str) -> str:
    """What Maude prints.

    Raises: SystemExit when it warns: it leaves out what it cannot parse, and a model with a hole proves nothing.
    """
    done = subprocess.run(
        [program, "-no-banner", "-no-wrap", "-batch", str(MODEL)], input=commands, capture_output=True, text=True, check=False
    )
    if done.stderr.strip() or done.returncode:
        sys.exit(f"Maude finds fault with the model:\n{done.stderr}")
    return done.stdout


def search(program: str, row: Row) -> tuple[Search, str]:
    """What is found, and the command that finds it."""
    command = f"search [1] start({row.world}, {row.flaw}) =>* X:State such that {row.condition} .\n"
    said = maude(program, command)
    states = re.search(r"^states: (\d+)", said, re.MULTILINE)
    if states is None:
        sys.exit(f"Maude has not finished the search:\n{said}")
    solution = re.search(r"^Solution 1 \(state (\d+)\)", said, re.MULTILINE)
    return Search(int(solution[1]) if solution else None, int(states[1])), command


def arguments(term: str) -> list[str]:
    """`a(b, c(d, e))` to `["b", "c(d, e)"]`."""
    parts, depth = [""], 0
    for character in term[term.index("(") + 1 : -1]:
        depth += (character in "([") - (character in ")]")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def terms(text: str) -> set[str]:
    """The sessions of a state, or the terms that the attacker knows, as they are written."""
    found, depth, begin = set(), 0, 0
    for place, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if not depth and (character in ";" or (character == ")" and text[place + 1 : place + 2] in " ")):
            found.add(text[begin : place + (character == ")")].strip(" ;"))
            begin = place + 1
    return {term for term in found | {text[begin:].strip(" ;")} if term}


def trace(program: str, command: str, state: int) -> list[str]:
    """The steps to a state, each with what its end has taken for the other's words, or the attacker has learned."""
    said = maude(program, f"{command}show path {state} .\n")
    path = said[said.index("\nstate 0, State: ") :]
    labels = re.findall(r"\[label ([A-Z-]+)\]", path)
    states = [text.strip("{}").split(" ! ")[1:] for text in re.findall(r"^state \d+, State: (.*)$", path, re.MULTILINE)]
    lines = []
    for label, (before, after) in zip(labels, itertools.pairwise(states), strict=True):
        what = "the long-term key is public"
        for session in terms(after[1]) - terms(before[1]):
            end, phase = arguments(session)[0], arguments(session)[-1]
            progress = arguments(phase)
            what = f"{end} {phase[: phase.index('(')]}"
            if label == "REPLY":
                what = f"{end} hears {progress[2]}\n{'':22}and says {progress[3]}"
            elif label.endswith("PROOF"):
                what = f"{end} believes {progress[3]}"
            elif label.endswith("READS"):
                what = f"{end} has read {progress[4]}"
        learned = sorted(term for term in terms(after[0]) - terms(before[0]) if term.startswith("data("))
        lines.append(f"  {label:14} {what}" + (f"; the attacker learns {', '.join(learned)}" if learned else ""))
    return lines


def main(worlds: list[str]) -> int:
    program = shutil.which("maude")
    if program is None:
        print("The proofs need Maude 3.2 or later: 'apt-get install maude', or maude.cs.illinois.edu.", file=sys.stderr)
        return NO_MAUDE
    if unknown := sorted(set(worlds) - set(WORLDS)):
        print(f"World must be one of {', '.join(WORLDS)}, got {', '.join(unknown)}.", file=sys.stderr)
        return 2
    line = "{:16} {:10} {:15} {:10} {:10} {:>8} {:>7}"
    print(line.format("query", "world", "model", "expected", "found", "states", "seconds"))
    traces, failed = [], 0
    for row in ROWS:
        if worlds and row.world not in worlds:
            continue
        begin = time.monotonic()
        result, command = search(program, row)
        found = result.state is not None
        right = found == row.found and (found or result.states >= LEAST_STATES)
        failed += not right
        good, bad = ("reached", "never") if row.query == "completes" else ("broken", "holds")
        words = [good if what else bad for what in (row.found, found)]
        seconds = f"{time.monotonic() - begin:.1f}"
        told = line.format(row.query, row.world, row.flaw, *words, result.states, seconds)
        print(told + ("" if right else "  <- not as expected"), flush=True)
        if result.state is not None and row.query != "completes":
            traces += ["", f"{row.query} in {row.world}, {row.flaw}:", *trace(program, command, result.state)]
    print("\n".join(traces))
    print(f"\n{failed} rows are not as expected." if failed else "\nAll rows are as expected.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
