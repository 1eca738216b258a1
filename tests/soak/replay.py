"""Play a schedule of requests against a server. Needs nothing but `requests`.

A schedule is a list of *steps*, plain JSON. A step is one HTTP request:

    id          number; steps are started in this order
    path, body  what to send; `body` may refer to what an earlier step was answered:
                {"answer_text": id} stands for its text, {"answer_ids": id} in a list of
                token ids for its tokens (for nothing where that step has no answer);
                {"spans_of": pieces} is the `document_spans` of pieces of token ids
    delay       seconds that a worker waits before it sends
    leave_after seconds after which the client closes the connection
    leave_after_events  the same, by events of a stream
    then        after `wait` seconds, a second path and body, sent whatever happens
    judge       what the answer should be; for whoever judges it

What `python -m tests.soak` writes when it finds a fault is this file with a schedule.
"""

import itertools
import json
import threading
import time

import requests

TIMEOUT = 90


def play(url, steps, workers=8, seconds=None, on_outcome=None, stop=None, timeout=TIMEOUT):
    """Send steps in their order, each by the next free one of `workers` threads.

    Args:
        steps: a list, or an iterator that may be endless where `seconds` is given.
        on_outcome: called with each outcome, from the worker's thread.
        stop: an event that ends it early.
        timeout: seconds after which a request counts as one that hangs.

    Returns:
        The steps that were started, and their outcomes: dictionaries with `id`, `status`
        (None where the client left or got no answer), `left`, `error`, `payload` (what was
        answered: JSON, or the list of a stream's events), `started`, `seconds`, and `body`
        and `judge` as they were after answers were filled in.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    begun = time.monotonic()
    steps, lock = iter(steps), threading.Lock()
    started, outcomes, finished = [], {}, {}

    def next_step():
        with lock:
            is_over = deadline is not None and time.monotonic() > deadline
            if is_over or (stop is not None and stop.is_set()):
                return None
            step = next(steps, None)
            if step is not None:
                started.append(step)
                finished[step["id"]] = threading.Event()
            return step

    def answer_of(step_id):
        if step_id not in finished:
            return {}
        finished[step_id].wait(timeout)
        return next(iter(answers(outcomes.get(step_id))), {})

    def work():
        while (step := next_step()) is not None:
            time.sleep(step.get("delay", 0))
            outcome = {"id": step["id"], "path": step["path"], "started": time.monotonic() - begun}
            try:
                outcome["body"] = fill_in(step["body"], answer_of)
                outcome["judge"] = fill_in(step.get("judge"), answer_of)
                outcome.update(send(url, step, outcome["body"], timeout))
            finally:
                outcome["seconds"] = time.monotonic() - begun - outcome["started"]
                outcomes[step["id"]] = outcome
                finished[step["id"]].set()
            if on_outcome is not None:
                on_outcome(outcome)

    broken = []

    def worker():
        try:
            work()
        except Exception as error:  # of the schedule or of ``on_outcome``, not of a request
            broken.append(error)

    threads = [threading.Thread(target=worker, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if broken:
        raise broken[0]
    return started, [outcomes[step["id"]] for step in started]


def fill_in(value, answer_of):
    """A copy of JSON data, with references to answers replaced."""
    if isinstance(value, dict):
        if "answer_text" in value:
            return answer_of(value["answer_text"]).get("text") or "So it is."
        if "spans_of" in value:
            return spans_of(fill_in(value["spans_of"], answer_of))
        return {key: fill_in(inner, answer_of) for key, inner in value.items()}
    if isinstance(value, list):
        filled = []
        for inner in value:
            if isinstance(inner, dict) and "answer_ids" in inner:
                filled += answer_of(inner["answer_ids"]).get("ids") or []
            else:
                filled.append(fill_in(inner, answer_of))
        return filled
    return value


def spans_of(pieces):
    """`document_spans` of pieces `["text", ids]` and `["document", ids]`."""
    spans, start = [], 0
    for kind, ids in pieces:
        if kind == "document":
            spans.append([start, start + len(ids)])
        start += len(ids)
    return spans


def send(url, step, body, timeout):
    """One request: the `status`, `left`, `error` and `payload` of its outcome."""
    result = {"status": None, "left": False, "error": None, "payload": None}
    is_stream = bool(body.get("stream"))
    leave_after = step.get("leave_after")
    try:
        with requests.post(
            url + step["path"], json=body, timeout=leave_after or timeout, stream=is_stream
        ) as response:
            result["status"] = response.status_code
            if is_stream and response.status_code == 200:
                result["payload"], result["left"] = events(response, step)
            elif "json" in response.headers.get("content-type", ""):
                result["payload"] = response.json()
            else:
                result["payload"] = response.text
    except requests.RequestException as error:
        result["left"] = leave_after is not None
        result["error"] = None if result["left"] else f"{type(error).__name__}: {error}"
    finally:
        if "then" in step:
            time.sleep(step.get("wait", 0))
            path, then = step["then"]
            requests.post(url + path, json=then, timeout=timeout)
    return result


def events(response, step):
    """A stream's events, and whether the client left before its end."""
    got = []
    for line in response.iter_lines():
        if line.startswith(b"data: {"):
            got.append(json.loads(line[len(b"data: ") :]))
            if len(got) == step.get("leave_after_events"):
                return got, True
    return got, False


