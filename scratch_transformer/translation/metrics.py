"""How good translations are: BLEU, chrF, CER, WER and exact matches of texts; accuracy and perplexity of tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from scratch_transformer.translation.checkpoint import Run
from scratch_transformer.translation.decoding import token_log_probabilities
from scratch_transformer.translation.translator import batches

MEANINGS = {
    "BLEU": "how many word sequences agree, 0 to 100 (sacrebleu; Papineni et al. 2002)",
    "chrF": "how many character sequences agree, 0 to 100 (sacrebleu; Popović 2015)",
    "CER": "wrong characters, as a share of the reference's (jiwer)",
    "WER": "wrong words, as a share of the reference's (jiwer)",
    "exact_match": "sentences translated exactly as the reference, as a share of all",
    "token_accuracy": "tokens of the reference that the model puts first, given those before",
    "perplexity": "exp of the mean -log P of a token of the reference, given those before",
}


def text_metrics(translations: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """The scores of translations against one reference each; BLEU and chrF with sacrebleu's signatures.

    BLEU takes the mean over sequences of one to four words, of those lengths that the translations have at all: single
    words can agree too. For sentences of four words that is the usual BLEU, to the digit.

    Raises:
        ValueError: no translations, another number of references, or an empty reference.
    """
    if not translations or len(translations) != len(references):
        numbers = f"{len(translations)} translations and {len(references)} references"
        raise ValueError(f"metrics: expected as many references as translations, and at least one, but got {numbers}")
    for number, reference in enumerate(references, start=1):
        if not reference.strip():
            raise ValueError(f"metrics: reference {number} is empty: expected a translation")
    import jiwer
    import sacrebleu

    found, expected = list(translations), list(references)
    scores: dict[str, Any] = {}
    for name, metric in {"BLEU": sacrebleu.BLEU(effective_order=True), "chrF": sacrebleu.CHRF()}.items():
        scores[name] = metric.corpus_score(found, [expected]).score
        scores[f"{name} signature"] = str(metric.get_signature())
    scores["CER"], scores["WER"] = jiwer.cer(expected, found), jiwer.wer(expected, found)
    scores["exact_match"] = sum(map(str.__eq__, found, expected)) / len(expected)
    return scores


def token_metrics(run: Run, sources: Sequence[Sequence[int]], references: Sequence[str]) -> dict[str, float]:
    """Accuracy and perplexity of the references' tokens, eos included, each given the source and those before it.

    The sources are ids, ended by eos. Label smoothing plays no part.
    """
    target, model = run.target_tokenizer, run.model
    count, right, log_p = 0, 0, 0.0
    for indices, ids in batches(sources, run.source_tokenizer.pad_id, next(model.parameters()).device):
        tokens = [[*target.encode(references[i]), target.eos_id] for i in indices]
        scores, likeliest = token_log_probabilities(model, ids, run.source_tokenizer.pad_id, tokens, target.bos_id)
        for reference, of_tokens, best in zip(tokens, scores, likeliest, strict=True):
            count += len(reference)
            right += sum(a == b for a, b in zip(reference, best, strict=True))
            log_p += sum(of_tokens)
    mean_loss = -log_p / count
    return {"token_accuracy": right / count, "perplexity": math.exp(mean_loss) if mean_loss < 700 else math.inf}
