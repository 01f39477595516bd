"""The application's other task: the model of `language_model.py` learns to continue a text.

The files, in the order of reading:

    config        every setting, in dataclasses
    texts         documents: of files, or the chapters of Python's help; the split
    vocabulary    pieces of words over bytes (BPE), so that every text comes back as it was
    packing       documents one behind the other, cut into sequences of one length
    objective     the model and its loss as one module
    run           a run's folder, and a trained model out of it
    perplexity    how surprised a model is by a text
    trainer       the loop, of a text
    train         from a configuration to a trained run

What is the same for both tasks is translation's: the loop, checkpoints, processes, schedules, logs, files.
Importing this package loads none of them.
"""
