"""Which requests wait for documents that others compute."""

from sglang_lazy.cache.in_flight import WORTH_WAITING, InFlightDocuments

LONG, SHORT = WORTH_WAITING, WORTH_WAITING - 1


def test_waits_for_what_others_compute() -> None:
    in_flight = InFlightDocuments()
    assert not in_flight.worth_waiting_for({"a": LONG})
    in_flight.claim("first", {"a": LONG, "b": 1})
    assert in_flight.worth_waiting_for({"a": LONG})
    assert not in_flight.worth_waiting_for({"a": SHORT})
    assert in_flight.worth_waiting_for({"a": SHORT, "b": 1})
    assert not in_flight.worth_waiting_for({"c": LONG})
    assert not in_flight.worth_waiting_for({})


def test_goes_on_when_the_last_of_them_is_done() -> None:
    in_flight = InFlightDocuments()
    in_flight.claim("first", {"a": LONG})
    in_flight.claim("second", {"a": LONG, "b": LONG})
    in_flight.release("first")
    in_flight.release("first")
    assert in_flight.worth_waiting_for({"a": LONG})
    in_flight.release("second")
    assert not in_flight.worth_waiting_for({"a": LONG, "b": LONG})


def test_a_request_that_is_admitted_again_claims_anew() -> None:
    in_flight = InFlightDocuments()
    in_flight.claim("first", {"a": LONG})
    in_flight.claim("first", {"b": LONG})
    assert not in_flight.worth_waiting_for({"a": LONG})
    assert in_flight.worth_waiting_for({"b": LONG})
