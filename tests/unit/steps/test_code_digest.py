"""code_digest: what digests of code see, and what they don't."""

import array
import collections
import dataclasses
import decimal
import enum
import functools
import importlib.metadata
import io
import os
import pickle
import random
import re
import subprocess
import sys
import threading
import types
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import pytest
import torch

from fastload import kernel, per_row
from fastload.steps import installed
from fastload.steps.code_digest import code_digest

SCALE = 3.0
TABLE = np.arange(4)


def compiled(source, name="f", **names):
    """The function of that name in a module of its own."""
    scope = {"__name__": "made", "np": np, "torch": torch, **names}
    exec(source, scope)
    return scope[name]


def digest(source, **names):
    return code_digest(compiled(source, **names))


PLAIN = "def f(x):\n    return np.sin(x) * scale"


def test_equal_code_has_equal_digests():
    one = digest(PLAIN, scale=2.0)
    assert one == digest("\n\n# moved\n" + PLAIN.replace("(x)", "(x)"), scale=2.0)
    assert one == digest(PLAIN.replace("def f", "def g") + "\nf = g", scale=2.0)
    assert len(one) == 32


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (PLAIN, {"scale": 3.0}),
        (PLAIN, {"scale": 2}),
        (PLAIN, {"scale": np.float32(2.0)}),
        (PLAIN, {"scale": True}),
        (PLAIN, {}),
        (PLAIN.replace("sin", "cos"), {"scale": 2.0}),
        (PLAIN.replace("np.", "torch."), {"scale": 2.0}),
        (PLAIN.replace("(x):", "(x, y=1):"), {"scale": 2.0}),
        (PLAIN.replace("*", "+"), {"scale": 2.0}),
        (PLAIN + " + 1", {"scale": 2.0}),
        (PLAIN + " + 1.0", {"scale": 2.0}),
        (PLAIN + " + -0.0", {"scale": 2.0}),
        (PLAIN + " + 0.0", {"scale": 2.0}),
    ],
)
def test_other_code_has_another_digest(source, names):
    assert digest(source, **names) != digest(PLAIN, scale=2.0)


def test_zeros_differ_by_sign():
    assert digest("def f(): return 0.0") != digest("def f(): return -0.0")
    assert digest("def f(): return (1, 0)") != digest("def f(): return (True, 0)")


def test_values_in_closures_and_defaults_count():
    def adds(value):
        def fn(x, table=value):
            return x + value, table

        return fn

    values = [0, 1, "1", b"1", None, (1,), [1], {1}, frozenset([1]), {1: 2}, {2: 1}, 1j, ...]
    values += [np.arange(3), np.arange(3.0), np.arange(3)[None], torch.arange(3), range(3)]
    values += [torch.float32, np.dtype("f4"), np.int32, np.sin, len, functools.partial(len, x=1)]
    values += [functools.partial(len, x=2), Point(1), Spot(1)]
    values += [Color.RED, Color.BLUE, Color, Scaled, re.compile("a"), re.compile("b")]
    digests = [code_digest(adds(value)) for value in values]
    assert len(set(digests)) == len(values)
    assert digests == [code_digest(adds(value)) for value in values]
    assert code_digest(adds({"b", "a"})) == code_digest(adds({"a", "b"}))


def test_values_that_print_or_compare_alike_differ():
    one, table = np.arange(4), np.arange(2000)
    hidden, shown = np.ma.array([1, 999999], mask=[0, 1]), np.ma.array([1, 999999], mask=[0, 0])
    values = [one.reshape(2, 2), one.reshape(2, 2).view(np.matrix), hidden, shown]
    values += [np.float32(1), np.array(1, np.float32), slice(table), slice(table + (table == 1000))]
    values += [collections.deque([1], length) for length in (None, 1, 2)]
    values += [types.MappingProxyType({1: value}) for value in (1, 2)]
    digests = [digest(PLAIN, scale=value) for value in values]
    assert len(set(digests)) == len(values)
    assert digests == [digest(PLAIN, scale=value) for value in values]


