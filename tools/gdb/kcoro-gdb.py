# SPDX-License-Identifier: MIT
"""
kcoro-gdb.py - kcoro's coroutines in gdb, in a live process and in a core file.

    (gdb) source kcoro-gdb.py
    (gdb) kcoro list            every coroutine: number, state, function, name, what it waits for
    (gdb) kcoro bt 42           the backtrace of coroutine 42
    (gdb) kcoro bt all          of all that are not running
    (gdb) kcoro use 42          make bt, up, frame N, info locals show coroutine 42; frame 0 stays
                                the thread's
    (gdb) kcoro use             back to the thread

The body of a job has the number of its job: as in dumps, traces and reports (kc_job_id).

How: control blocks lie in chunks that hang in one list (src/base/block.c), and a block in use
carries a magic number. A coroutine that does not run has a struct kc_frame at its saved stack
pointer. An unwinder of our own hands gdb those registers as the caller of the innermost frame; no
register is written, so that it works on a core file as well. The library's debug information must
be there.

Core files: the kernel's are complete. gdb's own generate-core-file (gcore) leaves out stacks that
lie next to guard markers, because reading a marker fails and it skips a megabyte around it.
"""

import gdb
from gdb.unwinder import Unwinder

MAGIC = 0xC020C070
BLOCK_SIZE = 128
CHUNK_SIZE = 1024 * 1024
HEADER_SIZE = 4096
PAGE_SIZE = 4096
NUMBERS_SIZE = 256  # at the beginning of each page: the numbers of its blocks
STATES = ["created", "ready", "running", "suspended", "parked", "finished", "suspended"]
CREATED, READY, RUNNING, SUSPENDED, PARKED, FINISHED, CALLING = range(7)

# Registers that have another name in gdb than in struct kc_frame; all others have the same name.
RENAMED = {
    "i386:x86-64": {"pc": "rip"},
    "aarch64": {"fp": "x29", "pc": "pc"},
    "riscv:rv64": {"s0": "fp", "pc": "pc"},
}
STACK_POINTER = {"i386:x86-64": "rsp", "aarch64": "sp", "riscv:rv64": "sp"}
TASK = 4  # KC_CORO_TASK
TASK_MAGIC = 0x7A5CC070
# Of the word of a lock: which bits are not its owner, and which must be set.
OWNERS = {"KC_WAIT_MUTEX": (3, 0), "KC_WAIT_READ": (15, 4), "KC_WAIT_WRITE": (15, 4),
          "KC_WAIT_ONCE": (15, 4)}
NOT_REGISTERS = {"fp_control", "result"}


def number(value):
    """An _Atomic or plain integer or pointer as a Python number."""
    return int(value.cast(gdb.lookup_type("unsigned long")))


def at(address, type_name):
    """What lies there, as a value of that type."""
    return gdb.Value(address).cast(gdb.lookup_type(type_name).pointer()).dereference()


