# SPDX-License-Identifier: MIT
"""tidy_test - shows that each check of tools/tidy finds a fault where there is one: a small tree
without fault, and one change at a time that must be found. Run by tools/tidy --self-test."""
import os
import pathlib
import subprocess
import tempfile

import tidy_words  # of this folder

SPDX = "SPDX-License-Identifier: MIT"
ATOMIC_H = "src/base/atomic.h"
MAX_FUNCTION_LINES, MAX_LIBRARY_LINES, MAX_FILE_LINES = 60, 600, 800
LICENCE = f"/* {SPDX} */\n"
TABLE = "| layer | folder | files | may include |\n| --- | --- | --- | --- |\n"
DRAWN = ("```\n            your program           not a file\n ----\n"
         " L1 coro    gate  kcoro            opens and shuts\n"
         " L0 base    atomic -> low(.S)      not a file either\n"
         " ----\n            Linux\n```\n\n")
GOOD = {
    "ARCHITECTURE.md": DRAWN + TABLE + "| L0 | `src/base` | `atomic`, `low` (a sample) | nothing |"
                                       "\n| L1 | src/coro | gate, kcoro | base |\n\n"
                                       "## Glossary\n| word | meaning |\n| gate | a door |\n"
                                       "## End\n",
    ATOMIC_H: LICENCE + "#define kc_load_acquire(p) atomic_load_explicit((p), x)\n",
    "src/base/low.h": LICENCE + "int kc__low(void);\n",
    "src/coro/gate.c": LICENCE + "/*\n * gate.c - a gate.\n *\n"
                       " * ORDER    id      site   operation     pairs with  carries\n"
                       " *          gate.1  look   load_acquire  itself      nothing\n */\n"
                       '#include "base/low.h"\n'
                       "bool is_same(const int *p, int *q)\n"
                       "{\n    struct s a = { .b = *p };\n    a.b = p->n == *q && *p >= 1;\n"
                       "    for (int n = 0; n < 9; n++)\n        a.b += q[n];\n    return a.b;\n}\n"
                       "int look(int *p)\n{\n    return kc_load_acquire(p); /* gate.1 */\n}\n",
    "src/base/low.c": LICENCE + "int kc_look(void (*fn)(int), int n)\n{\n    return n;\n}\n",
    "src/coro/kcoro.c": LICENCE + "int kc_see(void)\n{\n    return kc_look(NULL, 1);\n}\n",
    "include/kcoro/kcoro.h": LICENCE + "/*\n * In src:\n * base/low.c.\n */\n"
                             "#define KC_API\n\n/* Context: anywhere. */\n"
                             "KC_API int kc_look(void (*fn)(int), int n);\n"
                             "KC_API int kc_see(void);\n",
    "test/unit/gate.c": LICENCE + "TEST(gate_opens)\n{\n}\n",
    "docs/rules.md": '- <a id="C1"></a>**C1** A gate opens.\n',
    "test/RULES.md": "| C1 | opens | `gate_opens` |\n",
    "docs/design/walks.md": "# Walks\n\n`look` and:\n\n## A look\n\n### Down\n\n"
                            "1. `look` in `src/coro/gate.c`: as\n   it `look`s.\n"
                            "2. `jump` in `src/coro/gate.S`: from `look` in `src/coro/gate.c`.\n"
                            "\n### Back\n\n1. `look` in `src/coro/gate.c`: ends.\n",
    "docs/design/tricks.md": "## Branch hints\n\n## Other\n`src/coro/gate.S`\n",
    "src/coro/gate.S": LICENCE + "jump:\n",
    "test/model/gate_model.c": LICENCE + "int gates; /* their circle, slowly */\n",
    "tools/run": f"#!/bin/sh\n# {SPDX}\n",
}
WALKS = "docs/design/walks.md"
GATE, LOW = "src/coro/gate.c", "src/base/low.h"
HEADER, TEST = "include/kcoro/kcoro.h", "test/unit/gate.c"
BAD = [  # file, what to put instead of what (None: at its end), what must be found
    ("ARCHITECTURE.md", "| layer", "| Schicht", "no table"),
    ("ARCHITECTURE.md", "`low`", "`low`, `gone`", "src/base has no file gone"),
    ("ARCHITECTURE.md", ", `low`", "", "src/base/low.h is not in the table"),
    ("ARCHITECTURE.md", "nothing", "`coro`", "base may not include coro"),
    ("ARCHITECTURE.md", "| base |", "| base, top |", "no row for top"),
    ("ARCHITECTURE.md", "-> low(.S)", "         ", "the picture does not name low of src/base"),
    ("ARCHITECTURE.md", "low(.S)", "low door", "5: door in the picture is no file of src/base"),
    ("ARCHITECTURE.md", " L1 coro ", " L1 cord ", "src/cord is only in the picture"),
    ("ARCHITECTURE.md", "a door |\n", "a door |\n| door | a gate |\n", "door is not in its place"),
    ("ARCHITECTURE.md", "a door |\n", "a door |\n" + "".join(f"| x{i} | x |\n" for i in range(30)),
     "more than 30 words"),
    (LOW, None, '#include "coro/gate.c"\n', "base may not include coro"),
    (GATE, '"base/low.h"', '"low.h"', "not the path of a file"),
    (HEADER, "base/low.c", "base/low.h", "kc_look is defined in src/base/low.c: say"),
    (HEADER, "base/low.c", "base/low.c,\n * coro/gate.c", "src/coro/gate.c defines no function of"),
    (HEADER, "kc_see", "kc_gone", "kc_gone is defined in no file of src"),
    ("src/base/kcoro.c", None, LICENCE, "is named as include/kcoro/kcoro.h, of which it"),
    (HEADER, None, '#include "base/low.h"\n', "a public header includes only"),
    ("src/top/top.c", None, LICENCE, "src/top is not in the module table"),
    (GATE, "    return kc", "\n" * MAX_FUNCTION_LINES + "    return kc", "look has 64 lines"),
    (GATE, None, "\n" * MAX_LIBRARY_LINES, "file of 620 lines, at most 600"),
    (TEST, None, "\n" * MAX_FILE_LINES, "file of 804 lines, at most 800"),
    ("src/coro/old.c", None, "\n" * 701, "file of 701 lines, at most 700"),
    ("src/coro/old.c", None, "\n" * 600, "is not large any more"),
    (GATE, None, "int kc__low(void)\n{\n    return 0;\n}\n",
     "21: kc__low is declared in src/base/low.h, not in src/coro/gate.h"),
    (GATE, None, "#include <unistd.h>\n", "<unistd.h>: only src/base/os.c calls the kernel"),
    ("src/coro/overflow.c", None, LICENCE + "#include <sys/mman.h>\n", "<sys/mman.h>: only src"),
    ("src/top/watch.h", None, LICENCE + "#ifndef KC_TOP_WATCH_H\n#if defined(A)\n",
     "watch.h:3: #if: only in"),
    (GATE, None, "#include <stdatomic.h>\n", "<stdatomic.h>: only"),
    (GATE, None, "_Atomic(int) a;\n", "_Atomic: only"),
    (GATE, None, "int b = __atomic_load_n(&a, 5);\n", "__atomic_load_n: only"),
    (GATE, " /* gate.1 */", "", "kc_load_acquire without the id"),
    (GATE, "/* gate.1 */", "/* gate.2 */", "gate.2 is not in the ORDER table"),
    (GATE, "/* gate.1 */", "/* gate.2 */", "gate.1 of the ORDER table is at no operation"),
    (GATE, " *          gate.1", " *          G1", "G1 is no id of an ORDER line here: gate.1 is"),
    (GATE, " *          gate.1", " *          job.1", "job.1 is no id of an ORDER line here"),
    ("src/base/gate.h", None, LICENCE + "/*\n * ORDER    x\n *          gate.1  x\n */\n",
     "gate.1 is in the ORDER table of src/base/gate.h, too"),
    (TEST, None, "/* as gate.3 */\n", "gate.3 is in no ORDER table"),
    (LOW, LICENCE, "", "this line must say"),
    ("tools/run", SPDX, "", "tools/run:2: this line must say"),
    (GATE, None, "/* " + "x" * 97 + " */\n", "103 columns"),
    (GATE, "    return", "\treturn", "tab"),
    (GATE, "{", "{ ", "white space"),
    (GATE, None, "/* TO" "DO: all of it */\n", "do it or say"),
    (GATE, "    return", "#ifdef A\n    return", "#ifdef inside a function"),
    (TEST, "{", "{\n    usleep(1);", "usleep: wait"),
    (GATE, "look(int", "look_heir(int", '"heir" is no word of this project: successor'),
    (GATE, None, "/* Their sight is\n * Stuck. */\n", 'gate.c:22: "Stuck" is no word'),
    (GATE, "look(int", "look_slowly(int", '"slowly" is no word of this project: slow'),
    ("test/model/gate_model.c", None, "int guest_1; /* slowly, stuck */\n",
     'gate_model.c:3: "guest" is no word of this project: foreign job'),
    (GATE, "int look(", "int is_open(", "is_open does not return bool"),
    (GATE, "int look(", "int kc__gate_has(", "kc__gate_has does not return bool"),
    *[(GATE, None, f"static int n;\nbool can_{i}(int *p)\n{{\n{write};\n}}\n",
       f"gate.c:24: can_{i} writes: ")
      for i, write in enumerate(("p->a = 1", "p->a.b[1] |= 1", "p->a++", "--p->a", "*p = 1",
                                 "n = 1", "n++", "kc_store_relaxed(p, 1)",
                                 "if (kc_cas_relaxed(p, &a, 1))", "a = kc__alloc(1)"))],
    (HEADER, "Context: anywhere.", "", "kc_look has no comment"),
    (HEADER, None, "\nKC_API void kc_new(void);\n", "kc_new has no comment"),
    ("test/RULES.md", "`gate_opens`", "`gate_shuts`", "no test is named gate_shuts"),
    ("test/RULES.md", "`gate_opens`", "by hand", "C1 has no test"),
    ("test/RULES.md", None, "| C2 | shuts | none: it is slow |\n", "C2 is not in docs/rules.md"),
    ("docs/rules.md", None, '- <a id="C2"></a>**C2** It shuts.\n', "C2 has no test"),
    (TEST, None, "/* Shows J4. */\n", "J4 is not in docs/rules.md"),
    ("README.md", None, "It shuts (C7), by -O2 in C11.\n", "README.md:1: C7 is not in docs"),
    (TEST, None, "/* Row S4-12. */\n", "S4-12"),
    (LOW, None, "/* As the matrix says. */\n", '"the matrix" is not in the tree'),
    ("CHANGES.md", None, "Beyond the contract: more.\n", '"Beyond the contract" is not in the'),
    (WALKS, "it `look`s", "it `peek`s", "9: peek is not defined in src/coro/gate.c"),
    (WALKS, "`jump` in", "`look` in", "11: look is not defined in src/coro/gate.S"),
    (WALKS, "from `look` in `src/coro/gate.c`", "from `look` in `src/gone.c`", "11: look is not"),
    (WALKS, "`look` and", "`look` in\n`src/base/low.h`", "3: look is not defined in src/base"),
    (WALKS, "`look` and", "`peek` and", "3: peek is not defined in src"),
    (WALKS, "1. `look` in", "1. It is `look` in", "a step begins with"),
    (WALKS, "2. `jump` in `src/coro/gate.S`", "2. `kc__low` in `src/base/low.h`",
     "11: a step begins"),
    (WALKS, "2. `jump` in `src/coro/gate.S`", "2. `kc_look` in `src/base/low.c`: a.\n3. `look` in "
     "`src/coro/gate.c`", "12: src/coro/gate.c is entered a second time in Down"),
    (WALKS, "### Back", "### Away", "a step is under ### Down or"),
    (WALKS, "### Back", "### Away", "5: a walk has ### Down and then ### Back"),
    (TEST, "gate_opens", "test_1", "test_1 is named by a number"),
    (TEST, None, "TEST(a_1)\n{\n}\nTEST(a_2)\n{\n}\n", "a_2 is named by a number"),
    *tidy_words.BAD,
]
SWITCH = "KC_INLINE int kc__wait_commit(int a)\n{\n    kc__coro_switch(a);\n}\n"
MOVED = "uses w after kc__coro_switch, which may change the thread"
BAD += [  # of what may switch
    (GATE, None, SWITCH + "int wait(int a)\n{\n    return kc__wait_commit(a);\n}\n",
     "gate.c:25: wait returns after a switch: it is not KC_AFTER_SWITCH"),
    (GATE, None, SWITCH + "KC_INLINE int w(int a)\n{\n    return kc__wait_commit(a);\n}\n"
     "int z(int a)\n{\n    return w(a);\n}\n", "gate.c:29: z returns after a switch"),
    *[(GATE, None, "int kc__coro_switch(int a)\n{\n}\nint f(int a)\n{\n"
       f"    kc_worker_t *w = x();\n{code}\n}}\n", found)
      for code, found in (("    kc__coro_switch(a);\n    g(w);", "gate.c:27: f " + MOVED),
                          ("    if (a) {\n        kc__coro_switch(a);\n    }\n    g(w);", MOVED),
                          ("    while (a) {\n        g(w);\n        kc__coro_switch(a);\n    }",
                           MOVED),
                          ("    int b = kc__coro_switch(a);\n    return w->b;", MOVED),
                          ("    kc__coro_switch(a);\n    w = x();\n    g(w);", ""),
                          ("    if (a) {\n        kc__coro_switch(a);\n        return 0;\n    }\n"
                           "    g(w);", ""),
                          ("    if (a)\n        kc__coro_switch(a);\n    else\n        g(w);", ""),
                          ("    if (a)\n        return kc__coro_switch(a);\n    g(w);", ""))],
]
BAD += [
    (GATE, None, "bool b = kc_likely(1);\n", "Branch hints, does not say what this gives here"),
    ("docs/design/tricks.md", "## Other", "`src/coro/gate.c`", "Branch hints: there is none in"),
]
LIBRARIES = [  # what a library defines, what must be found
    ("int kc_look, kc_see;", ""),
    ("int kc_look;", "kc_see is not exported"),
    ("int kc_look, kc_see, kc_more;", "exports kc_more, which no"),
    ("int kc_look, kc_see, helper;", "exports helper, which does not begin"),
]