def test_attributes_of_functions_count():
    def digest_with(scale):
        f = compiled("def f(x):\n    return x * f.scale")
        f.scale = scale
        return code_digest(f)

    assert digest_with(1) == digest_with(1) != digest_with(2)

    def dispatched(added):
        @functools.singledispatch
        def g(x):
            return x

        g.register(int)(lambda x: x + added)
        return digest("def f(x):\n    return g(x)", g=g)

    assert dispatched(1) == dispatched(1) != dispatched(2)


def scaled(function, scale):
    """A function of ours under the name of the function that it calls."""

    @functools.wraps(function)
    def wrapper(x):
        return function(x) * scale

    return wrapper


def made_class(source):
    return dataclasses.make_dataclass("Made", ["x"], namespace={"f": compiled(source)})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (scaled(np.mean, 2), scaled(np.mean, 3)),
        (scaled(np.mean, 2), np.mean),
        (torch.func.grad(torch.nn.functional.softplus), torch.nn.functional.softplus),
        (torch.vmap(torch.nn.functional.relu, 0), torch.vmap(torch.nn.functional.relu, 1)),
        (made_class(PLAIN), made_class(PLAIN.replace("sin", "cos"))),
    ],
)
def test_names_of_installed_objects_count_only_for_these_objects(one, other):
    calls = "def f(x):\n    return g(x)"
    assert digest(calls, g=one) == digest(calls, g=one) != digest(calls, g=other)


def test_ufuncs_of_code_that_can_not_be_seen_are_refused():
    made = np.frompyfunc(compiled(PLAIN), 1, 1)
    with pytest.raises(TypeError, match="got ufunc"):
        code_digest(made)
    code_digest(np.sin)


