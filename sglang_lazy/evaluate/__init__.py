"""What encoding documents alone costs a model's answers: ``python -m sglang_lazy.evaluate``.

The same questions over the same documents are asked with full attention and in each quality
mode. The parts, in the order in which a run goes through them:

    dataset    questions, documents and gold answers (``convert/`` makes them from public sets)
    modes      how the documents of a prompt are sent
    prompt     one template, the same token ids in every mode
    client     a running server, or an engine in this process
    measure    one question in one mode: answers, NLL, divergence, reuse
    run        all questions in all modes; results go to a file as they come (``results``)
    summary    means, differences to full attention, bootstrap intervals
    report     the table; ``plot`` the figure; ``record`` one JSON a mode
"""
