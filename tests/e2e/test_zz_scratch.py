def test_two(engine_slot):
    e=engine_slot.get(chunked_prefill_size=64)
    e.generate("Hello there", {"max_new_tokens": 2})
    import os, signal, time, psutil
    kids=[p for p in psutil.Process().children(recursive=True)]
    for p in kids:
        if "scheduler" in p.name() or "scheduler" in " ".join(p.cmdline()): p.kill()
    time.sleep(1.5)
    try:
        e.generate("Hello there", {"max_new_tokens": 2})
    except RuntimeError as e:
        print("CRASH SEEN", e)
    try: engine_slot.get(chunked_prefill_size=64).generate("Hello there", {"max_new_tokens": 2})
    except Exception as e:
        print("CRASH SEEN", repr(e))
def test_three(engine_slot):
    print(engine_slot.get().generate("Hello there", {"max_new_tokens": 2})["text"])