def found_in(tidy, files, defines=None):
    """The findings in a tree of these files, as one text."""
    with tempfile.TemporaryDirectory() as root:
        library = os.path.join(root, "build", "libsample.so")
        for path, text in files.items():
            file = pathlib.Path(root, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        if defines is not None:
            os.mkdir(os.path.dirname(library))
            subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-", "-o", library], input=defines,
                           text=True, check=True)
        found = tidy.findings(tidy.Tree(root), library if defines is not None else None)
        return "".join(f"{path}:{line}: {message}\n" for path, line, message in found)


def self_test(tidy):
    """How many faults are not found."""
    failed = 0
    tidy.LARGE["src/coro/old.c"] = 700

    def expect(what, found, expected):
        nonlocal failed
        if (expected not in found) if expected else found:
            failed += 1
            print(f"{what}: expected {expected or 'no finding'!r}, found:\n{found}")

    expect("the good tree", found_in(tidy, GOOD), "")
    for path, old, new, expected in BAD:
        text = GOOD.get(path, "")
        changed = text + new if old is None else text.replace(old, new, 1)
        assert changed != text, (path, old)
        expect(f"{path} with {new[-60:]!r}", found_in(tidy, {**GOOD, path: changed}), expected)
    for defines, expected in LIBRARIES:
        expect(defines, found_in(tidy, GOOD, defines), expected)
    total = 1 + len(BAD) + len(LIBRARIES)
    print(f"{total - failed} passed, {failed} failed")
    return failed