def test_bodies_of_classes_in_functions_count():
    source = (
        "def f(x):\n    scale = SCALE\n    def g():\n        class K:\n            k = scale\n"
        "        return K.k\n    return g\nf = f(0)"
    )
    digests = [digest(source, SCALE=scale) for scale in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


def test_long_functions_have_digests():
    source = "def f(x):\n" + "".join(f"    x.a{n}\n" for n in range(300))
    settings = types.ModuleType("settings")
    digests = set()
    for settings.scale in (1, 2):
        digests.add(digest(source + "    return x * settings.scale", settings=settings))
    assert len(digests) == 2


def test_functions_that_are_called_count():
    source = "def g(x):\n    return x * factor\ndef f(x):\n    return g(x)"
    assert digest(source, factor=1) == digest(source, factor=1) != digest(source, factor=2)
    nested = "def f(x):\n    def g(y):\n        return y * factor\n    return [g(z) for z in x]"
    assert digest(nested, factor=1) == digest(nested, factor=1) != digest(nested, factor=2)
    recursive = "def f(x):\n    return x and f(x - step)"
    assert digest(recursive, step=1) == digest(recursive, step=1) != digest(recursive, step=2)


def test_attributes_of_own_modules_count_as_they_are_now():
    def module(**values):
        made = types.ModuleType("settings")
        made.__dict__.update(values)
        return made

    source = "def f(x):\n    return x * settings.scale"
    first = digest(source, settings=module(scale=1, other=1))
    assert first == digest(source, settings=module(scale=1, other=2))
    assert first != digest(source, settings=module(scale=2, other=1))
    with pytest.raises(TypeError, match="got module for f"):
        digest("def f(x):\n    return vars(settings)", settings=module())
    with pytest.raises(TypeError, match="got `import nowhere` in f"):
        digest("def f(x):\n    import nowhere\n    return nowhere.x")
    digest("def f(x):\n    import math\n    return math.sin(x)")


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Point(NamedTuple):
    x: int


class Spot(NamedTuple):
    y: int


@dataclass
class Scaled:
    scale: float

    def __call__(self, x):
        return x * self.scale


def test_objects_count_by_class_and_attributes():
    source = "class F:\n    k = {}\n    def __call__(self, x):\n        return x {} self.k\nf = F()"
    digests = {digest(source.format(k, sign)) for k in (1, 2) for sign in "+*"}
    assert len(digests) == 4
    assert code_digest(Scaled(1.0)) == code_digest(Scaled(1.0)) != code_digest(Scaled(2.0))
    assert code_digest(Scaled(1.0).__call__) != code_digest(Scaled(2.0).__call__)
    layer = torch.nn.Linear(2, 2)
    before = code_digest(layer)
    assert code_digest(layer) == before
    torch.nn.init.zeros_(layer.weight)
    assert code_digest(layer) != before
    source = (
        "class M(type):\n    def __call__(cls):\n        return {}\n"
        "class K(metaclass=M):\n    pass\ndef f(x):\n    return K()"
    )
    assert digest(source.format(1)) == digest(source.format(1)) != digest(source.format(2))
    steps = [per_row(len, "a", "b"), per_row(len, "a", "c"), per_row(str, "a", "b")]
    assert len({code_digest(step) for step in steps}) == 3


class Slots:
    __slots__ = ("x", "y")


class Private:
    __slots__ = ("__x",)

    x = property(lambda self: self.__x, lambda self, value: setattr(self, "_Private__x", value))


class Again(Slots):
    __slots__ = ("x",)


class Generics(Generic[TypeVar("T")]):
    pass


@dataclass(slots=True)
class Data:
    x: int = 1


class Mixed(Generics, Slots):
    pass


@pytest.mark.parametrize(
    "kind", [Slots, Private, Again, Generics, Data, Mixed], ids=lambda k: k.__name__
)
def test_attributes_of_classes_in_python_are_all_there_is(kind):
    one, other = kind(), kind()
    assert digest(PLAIN, scale=one) == digest(PLAIN, scale=other)
    one.x, other.x = 1, 2
    assert digest(PLAIN, scale=one) != digest(PLAIN, scale=other)


class Lines(io.StringIO):
    pass


@pytest.mark.parametrize(
    "value",
    [
        io.StringIO("a"),
        io.BytesIO(b"a"),
        Lines("a"),
        random.Random(1),
        random.random,
        random.randint,
        np.random.rand,
        np.random.default_rng(1),
        np.random.PCG64(1),
        torch.Generator(),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_objects_that_change_as_they_are_used_can_not_be_told(value):
    with pytest.raises(TypeError, match="Expected code and values that have a digest, got"):
        digest(PLAIN, scale=value)


class Numbers(array.array):
    pass


class Items(list):
    pass


class Words(set):
    pass


class Entries(dict):
    pass


class Size(int):
    pass


class Lossy:
    """An object whose pickle leaves out its state."""

    def __init__(self, factor):
        self.factor = factor

    def __reduce__(self):
        return Lossy, (0,)


class LossySlots:
    """An object whose pickle leaves out its slots."""

    __slots__ = ("__factor", "_unset")

    def __init__(self, factor):
        self.__factor = factor

    def __reduce__(self):
        return LossySlots, (0,)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: Numbers("i", [n]),
        lambda n: Items([n]),
        lambda n: Words([n]),
        lambda n: Entries({1: n}),
        Size,
        lambda n: collections.OrderedDict({1: n}),
        lambda n: collections.Counter([n]),
        decimal.Decimal,
        lambda n: np.array([{"n": n}], object),
        lambda n: bytearray([n]),
        Lossy,
        LossySlots,
    ],
)
def test_objects_count_by_content(make):
    one = digest(PLAIN, scale=make(1))
    assert one == digest(PLAIN, scale=make(1)) != digest(PLAIN, scale=make(2))
    assert one != digest(PLAIN, scale=1)


@pytest.mark.parametrize("kind", [Items, Words, Entries, Size, Lossy])
def test_attributes_count_for_objects_with_content(kind):
    digests = []
    for mark in (1, 1, 2):
        value = kind() if kind is not Lossy else Lossy(1)
        value.mark = mark
        digests.append(digest(PLAIN, scale=value))
    assert digests[0] == digests[1] != digests[2]


class Marked(property):
    """A property with state of its own."""


def test_properties_with_state_of_their_own_can_not_be_told():
    kind = type("Made", (), {"x": Marked(len), "__module__": __name__})
    with pytest.raises(TypeError, match=r"got Marked for `Made\.x`"):
        digest(PLAIN, scale=kind)


def test_methods_of_named_tuples_count():
    source = (
        "class F(NamedTuple):\n    x: int\n"
        "    def __call__(self, v):\n        return v * {}\nf = F(1)"
    )
    digests = [digest(source.format(factor), NamedTuple=NamedTuple) for factor in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


def test_a_copy_of_an_object_has_the_same_digest():
    """A spawned worker has a copy, where equal values may be other objects."""
    step = functools.partial(Scaled(1.0), Spot(TABLE), key={"a": "ab", "b": str(b"ab", "ascii")})
    assert code_digest(pickle.loads(pickle.dumps(step))) == code_digest(step)
    shared = ["ab", "ab"]
    assert digest(PLAIN, scale=["ab", str(b"ab", "ascii")]) == digest(PLAIN, scale=shared)


def test_objects_that_refer_to_themselves():
    def looped(value):
        items = [value]
        items.append(items)
        return digest(PLAIN, scale=items)

    assert looped(1) == looped(1) != looped(2)
    items = [Lossy(1)]
    items[0].factor = {items[0]}
    with pytest.raises(TypeError, match="Expected code and values that have a digest, got"):
        digest(PLAIN, scale=items)


def test_methods_in_c_of_no_package_can_not_be_told(monkeypatch):
    version = installed._version
    monkeypatch.setattr(
        installed, "_version", lambda top, *rest: "" if top == "array" else version(top, *rest)
    )
    for value in (array.array("i"), array.array, array.array.append, array._array_reconstructor):
        with pytest.raises(TypeError, match="Expected code and values that have a digest, got"):
            digest(PLAIN, scale=value)


def test_a_package_s_name_that_holds_a_function_of_the_user_s(monkeypatch):
    def replaced(factor):
        @functools.wraps(np.trace)
        def trace(x):
            return x * factor

        monkeypatch.setattr(np, "trace", trace)
        return digest("def f(x):\n    return trace(x)", trace=np.trace)

    assert replaced(1) == replaced(1) != replaced(2)


def test_what_can_not_be_told_is_refused_without_a_version():
    lock = threading.Lock()

    def locked(x):
        with lock:
            return x

    with pytest.raises(TypeError, match=r"got lock for `lock` in .*locked"):
        code_digest(locked)
    with pytest.raises(TypeError, match="got lock for an object of `Scaled`"):
        code_digest(Scaled(lock))
    one = code_digest(locked, version="1")
    assert one == code_digest(locked, version="1") != code_digest(locked, version="2")
    assert one != code_digest(test_zeros_differ_by_sign, version="1")


def test_other_processes_have_the_same_digests():
    source = (
        "import numpy as np\nclass Words(set):\n    pass\nwords = Words('abcdef')\n"
        "class K:\n    def __init__(self, kept):\n        self.kept = kept\n"
        "k = K({'x': frozenset('xyz')})\n"
        "def f(x):\n    return x in {'b', 'a', 'c'}, np.sin(x) * scale, words, k.kept"
    )
    script = (
        "from fastload.steps.code_digest import code_digest\nscale = 2.5\n"
        f"{source}\nprint(code_digest(f))"
    )
    run = [sys.executable, "-c", script]
    for seed in "12":
        env = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run(run, capture_output=True, text=True, check=True, env=env)
        assert ran.stdout.strip() == digest(source, scale=2.5)


def test_functions_of_numba_count_by_their_code():
    numba = pytest.importorskip("numba")

    def scaled(x):
        return x * SCALE + TABLE[0]

    digests = {code_digest(scaled), code_digest(numba.njit(scaled))}
    digests.add(code_digest(numba.njit(fastmath=True)(scaled)))
    assert len(digests) == 3
    assert code_digest(numba.njit(scaled)) in digests


def test_functions_of_numba_count_by_the_values_that_they_were_compiled_with():
    numba = pytest.importorskip("numba")
    scope = {"__name__": "made"}
    exec("def inner(x): return x * scale\ndef outer(x): return inner(x) + len((x,))", scope)
    plain, inner = numba.njit(scope["outer"]), scope["inner"]
    digests = []
    for scale in (2.5, 3.5):
        scope.update(scale=scale, inner=numba.njit(inner))
        digests.append(code_digest(plain))
    scope.update(scale=2.5, inner=numba.njit(inner))
    assert plain(1) == 3.5
    scope["scale"] = float("2.5")  # equal, and another object
    assert code_digest(plain) == digests[0] != digests[1]
    scope["scale"] = 3.5
    assert plain(1) == 3.5  # numba has compiled it
    digests.append(code_digest(plain))
    scope["inner"] = numba.njit(inner)
    assert plain(1) == 3.5
    digests.append(code_digest(plain))
    assert len({*digests}) == 4
    assert code_digest(numba.njit(scope["outer"])) == digests[1]


def test_the_version_of_numba_counts_for_what_numba_compiles(monkeypatch):
    numba = pytest.importorskip("numba")

    def twice(x, out):
        for row in range(len(x)):
            out[row] = 2 * x[row]

    def digests():
        step = kernel("x", {"y": "float32"})
        named = kernel("x", {"y": "float32"}, version="1")
        of = [step(twice), numba.njit(twice), twice, named(twice)]
        return [code_digest(each) for each in of]

    before = digests()
    version = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "0.0" if name == "numba" else version(name)
    )
    after = digests()
    assert [one != other for one, other in zip(before, after, strict=True)] == [
        True,
        True,
        False,
        False,
    ]


class ScaledBy:
    """A wrapper with state of its own, as functools.update_wrapper leaves it."""

    def __init__(self, fn, factor):
        functools.update_wrapper(self, fn)
        self.factor = factor

    def __call__(self, block):
        return self.__wrapped__(block) * self.factor


class Vocabulary:
    """An object with a path, whose words are read from elsewhere too."""

    def __init__(self, words):
        self.words = words

    def __fspath__(self):
        return "/words"


class Pair:
    """An object with a Python function, which is not numba's."""

    def __init__(self, py_func, factor):
        self.py_func, self.factor = py_func, factor


def plain(block):
    return block


def with_factor(factor, name="__factor__"):
    """A class with an attribute whose name Python does not know."""
    return type("Made", (), {name: factor, "__module__": __name__})


def marked(mark):
    made = compiled(PLAIN, scale=2.0)
    made.__mark__ = mark
    return made


@pytest.mark.parametrize(
    "make",
    [
        lambda n: ScaledBy(plain, n),
        lambda n: Vocabulary([n]),
        lambda n: Pair(plain, n),
        lambda n: with_factor(n)(),
        lambda n: with_factor(n, "_abc_factor")(),
        lambda n: with_factor(n, "__module_path__")(),
        lambda n: functools.partial(plain, with_factor(n)),
        marked,
    ],
)
def test_state_counts_whatever_an_object_looks_like(make):
    assert code_digest(make(2)) == code_digest(make(2))
    assert code_digest(make(2)) != code_digest(make(3))


def test_a_module_of_the_user_s_with_a_name_of_python_s(tmp_path):
    digests = []
    for factor in (2, 3):
        folder = tmp_path / str(factor)
        folder.mkdir()
        (folder / "chunk.py").write_text(f"def step(block):\n    return block * {factor}\n")
        program = (
            "import chunk; from fastload.steps.code_digest import code_digest; "
            "print(code_digest(chunk.step))"
        )
        run = [sys.executable, "-c", program]
        ended = subprocess.run(run, cwd=folder, check=True, capture_output=True, text=True)
        digests.append(ended.stdout)
    assert digests[0] != digests[1]


def test_a_function_that_imports_a_module_with_a_name_of_python_s(tmp_path):
    (tmp_path / "chunk.py").write_text("FACTOR = 2\n")
    program = (
        "from fastload.steps.code_digest import code_digest\n"
        "def step(block):\n    import chunk\n    return block * chunk.FACTOR\n"
        "code_digest(step)"
    )
    run = [sys.executable, "-c", program]
    ended = subprocess.run(run, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert "got `import chunk` in step" in ended.stderr
