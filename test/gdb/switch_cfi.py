# SPDX-License-Identifier: MIT
#
# switch_cfi.py - walks through the context switch and unwinds at every instruction.
#
#     gdb -batch -x test/gdb/switch_cfi.py <switch_cfi_target>
#
# or, for another architecture, with the target waiting in an emulator (qemu-<arch> -g <socket>):
#
#     gdb-multiarch -batch -ex "target remote <socket>" -x test/gdb/switch_cfi.py <the target>
#
# AArch64 wants an emulated processor without SVE (-cpu cortex-a57), see check_registers.
#
# At each instruction of the functions in switch_<arch>.S, and in the function that two of them
# call, with trash in the memory that a unix signal could overwrite there:
#  - the backtrace has the frames that it must have, and ends in main or, without a complaint, in
#    kc__switch_start;
#  - every callee-saved register, seen from the caller, holds the pattern of the side that the
#    backtrace shows. A register whose place the unwind information has wrong shows something else.
# And at the end, every instruction has been seen; of kc__switch_start, all from the one where a
# stack begins to the call of the entry, which does not come back.
# Exit code: 0 if all that holds, 1 if not, 77 if gdb may not trace a process here.

import os
import struct

import gdb

FUNCTIONS = ("kc__switch", "kc__switch_then", "kc__switch_last", "kc__switch_start",
             "kc__switch_fp_control")
STEPS_MAX = 20000  # a target that runs wild must not keep us forever

# In the order of switch_probe.h, which is the order of the patterns.
REGISTERS = {
    "i386:x86-64": ["r15", "r14", "r13", "r12", "rbx", "rbp"],
    "aarch64": ["x%d" % i for i in range(19, 30)] + ["v%d" % i for i in range(8, 16)],
    "riscv:rv64": ["s%d" % i if i else "fp" for i in range(12)] + ["fs%d" % i for i in range(12)],
}

# How much below the stack pointer is out of bounds for unix signals too.
RED_ZONE = {"i386:x86-64": 128, "aarch64": 0, "riscv:rv64": 0}

# What the callers of the switch are, from the inside out.
SIDES = {
    "main": ["switch_probe", "leave", "main_side", "main"],
    "coroutine": ["switch_probe", "leave", "coroutine_side", "kc__switch_start"],
    "fresh": ["kc__switch_start"],  # the coroutine before its first instruction: no patterns yet
    "last": ["coroutine_side", "kc__switch_start"],  # it leaves for good: none any more
}


class Wrong(Exception):
    pass


STDOUT = os.dup(1)


def silence():
    """gdb tells of every step on its way. What we have to say goes around it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def say(text):
    os.write(STDOUT, (text + "\n").encode())


def address_of(symbol):
    return int(gdb.parse_and_eval("(unsigned long)&" + symbol))


def name_of(name):
    """gdb takes two underscores for Ada's dot where it has no debug information."""
    return name and name.replace("kc.", "kc__")


def function_at(pc):
    """The function of ours that pc is in, or None. gdb says "kc__switch + 8 in section .text"."""
    name = name_of(gdb.execute("info symbol %#x" % pc, to_string=True).split()[0])
    return name if name in FUNCTIONS else None


def instructions_of(function, arch):
    """Address and text of each instruction, the padding behind the function left out."""
    found = []
    pc = address_of(function)
    while function_at(pc) == function:
        (one,) = arch.disassemble(pc)
        found.append((pc, one["asm"]))
        pc += one["length"]
    return found


def bits_of(value):
    """The 64 bits of a register, whatever gdb thinks that is in it."""
    if value.type.code == gdb.TYPE_CODE_UNION:
        if "d" in [f.name for f in value.type.fields()]:  # AArch64's v: d is its lower half
            return int(value["d"]["u"][0])
        return struct.unpack("<Q", struct.pack("<d", float(value["double"])))[0]
    return int(value) & 0xFFFFFFFFFFFFFFFF


def trash_below_stack(arch):
    sp = int(gdb.newest_frame().read_register("sp")) & 0xFFFFFFFFFFFFFFFF
    size = 256
    below = sp - RED_ZONE[arch.name()] - size
    gdb.selected_inferior().write_memory(below, b"\xa5" * size)
    gdb.invalidate_cached_frames()


def backtrace():
    frames = []
    frame = gdb.newest_frame()
    while frame is not None and len(frames) < 20:
        frames.append(frame)
        frame = frame.older()
    return frames


def side_of(names):
    for side, expected in SIDES.items():
        if names == expected:
            return side
    raise Wrong("the callers are %s" % " < ".join(str(n) for n in names))


