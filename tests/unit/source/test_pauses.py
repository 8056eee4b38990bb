"""Pauses that stores ask for."""

from __future__ import annotations

import email.utils
import time
from types import SimpleNamespace

import pytest

from fastload.source.stores.errors import pause_s, status_of


class AnswerError(Exception):
    def __init__(self, status: int, headers: object) -> None:
        super().__init__()
        self.status = status
        self.headers = headers


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0),
        (None, 0),
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "soon"}, 0),
        ({"Retry-After": "-3"}, 0),
        ({"Retry-After": "99999999999999"}, 330),
        ({"Retry-After": "Mon, 01 Jan 2001 00:00:00 GMT"}, 0),
        ({"RateLimit": '"resolvers";r=0;t=120'}, 120),
        ({"RateLimit": '"resolvers";r=12;t=120'}, 0),
        ({"RateLimit": '"api";r=0;t=9', "Retry-After": "20"}, 20),
        ({"RateLimit": "limit=3"}, 0),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_headers(headers, seconds, status):
    assert pause_s(AnswerError(status, headers)) == seconds


def test_a_time():
    then = email.utils.formatdate(time.time() + 100, usegmt=True)
    assert 0 < pause_s(AnswerError(429, {"Retry-After": then})) <= 100


def test_other_answers_ask_for_nothing():
    assert pause_s(AnswerError(500, {"Retry-After": "7"})) == 0
    assert pause_s(ValueError()) == 0


def test_errors_with_an_answer():
    error = Exception()
    error.response = SimpleNamespace(status_code=429, headers={"Retry-After": "3"})
    assert status_of(error) == 429
    assert pause_s(error) == 3