def answers(outcome):
    """The answers of an outcome, one for each choice: dictionaries with `text` and, where the
    surface tells them, `ids`, `logprobs`, `meta` (SGLang's `meta_info`) and `finish_reason`;
    with `usage` where that counts for the only choice."""
    payload = (outcome or {}).get("payload")
    if not payload or outcome["status"] != 200:
        return []
    path = outcome["path"]
    if path == "/generate":
        if outcome["body"].get("stream"):
            payload = payload[-1]
        if "error" in payload:
            return []
        return [
            _with_meta(each["text"], each["meta_info"], each.get("output_ids"))
            for each in (payload if isinstance(payload, list) else [payload])
        ]
    if path == "/v1/messages":
        return [_message(payload)]
    if isinstance(payload, list):
        return [_chat_stream(payload)]
    usage = payload.get("usage") if len(payload["choices"]) == 1 else None
    if path == "/v1/completions":
        return [
            {
                "text": choice["text"],
                "ids": choice["token_ids"],
                "logprobs": choice["logprobs"]["token_logprobs"],
                "prompt_ids": choice.get("prompt_token_ids"),
                "finish_reason": choice["finish_reason"],
                "usage": usage,
            }
            for choice in payload["choices"]
        ]
    return [
        {
            **_with_meta(
                choice["message"]["content"], choice["meta_info"], choice.get("token_ids")
            ),
            "prompt_ids": choice.get("prompt_token_ids"),
            "usage": usage,
        }
        for choice in payload["choices"]
    ]


def _with_meta(text, meta, ids):
    tokens = meta.get("output_token_logprobs") or []
    return {
        "text": text,
        "ids": ids or [token for _, token, _ in tokens],
        "logprobs": [logprob for logprob, _, _ in tokens],
        "meta": meta,
        "finish_reason": (meta.get("finish_reason") or {}).get("type"),
    }


def _chat_stream(payload):
    choices = [choice for event in payload for choice in event.get("choices") or []]
    reasons = [c["finish_reason"] for c in choices if c.get("finish_reason")]
    usages = [event["usage"] for event in payload if event.get("usage")]
    return {
        "text": "".join((c.get("delta") or {}).get("content") or "" for c in choices),
        "finish_reason": reasons[-1] if reasons else None,
        "usage": usages[-1] if usages else None,
    }


def _message(payload):
    """Anthropic's."""
    if not isinstance(payload, list):
        text = "".join(block.get("text", "") for block in payload["content"])
        reason, usage = payload["stop_reason"], payload["usage"]
    else:
        text, reason, usage = "", None, {}
        for event in payload:
            text += (event.get("delta") or {}).get("text") or ""
            reason = (event.get("delta") or {}).get("stop_reason") or reason
            for given in ((event.get("message") or {}).get("usage"), event.get("usage")):
                usage.update({k: v for k, v in (given or {}).items() if v is not None})
    cached = usage.get("cache_read_input_tokens") or 0
    prompt = usage.get("input_tokens", 0) + cached
    usage = {
        "prompt_tokens": prompt + (usage.get("cache_creation_input_tokens") or 0),
        "completion_tokens": usage.get("output_tokens"),
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    reasons = {"max_tokens": "length", "end_turn": "stop"}
    return {"text": text, "finish_reason": reasons.get(reason, reason), "usage": usage}


def numbered(steps):
    """A copy of steps with ids from 0 on, references included."""
    new_ids = {step["id"]: i for i, step in enumerate(steps)}

    def renumber(value):
        if isinstance(value, dict):
            return {
                key: new_ids.get(inner, -1)
                if key in ("answer_text", "answer_ids")
                else renumber(inner)
                for key, inner in value.items()
            }
        return [renumber(inner) for inner in value] if isinstance(value, list) else value

    return [{**renumber(step), "id": i} for step, i in zip(steps, itertools.count())]
