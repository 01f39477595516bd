"""T1 … T4, T7 and D1 … D3.

Not here: what a running training script alone would show (T5, T10, T11, T12), and D5 and D7, which are no wrong numbers.
"""

from reference_tests.conformance.kit.learners.corpus import mistaken

TRAINING = (
    mistaken("T1", "notebook", "LabelSmoothingLoss",
             "self.criterion(logits.reshape(-1, self.vocab_size)",
             "self.criterion(torch.log_softmax(logits, dim=-1).reshape(-1, self.vocab_size)"),
    mistaken("T1", "config_objects", "label_smoothed_nll_loss",
             "nn.functional.log_softmax(lm_logits, dim=-1)",
             "nn.functional.log_softmax(lm_logits.log_softmax(dim=-1), dim=-1)"),
    mistaken("T2", "notebook", "LabelSmoothingLoss",
             "self.criterion(logits.reshape(-1, self.vocab_size)",
             "self.criterion(torch.softmax(logits, dim=-1).reshape(-1, self.vocab_size)"),
    mistaken("T2", "formulas", "cross_entropy",
             "    log_probs = logits - ", "    logits = softmax(logits)\n    log_probs = logits - "),
    mistaken("T3", "annotated", "LabelSmoothing",
             "true_dist = torch.full_like(x, self.smoothing / self.size)",
             "true_dist = torch.full_like(x, self.smoothing / (self.size - 2))",
             "true_dist.scatter_add_(1, target.unsqueeze(1), torch.full_like(x[:, :1], self.confidence))",
             "true_dist.scatter_(1, target.unsqueeze(1), self.confidence)\n"
             "        true_dist[:, self.padding_idx] = 0"),
    mistaken("T3", "formulas", "cross_entropy",
             "uniform = -log_probs.mean(-1)", "uniform = (-log_probs.sum(-1) - nll) / (logits.shape[-1] - 1)"),
    mistaken("T4", "notebook", "LabelSmoothingLoss",
             "nn.CrossEntropyLoss(ignore_index=padding_idx, label_smoothing=smoothing)",
             "nn.CrossEntropyLoss(label_smoothing=smoothing)"),
    mistaken("T4", "formulas", "cross_entropy",
             "per_token[keep].sum() / keep.sum()", "per_token.mean()"),
    mistaken("T4", "config_objects", "label_smoothed_nll_loss",
             "count = (~ignored).sum()", "count = labels.numel()"),
    mistaken("T7", "annotated", "rate",
             "min(step ** (-0.5), step * warmup ** (-1.5))", "step ** (-0.5)"),
    mistaken("T7", "formulas", "learning_rate",
             "min(step**-0.5, step * warmup_steps**-1.5)", "step**-0.5"),
    mistaken("D1", "formulas", "beam_search",
             "torch.log(softmax(next_logits(tokens)))", "next_logits(tokens)"),
    mistaken("D1", "annotated", "beam_search",
             "log_prob = model.generator(out[:, -1])", "log_prob = model.generator.proj(out[:, -1])"),
    mistaken("D2", "formulas", "beam_search",
             "                candidates.append((tokens, score))\n", ""),
    mistaken("D2", "annotated", "beam_search",
             "                grown.append((ys, score))\n", ""),
    mistaken("D3", "formulas", "beam_search",
             "            if tokens[-1] == end_id:\n                candidates.append((tokens, score))\n                continue\n",
             "",
             "        if all(tokens[-1] == end_id for tokens, _ in beams):\n            break\n", ""),
    mistaken("D3", "annotated", "beam_search",
             "            if ys[0, -1] == end_symbol:\n                grown.append((ys, score))\n                continue\n", ""),
)  # fmt: skip
