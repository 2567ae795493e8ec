"""Runs a filter's program as the kernel would, to ask it about any call."""

import struct

from gitlab_nightshift.sandbox.inside.syscalls import AUDIT_ARCH, NUMBERS

LOAD, EQUAL, ANY_BIT, GREATER, JUMP, RETURN, MASK = 0x20, 0x15, 0x45, 0x25, 0x05, 0x06, 0x54
NAMES = {0x80000000: "kill", 0x7FC00000: "notify", 0x7FFF0000: "allow"}


def decide(program: bytes, call: str | int, *arguments: int, arch: int = AUDIT_ARCH) -> str | int:
    """What becomes of a call: its error number, or "allow", "notify", "kill"."""
    number = NUMBERS[call] if isinstance(call, str) else call
    wide = [a & (2**64 - 1) for a in arguments] + [0] * (6 - len(arguments))
    data = struct.pack("=IIQ6Q", number, arch, 0, *wide)
    code = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    value = at = 0
    while True:
        what, true, false, operand = code[at]
        at += 1
        if what == RETURN:
            return NAMES.get(operand) or operand & 0xFFFF
        if what == LOAD:
            value = struct.unpack_from("=I", data, operand)[0]
        elif what == MASK:
            value &= operand
        elif what == JUMP:
            at += operand
        else:
            tests = {EQUAL: value == operand, GREATER: value > operand}
            tests[ANY_BIT] = bool(value & operand)
            at += true if tests[what] else false
