"""XXH64 in plain Python, from the specification: the oracle of the core's XXH64."""

from __future__ import annotations

_MASK = (1 << 64) - 1
_P1 = 0x9E3779B185EBCA87
_P2 = 0xC2B2AE3D27D4EB4F
_P3 = 0x165667B19E3779F9
_P4 = 0x85EBCA77C2B2AE63
_P5 = 0x27D4EB2F165667C5


def xxhash64(data: bytes, seed: int = 0) -> int:
    """Compute https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md."""
    position = 0
    if len(data) >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while position + 32 <= len(data):
            for i in range(4):
                lanes[i] = _round(lanes[i], _read(data, position + 8 * i, 8))
            position += 32
        rotated = zip(lanes, (1, 7, 12, 18), strict=True)
        accumulator = sum(_rotate(lane, bits) for lane, bits in rotated)
        for lane in lanes:
            accumulator = ((accumulator ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        accumulator = seed + _P5
    accumulator = (accumulator + len(data)) & _MASK
    while position + 8 <= len(data):
        accumulator ^= _round(0, _read(data, position, 8))
        accumulator = (_rotate(accumulator, 27) * _P1 + _P4) & _MASK
        position += 8
    if position + 4 <= len(data):
        accumulator ^= _read(data, position, 4) * _P1 & _MASK
        accumulator = (_rotate(accumulator, 23) * _P2 + _P3) & _MASK
        position += 4
    for byte in data[position:]:
        accumulator ^= byte * _P5 & _MASK
        accumulator = _rotate(accumulator, 11) * _P1 & _MASK
    accumulator = (accumulator ^ accumulator >> 33) * _P2 & _MASK
    accumulator = (accumulator ^ accumulator >> 29) * _P3 & _MASK
    return accumulator ^ accumulator >> 32


def _read(data: bytes, position: int, size: int) -> int:
    return int.from_bytes(data[position : position + size], "little")


def _rotate(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (64 - bits)) & _MASK


def _round(accumulator: int, lane: int) -> int:
    return _rotate(accumulator + lane * _P2, 31) * _P1 & _MASK