def block_number(address):
    """The number of the job whose block this is: it stands at the beginning of its page."""
    page = address & ~(PAGE_SIZE - 1)
    return number(at(page + (address - page) // BLOCK_SIZE * 8, "unsigned long"))


def quoted(name):
    return ' "%s"' % name if name else ""


def owner_name(address):
    """Who owns a lock: a body, a coroutine, or else a thread."""
    for co in coroutines():
        if co.address == address:
            return co.who() + quoted(co.name)
    return "a plain thread"


def job_name(address):
    job = at(address, "struct kc_job")
    if number(job["task"]["block"]["magic"]) != TASK_MAGIC:
        return "a job that has ended"
    ext = number(job["ext"])
    name = at(ext, "struct kc_job_ext")["name"].string(errors="replace") if ext else ""
    return "job %d%s" % (block_number(address), quoted(name))


def wait_text(kind, address):
    """What a wait of that kind is for, as a dump says it."""
    words = gdb.lookup_static_symbol("kc__wait_kinds").value()
    text = words[int(kind)]["name"].string()
    kind = str(kind)
    if kind == "KC_WAIT_JOIN":
        return "%s of %s" % (text, job_name(address))
    if address == 0 or kind in ("KC_WAIT_CHILDREN", "KC_WAIT_SELECT"):
        return text
    if kind in ("KC_WAIT_SEND", "KC_WAIT_RECV"):
        more = at(address, "struct kc_chan")["more"]
        if number(more) != 0:
            text += quoted(more.dereference()["name"].string(errors="replace"))
    if kind in ("KC_WAIT_MUTEX", "KC_WAIT_READ", "KC_WAIT_WRITE"):
        name = at(address, "kc_mutex_t")["name"]
        text += quoted(name.string(errors="replace")) if number(name) else ""
    text += " at 0x%x" % address
    if kind in OWNERS:
        others, needed = OWNERS[kind]
        word = number(at(address, "unsigned long"))
        owner = word & ~others if word & needed == needed else 0
        text += ", owned by %s" % owner_name(owner) if owner else ""
    return text


class Coroutine:
    def __init__(self, address):
        self.address = address
        pointer = gdb.lookup_type("struct kcoro").pointer()
        self.value = gdb.Value(address).cast(pointer).dereference()
        self.id = number(self.value["id"])
        self.state = number(self.value["state"])
        self.name = self.value["name"].string(errors="replace")
        self.sp = number(self.value["sp"])
        self.is_root = number(self.value["stack"]) == 0

    def at_rest(self):
        """True if it has frames and does not run."""
        waits = self.state in (READY, SUSPENDED, PARKED, CALLING)
        return waits and self.sp != 0 and not (self.state == READY and self.is_root)

    def frame(self):
        return gdb.Value(self.sp).cast(gdb.lookup_type("struct kc_frame").pointer()).dereference()

    def is_body(self):
        return not self.is_root and number(self.value["block"]["flags"]) & TASK != 0

    def who(self):
        return "%s %d" % ("job" if self.is_body() else "coroutine", self.id)

    def waits_for(self):
        """What the body of a job waits for; "": nothing."""
        if not self.is_body() or self.state == RUNNING:
            return ""
        task = self.value["task"].dereference()
        if number(task["kind"]) == 0 or number(task["wait"]) == 0:
            return ""
        wait = task["wait"].dereference()
        return "waits for " + wait_text(wait["kind"], number(wait["object"]))

    def describe(self):
        if self.is_root:
            return "a thread's own stack"
        if self.is_body():
            return "the body of a job"
        return str(self.value["fn"]).split()[-1].strip("<>")


def coroutines():
    """All coroutines, by number; threads' own stacks come first, with 0 if they have none."""
    found = []
    memory = gdb.selected_inferior()
    chunk = gdb.lookup_static_symbol("kc__block_chunks")
    if chunk is None:
        raise gdb.GdbError("kcoro: no kc__block_chunks here: is libkcoro loaded, with symbols?")
    chunk = chunk.value()
    while number(chunk) != 0:
        base = number(chunk)
        data = bytes(memory.read_memory(base, CHUNK_SIZE))
        for at in range(HEADER_SIZE, CHUNK_SIZE, BLOCK_SIZE):
            if at % PAGE_SIZE < NUMBERS_SIZE:
                continue
            if int.from_bytes(data[at:at + 4], "little") == MAGIC:
                found.append(Coroutine(base + at))
        chunk = chunk.dereference()["next"]
    return sorted(found, key=lambda co: co.id)


class FrameId:
    def __init__(self, sp, pc):
        self.sp = sp
        self.pc = pc


class CoroutineUnwinder(Unwinder):
    """Makes the chosen coroutine's frame the caller of the innermost one."""

    def __init__(self):
        super().__init__("kcoro")
        self.chosen = None

    def choose(self, co):
        self.chosen = co
        gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if self.chosen is None or pending.level() != 0:
            return None
        arch = pending.architecture().name()
        if arch not in STACK_POINTER:
            return None
        sp_name = STACK_POINTER[arch]
        sp, pc = pending.read_register(sp_name), pending.read_register("pc")
        # gdb does not go on to a frame that lies below the one that it comes from: so the thread's
        # frame is said to lie below those of the coroutine, wherever its stack is.
        below = gdb.Value(self.chosen.sp - 16).cast(sp.type)
        info = pending.create_unwind_info(FrameId(below, pc))
        frame = self.chosen.frame()
        word = gdb.lookup_type("unsigned long")
        for field in frame.type.fields():
            if not field.name or field.name in NOT_REGISTERS:  # the control words have no name
                continue
            name = RENAMED[arch].get(field.name, field.name)
            value = frame[field.name].cast(word)
            if name == "pc" or name == "rip":
                value = value.cast(pc.type)
            elif name.startswith(("d", "fs")):
                continue  # values of locals in FP registers are not shown
            info.add_saved_register(name, value)
        after = gdb.Value(self.chosen.sp + frame.type.sizeof)
        info.add_saved_register(sp_name, after.cast(sp.type))
        return info


unwinder = CoroutineUnwinder()
gdb.unwinder.register_unwinder(None, unwinder, replace=True)


def frames_of(co):
    """The coroutine's frames, innermost first."""
    found = []
    before = unwinder.chosen
    unwinder.choose(co)
    try:
        frame = gdb.newest_frame().older()
        while frame is not None and frame.is_valid():
            name = frame.name() or "??"
            line = frame.find_sal()
            place = ""
            if line.symtab is not None:
                place = " at %s:%d" % (line.symtab.filename, line.line)
            found.append("0x%016x in %s ()%s" % (frame.pc(), name, place))
            frame = frame.older()
    finally:
        unwinder.choose(before)
    return found


def find(text):
    try:
        wanted = int(text)
    except ValueError:
        raise gdb.GdbError("kcoro: %r is not the number of a coroutine" % text)
    for co in coroutines():
        if co.id == wanted:
            return co
    raise gdb.GdbError("kcoro: there is no coroutine %d" % wanted)


def headline(co):
    what = co.waits_for() or co.describe()
    return "%s \"%s\" %s, %s" % (co.who(), co.name, STATES[co.state], what)


class Kcoro(gdb.Command):
    """kcoro's coroutines: kcoro list | kcoro bt NUMBER|all | kcoro use [NUMBER]"""

    def __init__(self):
        super().__init__("kcoro", gdb.COMMAND_STACK, prefix=True)


class KcoroList(gdb.Command):
    """List every coroutine: number, state, what it runs, name, and what it waits for."""

    def __init__(self):
        super().__init__("kcoro list", gdb.COMMAND_STACK)

    def invoke(self, arg, from_tty):
        print("%8s  %-9s  %-24s  %s" % ("number", "state", "function", "name"))
        for co in coroutines():
            print("%8d  %-9s  %-24s  %s" % (co.id, STATES[co.state], co.describe(), co.name))
            if co.waits_for():
                print("%20s %s" % ("", co.waits_for()))


class KcoroBacktrace(gdb.Command):
    """Show the backtrace of a coroutine that does not run: kcoro bt NUMBER, kcoro bt all."""

    def __init__(self):
        super().__init__("kcoro bt", gdb.COMMAND_STACK)

    def show(self, co):
        print(headline(co))
        if co.state == RUNNING:
            print("  it runs: see the backtraces of the threads")
        elif not co.at_rest():
            print("  it has no frames")
        else:
            for level, text in enumerate(frames_of(co)):
                print("  #%-2d %s" % (level, text))

    def invoke(self, arg, from_tty):
        if arg.strip() == "all":
            for co in coroutines():
                self.show(co)
        else:
            self.show(find(arg))


class KcoroUse(gdb.Command):
    """Make bt, up and frame show a coroutine: kcoro use NUMBER; without: the thread again."""

    def __init__(self):
        super().__init__("kcoro use", gdb.COMMAND_STACK)

    def invoke(self, arg, from_tty):
        if not arg.strip():
            unwinder.choose(None)
            return
        co = find(arg)
        if not co.at_rest():
            raise gdb.GdbError("kcoro: coroutine %d is %s: it has no frames to show"
                               % (co.id, STATES[co.state]))
        unwinder.choose(co)
        print(headline(co))


Kcoro()
KcoroList()
KcoroBacktrace()
KcoroUse()
