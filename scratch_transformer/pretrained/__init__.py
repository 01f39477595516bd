"""Weights that others trained, on this package's layers: a sentence encoder, and language models.

The language models, from Hugging Face folders of GPT-2, Llama and Qwen 3 (`from_pretrained`):

    causal_config      the settings of such a folder, as a `language_model.Config`
    causal_names       which of their tensors becomes which parameter of ours: literal tables
    causal             finds and reads the files

The sentence encoder, whose embeddings mean something:

    names              which BERT tensor becomes which parameter of ours: one literal table
    sentence_encoder   embeddings -> nn.TransformerEncoder -> mean pooling -> unit length
    config             the settings of a model folder, checked
    files              finds and reads a model folder in Hugging Face's BERT layout
    sentences          text -> embeddings -> similarity

In use:

    from scratch_transformer import pretrained

    vectors = pretrained.embed(["A cat sleeps.", "A kitten naps.", "Shares fell."])
    pretrained.cosine(vectors)
"""

from scratch_transformer.pretrained.causal import from_pretrained
from scratch_transformer.pretrained.config import BertConfig
from scratch_transformer.pretrained.files import Pretrained, load
from scratch_transformer.pretrained.names import from_bert, to_bert
from scratch_transformer.pretrained.sentence_encoder import SentenceEncoder
from scratch_transformer.pretrained.sentences import TruncationWarning, cosine, embed

__all__ = [
    "BertConfig",
    "Pretrained",
    "SentenceEncoder",
    "TruncationWarning",
    "cosine",
    "embed",
    "from_bert",
    "from_pretrained",
    "load",
    "to_bert",
]
