"""The application: the model of `model.py` learns to translate.

The files, in the order of reading:

    config        every setting, in dataclasses; the presets tiny, base and big
    fields        what a setting may be
    settings      settings in sections, checked, as JSON
    settings_file settings from a TOML file
    corpus/       pairs of sentences: numbers in words, files, a hub's data set; the split
    tokenizer     words, characters or pieces of words (BPE), learned from the training pairs
    batches       pairs of similar length together, so that little is padding
    objective     the model and its loss as one module: what DDP, FSDP and torch.compile wrap
    distribution  several processes: who computes what, and the weights gathered
    validation    loss, exact matches and samples on pairs that are not trained on
    checkpoint    a run's folder, and a trained model out of it
    schedules     the learning rate of a step
    loop          steps, validations and checkpoints, of whatever is learned
    trainer       the loop, of pairs of sentences
    saving        the checkpoints of a training, written and continued from
    logs          what a run tells while it trains
    averaging     the mean of the last checkpoints
    train         from a configuration to a trained run
    decoding/     greedy, beam search and sampling, with keys and values kept
    translator    sentences in, translations out
    streaming     the same for the lines of a file, as they come
    metrics       how good translations are
    attention_maps  who attends to whom: pictures, and data for BertViz

Importing this package loads none of them.
"""
