"""Boxes by torchvision's rules, from the numbers that a seed draws."""

import itertools
import math

import numpy as np
import pytest

from fastload.images import Box, center_box, crop_box, flips
from fastload.plan.permutation import stream_value, stream_values

KEPT = [(32, 25, 343, 261), (19, 29, 331, 434), (5, 34, 369, 390)]
FLIPS = [True, True, True, False, False, False, True, False, True, True, False, False]
SHAPES = [(375, 500), (500, 375), (224, 224), (1, 1), (1, 900), (900, 1), (20, 400), (3000, 7)]


def numbers_of(seed):
    """The numbers of a seed's stream after the first, by the functions of the plan."""
    return iter(stream_values(seed, 41, 0)[1:].tolist())


def by_torchvision(height, width, seed, scale, ratio):
    """RandomResizedCrop.get_params of torchvision 0.28, on the numbers of a seed."""
    numbers = numbers_of(seed)
    area = height * width
    log_ratio = (math.log(ratio[0]), math.log(ratio[1]))

    def uniform(low, high):
        return low + (high - low) * ((next(numbers) >> 11) / 2**53)

    def randint(bound):
        return next(numbers) * bound // 2**64

    for _ in range(10):
        target_area = area * uniform(*scale)
        aspect_ratio = math.exp(uniform(*log_ratio))
        w = round(math.sqrt(target_area * aspect_ratio))
        h = round(math.sqrt(target_area / aspect_ratio))
        if 0 < w <= width and 0 < h <= height:
            i = randint(height - h + 1)
            j = randint(width - w + 1)
            return i, j, h, w
        next(numbers), next(numbers)
    in_ratio = float(width) / float(height)
    if in_ratio < min(ratio):
        w = width
        h = round(w / min(ratio))
    elif in_ratio > max(ratio):
        h = height
        w = round(h * max(ratio))
    else:
        w = width
        h = height
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("scale", "ratio"),
    [((0.08, 1.0), (3 / 4, 4 / 3)), ((0.5, 0.5), (1.0, 1.0)), ((1e-6, 1e-5), (0.1, 10.0))],
)
def test_the_rule_of_torchvision(shape, scale, ratio):
    for seed in [*range(200), 2**63, 2**64 - 1]:
        box = crop_box(*shape, seed, scale=scale, ratio=ratio)
        expected = by_torchvision(*shape, seed, scale, ratio)
        # torchvision's own fallback may have no pixel at all.
        if min(expected[2:]) > 0:
            assert box == expected
        assert 0 <= box.top <= shape[0] - box.height < shape[0]
        assert 0 <= box.left <= shape[1] - box.width < shape[1]


def test_boxes_that_are_kept_for_good():
    assert [tuple(crop_box(375, 500, seed)) for seed in range(3)] == KEPT
    assert [flips(seed) for seed in range(12)] == FLIPS


def test_areas_and_places_are_spread_evenly():
    boxes = np.array([crop_box(1000, 1000, seed, scale=(0.2, 0.6)) for seed in range(4000)])
    areas = boxes[:, 2] * boxes[:, 3] / 1e6
    assert areas.min() > 0.195
    assert areas.max() < 0.605
    assert abs(areas.mean() - 0.4) < 0.01
    ratios = np.log(boxes[:, 3] / boxes[:, 2])
    assert abs(ratios.mean()) < 0.01
    assert abs(ratios.std() - 2 * math.log(4 / 3) / math.sqrt(12)) < 0.005
    for place, side in ((0, 2), (1, 3)):
        shares = boxes[:, place] / (1000 - boxes[:, side])
        assert abs(shares.mean() - 0.5) < 0.02
        assert abs(shares.std() - 1 / math.sqrt(12)) < 0.01


def test_half_of_all_seeds_flip_whatever_their_box():
    flipped = np.array([flips(seed) for seed in range(4000)])
    assert abs(flipped.mean() - 0.5) < 0.03
    left = np.array([crop_box(300, 300, seed).left for seed in range(4000)])
    assert abs(np.corrcoef(flipped, left)[0, 1]) < 0.05


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [(224, 224), (100, 200), (7, 3), (1, 1)])
def test_the_center_is_what_resize_and_center_crop_leave(shape, size):
    box = center_box(*shape, size)
    assert box.height == shape[0] or box.width == shape[1]
    assert abs(2 * box.top + box.height - shape[0]) <= 1
    assert abs(2 * box.left + box.width - shape[1]) <= 1
    # The shorter side of the resized box may be wrong by the rounding of one pixel.
    resized = box.height / size[0], box.width / size[1]
    assert abs(resized[0] - resized[1]) * max(size) <= max(1, *size) / min(size) + 1e-9 or (
        1 in (box.height, box.width)
    )
    # torchvision: resize so that the shorter side fits, then crop at round((long - size) / 2).
    if size[0] == size[1] and min(shape) >= 200:
        short, side = min(shape), size[0]
        long = int(side * max(shape) / short)
        place = round((long - side) / 2.0) * short / side
        assert abs(max(box.top, box.left) - place) <= short / side


def test_boxes_have_names():
    assert center_box(10, 20, (1, 1)) == Box(top=0, left=5, height=10, width=10)


def test_one_number_of_a_stream():
    for seed, number in itertools.product([0, 5, 2**64 - 1], [0, 1, 40]):
        assert stream_value(seed, number) == stream_values(seed, 1, number)[0]
