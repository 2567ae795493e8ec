"""Classic BPF, as much of it as a system call filter needs.

A program is a list of instructions. Every *body* below returns on all its paths, so bodies can
simply follow one another.
"""

import struct

# linux/bpf_common.h (BPF_LD | BPF_W | BPF_ABS, …), linux/seccomp.h (SECCOMP_RET_*)
LOAD, EQUAL, ANY_BIT, GREATER, JUMP, RETURN, MASK = 0x20, 0x15, 0x45, 0x25, 0x05, 0x06, 0x54
KILL, NOTIFY, ALLOW = 0x80000000, 0x7FC00000, 0x7FFF0000
# Offsets in struct seccomp_data (seccomp(2))
NUMBER_AT, ARCH_AT, ARGUMENTS_AT = 0, 4, 16

Program = list[bytes]


# A jump is relative and at most 255 instructions long: one byte in struct sock_filter.
def _encode_instruction(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, value & 0xFFFFFFFF)


def load(offset: int) -> bytes:
    """Load 32 bits of the call's data."""
    return _encode_instruction(LOAD, offset)


def load_argument(index: int, *, high: bool = False) -> bytes:
    """Load the lower (or upper) half of an argument; both supported machines are little endian."""
    return load(ARGUMENTS_AT + 8 * index + 4 * high)


def mask(value: int) -> bytes:
    """Keep only these bits of the loaded value."""
    return _encode_instruction(MASK, value)


def give(action: int) -> Program:
    """Return an action."""
    return [_encode_instruction(RETURN, action)]


def fail(number: int) -> Program:
    """Return an error number to the caller."""
    return give(0x50000 | number)


def branch_when(code: int, value: int, body: Program) -> Program:
    """Run ``body`` if the comparison holds, else go on after it."""
    return [_encode_instruction(code, value, 0, len(body)), *body]


def branch_unless(code: int, value: int, body: Program) -> Program:
    """Run ``body`` if the comparison does not hold, else go on after it."""
    return [_encode_instruction(code, value, len(body), 0), *body]


def branch_when_in(values: list[int], body: Program) -> Program:
    """Run ``body`` if the loaded value is one of these (up to 250)."""
    tests = [
        _encode_instruction(EQUAL, value, len(values) - i, 0) for i, value in enumerate(values)
    ]
    return [*tests, _encode_instruction(JUMP, len(body)), *body]


def assemble(program: Program) -> bytes:
    """The program as the kernel takes it."""
    return b"".join(program)
