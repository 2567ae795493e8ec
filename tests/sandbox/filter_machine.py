"""Runs a filter's program as the kernel would, for any system call."""

import struct

from gitlab_nightshift.sandbox.inside.syscalls import AUDIT_ARCH, NUMBERS

LOAD, EQUAL, ANY_BIT, GREATER, JUMP, RETURN, MASK = 0x20, 0x15, 0x45, 0x25, 0x05, 0x06, 0x54
NAMES = {0x80000000: "kill", 0x7FC00000: "notify", 0x7FFF0000: "allow"}


def decide(program: bytes, call: str | int, *arguments: int, arch: int = AUDIT_ARCH) -> str | int:
    """The filter's answer to a call: an error number, or "allow", "notify", "kill"."""
    number = NUMBERS[call] if isinstance(call, str) else call
    wide = [a & (2**64 - 1) for a in arguments] + [0] * (6 - len(arguments))
    data = struct.pack("=IIQ6Q", number, arch, 0, *wide)
    instructions = list(struct.iter_unpack("=HBBI", program))
    value = position = 0
    while True:
        code, skip_if, skip_unless, operand = instructions[position]
        position += 1
        if code == RETURN:
            return NAMES.get(operand) or operand & 0xFFFF
        if code == LOAD:
            value = struct.unpack_from("=I", data, operand)[0]
        elif code == MASK:
            value &= operand
        elif code == JUMP:
            position += operand
        else:
            tests = {EQUAL: value == operand, GREATER: value > operand}
            tests[ANY_BIT] = bool(value & operand)
            position += skip_if if tests[code] else skip_unless
