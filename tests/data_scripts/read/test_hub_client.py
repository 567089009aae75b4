"""Both packages limit how long a request to the Hub waits."""

import time

import pytest
from huggingface_hub import constants, get_session, set_client_factory
from huggingface_hub.utils import _http

from data_scripts.read import hub_client
from modeling_convsim.encoding import hub_client as wheel_hub_client
from tests.loopback_hub import LoopbackHub


@pytest.fixture(params=[hub_client, wheel_hub_client])
def limited(request, monkeypatch):
    """The module, whose limits the client of this process has."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(request.param, "TIMEOUT_SECONDS", 0.2)
    set_client_factory(_http.default_client_factory)
    request.param.limit_waiting()
    yield request.param
    set_client_factory(_http.default_client_factory)


def test_a_hub_that_does_not_answer_is_an_error(limited):
    with LoopbackHub() as hub:
        hub.script = lambda number: "hang"
        started = time.monotonic()
        for timeout in (None, 0.1, 60):  # most functions of huggingface_hub pass None
            with pytest.raises(Exception, match="timed out"):
                get_session().get(f"{hub.url}/api/models/me/model", timeout=timeout)
        assert time.monotonic() - started < 10


def test_a_hub_that_asks_to_wait_too_long_is_an_error(limited):
    with LoopbackHub() as hub:
        hub.script = lambda number: 429
        for seconds, is_refused in ((60, False), (61, True)):
            hub.retry_after = seconds
            if is_refused:
                with pytest.raises(limited.HubIsBusyError, match=r"\(429\): try again in 61 seconds"):
                    get_session().get(hub.url)
            else:
                assert get_session().get(hub.url).status_code == 429


def test_requests_end_when_the_hub_has_not_answered_for_long(limited, monkeypatch):
    monkeypatch.setattr(limited, "MAX_SILENCE_SECONDS", 0.3)
    with LoopbackHub() as hub:
        hub.script = lambda number: "hang"
        url = f"{hub.url}/api/models/me/model"
        for _ in range(2):
            with pytest.raises(Exception, match="timed out"):
                get_session().get(url)
        made = len(hub.requests)
        with pytest.raises(limited.HubIsBusyError, match="has not answered for"):
            get_session().get(url)
        assert len(hub.requests) == made
        time.sleep(0.35)  # later requests are accepted
        hub.script = lambda number: None
        for _ in range(2):
            assert get_session().get(url).status_code == 404
        assert len(hub.requests) == made + 2


def test_a_client_of_the_user_s_stays(limited):
    mine = _http.default_client_factory()
    set_client_factory(lambda: mine)
    limited.limit_waiting()
    assert get_session() is mine
