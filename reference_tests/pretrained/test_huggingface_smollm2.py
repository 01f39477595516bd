"""Real weights, SmolLM2-135M-Instruct, as we and as transformers read them from the same file."""

from __future__ import annotations

import pytest
import torch

from reference_tests.pretrained.huggingface import in_float64
from reference_tests.pretrained.test_gguf import needs_smollm2
from scratch_transformer.pretrained import gguf

transformers = pytest.importorskip("transformers", reason="transformers is not installed: tox -e huggingface has it")
pytestmark = needs_smollm2
__all__ = ["in_float64"]

TEXT = "Naïve café, 東京! In 1889, Gustave Eiffel's tower opened;\n\n\tdef f(x):  return x**2 # 3.14159 <|im_end|>"


@torch.no_grad()
def test_logits_tokens_and_texts_are_theirs(in_float64):
    path = gguf.installed_weights()
    ours = gguf.load_gguf(path, torch.float64)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name).double().eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    ids = ours.encode(TEXT)
    assert ours.decode(ids) == tokenizer.decode(ids, skip_special_tokens=True)
    batch = torch.tensor([ids])
    expected, found = theirs(batch).logits, ours.model(batch)
    assert ((found - expected).norm() / expected.norm()).item() < 1e-10
