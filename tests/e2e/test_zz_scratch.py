import time
def test_time(subject, writer):
    from .prompts import Prompt
    from .subject import scored
    for i in range(4):
        p = Prompt.of(writer.story(1+i, 20), (writer.story(7, 60),), (writer.story(8, 40),), writer.story(9, 30))
        t=time.time(); o=subject.server.generate(**subject.fields(p), **scored()); t1=time.time(); subject.rows(p, 149); t2=time.time()
        subject.server.flush_cache(); t3=time.time()
        print(f"ask {t1-t:.2f} oracle {t2-t1:.2f} flush {t3-t2:.2f}")
