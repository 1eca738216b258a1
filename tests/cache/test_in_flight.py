"""Which requests wait for documents that others compute."""

import pytest

from sglang_lazy.cache.in_flight import WORTH_WAITING, InFlightDocuments

LONG, SHORT = WORTH_WAITING, WORTH_WAITING - 1


class InFlight(InFlightDocuments):
    def holds_up(self, limit: int | None = None, **missing: int) -> bool:
        return self.worth_waiting_for(missing, self.latest if limit is None else limit)


@pytest.fixture
def in_flight() -> InFlight:
    return InFlight()


def test_waits_for_what_others_compute(in_flight: InFlight) -> None:
    assert not in_flight.holds_up(a=LONG)
    in_flight.claim("first", ["a", "b"])
    assert in_flight.holds_up(a=LONG)
    assert not in_flight.holds_up(a=SHORT)
    assert in_flight.holds_up(a=SHORT, b=1)
    assert not in_flight.holds_up(c=LONG)
    assert not in_flight.holds_up()


def test_goes_on_when_the_last_of_them_is_done(in_flight: InFlight) -> None:
    in_flight.claim("first", ["a"])
    in_flight.claim("second", ["a", "b"])
    in_flight.release("first")
    in_flight.release("first")
    assert in_flight.holds_up(a=LONG)
    in_flight.release("second")
    assert not in_flight.holds_up(a=LONG, b=LONG)


def test_a_request_that_is_admitted_again_claims_anew(in_flight: InFlight) -> None:
    in_flight.claim("first", ["a"])
    in_flight.claim("first", ["b"])
    assert not in_flight.holds_up(a=LONG)
    assert in_flight.holds_up(b=LONG)


def test_documents_are_done_one_by_one(in_flight: InFlight) -> None:
    """A prompt that is prefilled in chunks does not hold up those who want its first document."""
    in_flight.claim("first", ["a", "b"])
    in_flight.release("first", ["a", "never claimed"])
    assert not in_flight.holds_up(a=LONG)
    assert in_flight.holds_up(b=LONG)
    in_flight.release("first")
    assert not in_flight.holds_up(b=LONG)


def test_later_claims_hold_nobody_up_who_waits_already(in_flight: InFlight) -> None:
    in_flight.claim("first", ["a"])
    limit = in_flight.latest
    in_flight.claim("second", ["a", "b"])
    assert in_flight.holds_up(limit, a=SHORT, b=SHORT) is False
    assert in_flight.holds_up(a=SHORT, b=SHORT)
    assert in_flight.holds_up(limit, a=LONG)
    in_flight.release("first")
    assert not in_flight.holds_up(limit, a=LONG)


def test_nothing_is_kept_of_what_is_done(in_flight: InFlight) -> None:
    in_flight.claim("first", ["a", "b"])
    in_flight.claim("second", ["b"])
    in_flight.claim("third", [])
    in_flight.release("second")
    in_flight.release("first", ["b"])
    in_flight.release("first", ["a"])
    assert not in_flight._claims and not in_flight._claimers
