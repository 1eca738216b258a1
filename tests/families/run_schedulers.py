"""Serve one model after another with SGLang's scheduler; print what each answered.

A scheduler holds the whole engine but the tokenizer and the HTTP server: model, KV pool,
attention backend, prefix cache. SGLang is imported once, and each model gets a process
forked from that, which takes a second where a server takes fifteen. Jobs come by stdin.
"""

import json
import os
import sys
import traceback
from array import array
from importlib import import_module
from typing import Any


def start(settings: dict[str, Any]) -> Any:
    """A scheduler with these settings of an engine."""
    from sglang.srt.managers.scheduler import Scheduler
    from sglang.srt.runtime_context import publish
    from sglang.srt.server_args import PortArgs

    from sglang_lazy.patches.server_args import engine_server_args

    server_args = engine_server_args(**settings)
    server_args.check_server_args()
    publish(server_args, role="scheduler")
    return Scheduler(server_args, PortArgs.init_new(server_args), 0, 0, 0, 0, 0, 0, None)


def answer(scheduler: Any, number: int, request: dict[str, Any]) -> dict[str, Any]:
    """Run one request to its end."""
    from sglang.srt.managers.io_struct import TokenizedGenerateReqInput
    from sglang.srt.sampling.sampling_params import SamplingParams

    from sglang_lazy.compat import INFO_KEY
    from sglang_lazy.request.wire import CUSTOM_PARAMS_KEY, PromptShape

    input_ids = request["input_ids"]
    custom_params = None
    if request["document_spans"]:
        shape = PromptShape(
            len(input_ids), tuple(map(tuple, request["document_spans"])), request["chunk_context"]
        )
        custom_params = {CUSTOM_PARAMS_KEY: shape.encode()}
    params = SamplingParams(
        temperature=0,
        max_new_tokens=request["max_new_tokens"],
        ignore_eos=True,
        custom_params=custom_params,
    )
    params.normalize(None)
    params.verify(scheduler.model_config.vocab_size)
    scheduler.handle_generate_request(
        TokenizedGenerateReqInput(
            rid=f"request-{number}",
            input_text="",
            input_ids=array("q", input_ids),
            input_embeds=None,
            mm_inputs=None,
            token_type_ids=None,
            sampling_params=params,
            return_logprob=True,
            logprob_start_len=request["logprob_start_len"],
            top_logprobs_num=request["top_logprobs_num"],
            token_ids_logprob=None,
            stream=False,
        )
    )
    req = scheduler.waiting_queue[-1]
    while not req.finished():
        plan = scheduler.get_next_batch_to_run(
            running_batch=scheduler.running_batch, last_batch=scheduler.last_batch
        )
        scheduler.running_batch, batch = plan.running_batch, plan.batch_to_run
        if batch:
            scheduler.process_batch_result(batch, scheduler.run_batch(batch))
        scheduler.last_batch = batch
    info = (req.customized_info or {}).get(INFO_KEY, [None])[0]
    return {
        "token_ids": list(req.output_ids),
        "input_logprobs": req.logprob.input_token_logprobs_val,
        "logprobs": req.logprob.output_token_logprobs_val,
        "top_logprobs": [
            dict(zip(ids, values, strict=True))
            for ids, values in zip(
                req.logprob.output_top_logprobs_idx,
                req.logprob.output_top_logprobs_val,
                strict=True,
            )
        ],
        "cached_tokens": req.cached_tokens,
        "chunk_cache": info,
    }


def run(job: dict[str, Any]) -> dict[str, Any]:
    try:
        scheduler = start(job["settings"])
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}
    return {"answers": [answer(scheduler, i, r) for i, r in enumerate(job["requests"])]}


def run_forked(job: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        result: dict[str, Any] = {"crash": "no result"}
        try:
            result = run(job)
        except BaseException:
            result = {"crash": traceback.format_exc()}
        finally:
            with os.fdopen(writing, "w") as pipe:
                json.dump(result, pipe)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else {"crash": "the process died"}


if __name__ == "__main__":
    import_module("sglang.srt.plugins").load_plugins()
    for name in ("managers.scheduler", "models.registry"):
        import_module(f"sglang.srt.{name}")  # what every model's process would import
    for line in sys.stdin:
        print("\n" + json.dumps(run_forked(json.loads(line))), flush=True)
