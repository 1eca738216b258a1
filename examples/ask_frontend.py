"""Ask about notes with SGLang's frontend language.

`document(text)` is a block of a program like any other expression: made once, appended
wherever it is wanted. Its KV is computed once as well.
"""

import sglang as sgl
from questions import MAX_TOKENS, QUESTIONS, SYSTEM, base_url, best_notes, read_notes, report
from sglang.lang.interpreter import ProgramState

from sglang_lazy import document

NOTES = read_notes()
BLOCKS = {note.name: document(f"{note.title}\n{note.text}") for note in NOTES}


@sgl.function
def answer(s: ProgramState, names: list[str], question: str) -> None:
    s += sgl.system(SYSTEM)
    with s.user():
        for name in names:
            s += BLOCKS[name]
        s += question
    s += sgl.assistant(sgl.gen("answer", max_tokens=MAX_TOKENS, temperature=0))


def main() -> None:
    # The frontend has chat templates of its own, and chooses by the model's name.
    backend = sgl.RuntimeEndpoint(base_url(__doc__), chat_template_name="chatml")
    for question in QUESTIONS:
        names = [note.name for note in best_notes(question, NOTES)]
        state = answer.run(names=names, question=question, backend=backend)
        meta = state.get_meta_info("answer")
        report(question, state["answer"], names, meta["prompt_tokens"], meta["cached_tokens"])


if __name__ == "__main__":
    main()
