"""All kinds of components that the kit knows, by name, from the smallest to the largest."""

from dataclasses import replace

from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.kinds import (
    attention,
    blocks,
    decoding,
    dropping,
    embedding,
    halves,
    layers,
    llama,
    models,
    optimizing,
    rotary,
    shared,
    today,
    tokens,
    training,
    windows,
)
from scratch_transformer.kit.kinds import normalization as norms

KINDS: dict[str, Kind] = {
    kind.name: replace(kind, today=today.TODAY.get(kind.name))
    for kind in (
        *(
            norms.LAYER_NORM,
            norms.RMS_NORM,
            layers.SOFTMAX,
            layers.LOG_SOFTMAX,
            layers.GELU,
            layers.SILU,
            layers.LINEAR,
            dropping.DROPOUT,
            embedding.PLAIN_EMBEDDING,
            embedding.EMBEDDING,
            embedding.POSITIONS,
        ),
        models.EMBEDDING_WITH_POSITIONS,
        *(decoding.CAUSAL_MASK, decoding.PADDING_MASK, decoding.TARGET_MASK),
        *(rotary.ROTARY, shared.REPEATED),
        *(attention.SDPA, attention.MULTIHEAD, attention.SELF_ATTENTION, attention.CAUSAL_SELF_ATTENTION),
        *(attention.CROSS_ATTENTION, llama.CAUSAL_ROTARY_ATTENTION, llama.ROTARY_ATTENTION),
        *(layers.SWIGLU, layers.FEED_FORWARD, layers.RESIDUAL, layers.PROJECTION),
        *(halves.ATTENTION_OUTPUT, halves.NETWORK_OUTPUT, halves.INTERMEDIATE, halves.SENTENCE_HEAD),
        *(blocks.ENCODER_LAYER, blocks.ENCODER, blocks.DECODER_LAYER, blocks.DECODER, blocks.DECODER_ONLY_LAYER),
        *(llama.LLAMA_BLOCK, llama.MASKED_LLAMA_BLOCK),
        *(models.TOKEN_ENCODER, models.TOKEN_DECODER, models.SEQ2SEQ, models.GPT, llama.LLAMA),
        *(training.LOSS, training.LOG_LOSS, training.SCHEDULE, decoding.GREEDY, decoding.BEAM),
        *(
            optimizing.ADAM,
            optimizing.ADAMW,
            optimizing.DECAY_GROUPS,
            optimizing.COSINE,
            optimizing.LINE,
            optimizing.CLIPPING,
            optimizing.SAMPLING,
        ),
        *(tokens.TOKENIZER, tokens.LETTER_TOKENIZER, windows.BATCHES),
    )
}
