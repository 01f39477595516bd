"""All kinds of components that the kit knows, by name, from the smallest to the largest."""

from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.kinds import attention, blocks, decoding, embedding, layers, models, training
from scratch_transformer.kit.kinds import normalization as norms

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        *(norms.LAYER_NORM, norms.RMS_NORM, layers.SOFTMAX, layers.GELU, embedding.EMBEDDING, embedding.POSITIONS),
        models.EMBEDDING_WITH_POSITIONS,
        *(decoding.CAUSAL_MASK, decoding.PADDING_MASK, decoding.TARGET_MASK),
        *(attention.SDPA, attention.MULTIHEAD, attention.SELF_ATTENTION, attention.CAUSAL_SELF_ATTENTION),
        *(attention.CROSS_ATTENTION, layers.FEED_FORWARD, layers.RESIDUAL, layers.PROJECTION),
        *(blocks.ENCODER_LAYER, blocks.ENCODER, blocks.DECODER_LAYER, blocks.DECODER, blocks.DECODER_ONLY_LAYER),
        *(models.TOKEN_ENCODER, models.TOKEN_DECODER, models.SEQ2SEQ, models.GPT),
        *(training.LOSS, training.LOG_LOSS, training.SCHEDULE, decoding.GREEDY, decoding.BEAM),
    )
}
