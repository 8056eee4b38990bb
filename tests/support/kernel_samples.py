"""Kernels that tests share, because numba takes seconds to compile a kernel."""

import numpy as np

import fastload


@fastload.kernel(inputs=("id", "price"), outputs={"value": "float64"})
def value(ids, price, out):
    for i in range(len(out)):
        out[i] = ids[i] * 10 + price[i]


@fastload.kernel(inputs=("value", "label"), outputs={"wide": ("int32", 3), "flag": "bool"})
def widen(values, label, wide, flag):
    for i in range(len(values)):
        wide[i, 0] = int(values[i])
        wide[i, 1] = label[i]
        flag[i] = label[i] == 1


@fastload.kernel(inputs="price", outputs={"price": "float32"})
def scaled(price, out):
    """Scale in place; reads overwritten prices if the input and the output share memory."""
    for i in range(len(price)):
        out[i] = price[i] * 2 + (price[0] - price[0])


@fastload.kernel(inputs="label", outputs={"label": "float64"})
def label_as_float(label, out):
    out[:] = label


@fastload.kernel(inputs=("name",), outputs={"letters": "int64"})
def letters(text, offsets, out):
    for i in range(len(out)):
        out[i] = offsets[i + 1] - offsets[i] + 0 * text[offsets[i]]


@fastload.kernel(inputs="price", outputs={"price": "float32", "seed": "uint64"}, random=True)
def noisy(price, seeds, out, kept):
    for i in range(len(price)):
        kept[i] = seeds[i]
        out[i] = price[i] + np.float32((seeds[i] >> np.uint64(40)) * 2.0**-24)


@fastload.kernel(inputs="id", outputs={"id": "int64"})
def refuses(ids, out):
    """Raise after some rows are filled in place."""
    for i in range(len(ids)):
        if ids[i] == 133:
            raise ValueError("no 133 here")
        out[i] = ids[i]


@fastload.kernel(inputs="id", outputs={"spun": "float64"})
def spins(ids, out):
    """Work for about a millisecond on each batch."""
    x = 0.5
    for _ in range(500_000):
        x = 3.7 * x * (1 - x)
    out[:] = x
