# SPDX-License-Identifier: MIT
"""tidy_words - what tools/tidy checks of words: prose, names of tests, names in comments.

CHECKS are checks as those of tools/tidy, BAD are changes of its sample tree that they must find.
"""
import os
import re

MAX_TEST_NAME = 90
COMMENT = r"//[^\n]*|/\*.*?\*/"
VAGUE = (r"\bgo(?:es)?\s+on\b(?!\s+with)|\bwent\s+on\b|\bso\s+many\b|\bas\s+there[.;,]"
         r"|\b[Tt]he\s+(?:second|third|fourth)\s+one\b"
         r"|(?:[.;:]\s+Who|^[\s*]*Who)\s+\w+s\b|\b(?:first|one)\s+who\b"
         r"|\b(?:all|those|two|several|many|some|any|no)(?:body)?\s+who\b|[,;]\s+who\s+\w+s\b"
         r"|\bthe\s+same[.;,]|\b(?:stands?|waits?|first)\s+in\s+line\b")
LEANING = (r"(?:so|nor|and|it|its|that|this|the_same|of_null)_.*|(?:.*_)?who(?:_.*)?"
           r"|.*_too|(?:.*_)?(?:so_many|goes_on|go_on)(?:_.*)?")
NAME = r"(?<![\w*])(?:kc_|kcoro_|KC_|KCORO_)\w*[A-Za-z0-9](?![\w*])"  # KC_JOB_* is a pattern
FILE = r"(?<![\w*<./-])[\w-]+(?:/[\w-]+)*\.(?:[chS]|cc|py|cmake|md)\b"
PLACE = r"\b(\w+_\w+)(?:\(\))?\s+(?:\*\s+)?in (?:\w+/)?(\w+\.[ch])\b"


def spaces(m):
    return re.sub(r"[^\n]", " ", m.group())


def prose(source):
    """The comments of a file of C, at their places; the whole of another one."""
    if not source.is_c:
        return source.text
    code = re.sub(COMMENT, spaces, source.text, flags=re.S)
    return "".join(t if c.isspace() else " " for t, c in zip(source.text, code))


def check_english(tree):
    """Public headers, documents and examples say what they mean: no phrase whose subject has to be
    guessed. A contract may compare itself with another, but names that and says in what."""
    for s in tree.sources:
        if s.path == "docs/design/walks.md":
            continue  # it follows the code line by line, in the words of its comments
        if s.under("include/kcoro", "docs", "examples") or s.path in ("README.md", "CHANGES.md"):
            text = re.sub(r"(?<=\s)[/ ]?\*+(?=\s)", spaces, s.text)
            for line, m in s.find(VAGUE, text):
                yield s.path, line, f'"{" ".join(m.group().split())}": name what is meant'
            for line, m in s.find(r"/\*[\s*]*The same\b(?! \w+ as)", s.text):
                line += m.group().count("\n")
                yield s.path, line, 'a contract that begins with "The same": say it in full'


def check_test_subjects(tree):
    """The name of a test has a subject and a verb of its own: it does not lean on the test before
    it. It is short enough for a line."""
    for s in tree.c("test"):
        for line, m in s.find(r"^(?:TEST\w*|IN_A_JOB|IN_VIRTUAL_TIME|OUTSIDE)\((\w+)", s.code):
            name = m.group(1)
            if re.fullmatch(LEANING, name):
                yield s.path, line, f"{name}: say what does it, without the test before"
            if len(name) > MAX_TEST_NAME:
                yield s.path, line, f"{name} has more than {MAX_TEST_NAME} letters"


def check_mentions(tree):
    """What comments and documents name is in the tree: a function, type or constant of ours in its
    code, a file, and "some_function in file.c" in that file."""
    words, places = {}, {}
    for s in tree.sources:
        places.setdefault(os.path.basename(s.path), []).append(s.path)
        code = re.sub(COMMENT, spaces, s.text, flags=re.S) if s.is_c else s.text
        words[s.path] = set() if s.path.endswith(".md") else set(re.findall(r"\w+", code))
    known = set().union(*words.values())
    folders = {part for path in words for part in path.split("/")[:-1]}
    for s in tree.sources:
        if not (s.is_c or s.is_asm or s.path.endswith(".md")):
            continue
        text = prose(s)
        for line, m in s.find(NAME, text):
            if m.group() not in known and "_noun_" not in m.group():
                yield s.path, line, f"{m.group()} is named here and is nowhere in the code"
        for line, m in s.find(FILE, text):
            path, named = m.group(), places.get(os.path.basename(m.group()), [])
            ours = "/" not in path or path.split("/")[0] in folders
            if ours and not any(("/" + p).endswith("/" + path) for p in named):
                yield s.path, line, f"{path} is named here and is no file of the tree"
        for line, m in s.find(PLACE, text):
            if not any(m.group(1) in words[p] for p in places.get(m.group(2), [])):
                yield s.path, line, f"{m.group(1)} is not in {m.group(2)}"


CHECKS = [check_english, check_test_subjects, check_mentions]

# ---- the self-test: file, what to put instead of what (None: at its end), what must be found -----

GATE, TEST, GUIDE = "src/coro/gate.c", "test/unit/gate.c", "docs/guide/gate.md"
HEADER = "include/kcoro/kcoro.h"
MENTIONS = [
    ("as kc__" "gone does", "is named here and is nowhere in the code"),
    ("see KC_" "GONE", "is named here and is nowhere in the code"),
    ("see gone.c", "gone.c is named here and is no file"),
    ("see src/coro/low.h", "src/coro/low.h is named here and is no file"),
    ("see look_up in gate.c", "look_up is not in gate.c"),
]
BAD = [
    (HEADER, "anywhere.", "anywhere.  Returns: 0: it goes\n * on. */", '"goes on": name what is'),
    (HEADER, "anywhere.", "anywhere.  Returns: so many.", '"so many": name what is meant'),
    (HEADER, "anywhere.", "anywhere.  Returns: 0; the second one 1.", '"the second one": name'),
    (HEADER, "anywhere.", "as there.", '"as there.": name what is meant'),
    (HEADER, "anywhere.", "anywhere. Who waits stands in a queue.", "Who waits\": name what is"),
    (HEADER, "Context:", "The same without waiting. Context:", 'begins with "The same"'),
    (HEADER, "Context:", "\n * The same, later.\n * Context:", 'kcoro.h:9: a contract that begins'),
    ("README.md", None, "# A\n\nThe caller goes on.\n", 'README.md:3: "goes on"'),
    (GUIDE, None, "It lets all who wait pass.\n", '"all who": name what is meant'),
    (GUIDE, None, "A gate stands\nin line.\n", '"stands in line": name what is'),
    ("CHANGES.md", None, "- Doors do the same.\n", '"the same.": name what is meant'),
    *[(TEST, None, f"TEST({name})\n{{\n}}\n", f"{name}: say what does it")
      for name in ("so_does_a_gate", "who_opens_it_waits", "one_of_two_who_wait_opens_it",
                   "a_gate_shuts_too", "the_same_on_a_thread", "a_gate_goes_on_later")],
    (TEST, None, "TEST(" + "a" * 91 + ")\n{\n}\n", "has more than 90 letters"),
    *[(GATE, None, f"/* {says}. */\n", expected) for says, expected in MENTIONS],
    *[(GUIDE, None, f"{says}.\n", expected) for says, expected in MENTIONS],
]