def check_registers(caller, side, arch):
    pattern = gdb.parse_and_eval(side + "_pattern")
    # With SVE gdb makes v out of z, for which there is no unwind information: nothing to compare.
    sve = arch.registers().find("z8") is not None
    for i, name in enumerate(REGISTERS[arch.name()]):
        if sve and name.startswith("v"):
            continue
        found = bits_of(caller.read_register(name))
        if found != int(pattern[i]):
            raise Wrong("%s of the %s side: %#x, not %#x" % (name, side, found, int(pattern[i])))


def check_callers(frames, arch):
    """The frames behind a switch. Returns the side that they belong to."""
    side = side_of([name_of(f.name()) for f in frames])
    if side != "main" and frames[-1].unwind_stop_reason() != gdb.FRAME_UNWIND_OUTERMOST:
        reason = gdb.frame_stop_reason_string(frames[-1].unwind_stop_reason())
        raise Wrong("the backtrace does not end by itself: %s" % reason)
    if side in ("main", "coroutine"):
        check_registers(frames[0], side, arch)
    return side


def check_here(function, arch):
    frames = backtrace()
    name = name_of(frames[0].name())
    if name != function:
        raise Wrong("the innermost function is %s" % name)
    if function == "kc__switch_start":
        return check_callers(frames, arch)
    if function == "kc__switch_fp_control":
        callers = [f.name() for f in frames[1:]]
        if callers != ["main_side", "main"]:
            raise Wrong("the callers are %s" % " < ".join(str(c) for c in callers))
        return "main"
    return check_callers(frames[1:], arch)


def alive():
    return gdb.selected_inferior().pid > 0 and gdb.selected_thread() is not None


class Walk:
    def __init__(self, arch):
        self.arch = arch
        self.seen = set()
        self.sides = set()
        self.wrong = 0

    def check(self, what, frames_check):
        try:
            self.sides.add(frames_check())
        except Wrong as e:
            self.wrong += 1
            say("WRONG at %s: %s" % (what, e))

    def leave(self):
        """On in C: to the next breakpoint, or to the return from then."""
        frames = backtrace()
        if frames[0].name() == "then":
            self.check("then", lambda: check_callers(frames[2:], self.arch))
            gdb.Breakpoint("*%#x" % frames[1].pc(), internal=True, temporary=True).silent = True
        gdb.execute("continue")

    def run(self):
        for _ in range(STEPS_MAX):
            if not alive():
                break
            pc = gdb.newest_frame().pc()
            function = function_at(pc)
            if function is None:
                self.leave()
                continue
            trash_below_stack(self.arch)
            what = "%s+%d" % (function, pc - address_of(function))
            self.check(what, lambda: check_here(function, self.arch))
            self.seen.add(pc)
            gdb.execute("stepi")


def main():
    for setting in ("pagination off", "confirm off", "width 0"):
        gdb.execute("set " + setting)
    silence()
    for function in FUNCTIONS:
        gdb.Breakpoint("*" + function, internal=True).silent = True
    gdb.execute("continue" if alive() else "run")

    arch = gdb.newest_frame().architecture()
    everything = [one for f in FUNCTIONS for one in instructions_of(f, arch)]
    starting = [pc for pc, _ in instructions_of("kc__switch_start", arch)]
    walk = Walk(arch)
    walk.run()

    started = [pc for pc in starting if pc in walk.seen]
    for pc, text in everything:
        outside = pc in starting and started and not started[0] < pc < started[-1]
        if pc not in walk.seen and not outside:
            walk.wrong += 1
            say("NOT SEEN: %#x  %s" % (pc, text))
    if walk.sides != set(SIDES):
        walk.wrong += 1
        say("NOT SEEN: the sides %s" % sorted(set(SIDES) - walk.sides))
    exit_code = gdb.convenience_variable("_exitcode")
    if exit_code is None or int(exit_code) != 0:
        walk.wrong += 1
        say("the target ended with %s" % exit_code)
    say("switch_cfi: %s, %d of %d instructions seen, %d wrong"
        % (arch.name(), len(walk.seen), len(everything), walk.wrong))
    return 1 if walk.wrong else 0


try:
    result = main()
except gdb.error as e:
    say("switch_cfi: %s" % e)
    result = 77 if "During startup" in str(e) else 1
except Exception as e:  # a script that fails must not look like one that has found nothing
    say("switch_cfi: %s: %s" % (type(e).__name__, e))
    result = 1
gdb.execute("quit %d" % result)
