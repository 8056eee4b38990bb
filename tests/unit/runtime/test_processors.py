"""Which processors the core runs on: x86-64-v2, with faster clones chosen at run time."""

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import fastload

# Instructions of x86-64-v3 that are not of AVX: BMI1, BMI2, LZCNT, MOVBE. Older processors take
# TZCNT for BSF, so compilers use it where both give the same.
BEYOND_V2 = {
    *("andn", "bextr", "blsi", "blsmsk", "blsr", "bzhi", "lzcnt", "movbe", "mulx"),
    *("pdep", "pext", "rorx", "sarx", "shlx", "shrx"),
}
# GCC's name for a function that its resolver picks where the processor is of that level.
CLONE = re.compile(r"\.arch_x86_64_v[34]\b")


def beyond_baseline(disassembly: str) -> tuple[set[str], set[str]]:
    """Functions with such instructions: those picked at run time, and the others."""
    picked, others, function = set(), set(), ""
    for line in disassembly.splitlines():
        if line.endswith(">:"):
            function = line.split("<", 1)[1].removesuffix(">:")
            continue
        instruction = line.split("\t")[1].split(" ")[0] if "\t" in line else ""
        if instruction.startswith("v") or instruction in BEYOND_V2:
            (picked if CLONE.search(function) else others).add(function)
    return picked, others


def test_disassembly_is_told_apart():
    text = (
        "0000000000001000 <_Z3sumv.arch_x86_64_v3>:\n"
        "    1000:\tvpaddd %ymm0,%ymm1,%ymm2\n"
        "0000000000001100 <_Z3sumv.default>:\n"
        "    1100:\tpaddd  %xmm0,%xmm1\n"
        "    1104:\ttzcnt  %rax,%rbx\n"
        "0000000000001200 <_Z4scanv>:\n"
        "    1200:\tshlx   %rax,%rbx,%rcx\n"
    )
    picked, others = beyond_baseline(text)
    assert picked == {"_Z3sumv.arch_x86_64_v3"}
    assert others == {"_Z4scanv"}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="of x86-64 alone")
@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump (binutils) is not on PATH")
def test_newer_instructions_are_chosen_at_run_time():
    cores = sorted(Path(fastload.__file__).parent.glob("runtime/_core_pyarrow*.so"))
    assert cores
    for core in cores:
        objdump = ["objdump", "--disassemble", "--no-show-raw-insn", str(core)]
        text = subprocess.run(objdump, capture_output=True, text=True, check=True).stdout
        assert text.count("\n") > 100_000
        _, others = beyond_baseline(text)
        assert others == set(), core.name
