"""Designs that the kit has no reference for, told by the words of their code: that is said in place of "unknown"."""

from __future__ import annotations

import inspect
import re
from typing import Any

from scratch_transformer.kit.definitions import is_module_class, leads_to, names_in, source_of

BEFORE_AND_AFTER = "a norm before and one after every sublayer"
OF_EXPERTS = "a mixture of experts"
RECURRENT = "a recurrence in place of attention"
OF_ADAPTERS = "linear layers with low-rank matrices beside theirs (LoRA)"
OF_LOW_RANK = "linear layers of low rank, two narrow matrices for one"
DESIGNS: dict[str, tuple[str, ...]] = {
    OF_EXPERTS: (r"experts?$|^experts?(?!ise)|moe", r"rout|gat|topk|expert"),
    "attention with a bias for every distance (ALiBi)": (r"alibi", r"slope|bias|alibi"),
    "attention in which no token sees itself (LSA)": (r"local(ity)?_?(self_?)?att|^lsa$", r"temperature|diag|^eye$"),
    "attention by relative positions": (
        r"^rel(ative)?_?(pos|bias|emb|att|key|val|shift|index|dist|logit|k|v)|relative_?(pos|att|bias|key)|disentangled"
        r"|^skew|^_skew|(^|_)(c2p|p2c)|pos_?(bias|logits|scores)|att\w*_relative(_|$)|(^|_)relative_\w*att",
        r".",
    ),
    "latent attention": (r"(kv|q)_?(lora|latent|compress|down)|latent_?kv", r"rank|latent|lora|down"),
    OF_ADAPTERS: (
        r"^lora_?[ab]$|(^|_)lo_?ra_?(layer|linear|adapter|module)$|(linear|layer)_?(with_?)?lo_?ra$",
        r"rank|alpha|scal",
    ),
    OF_LOW_RANK: (r"(^|_)(low_?rank|svd|factori[sz]ed)_?(linear|layer|proj|ff|mlp)", r"rank"),
    "linear attention": (r"linear_?att|cos_?former|performer|linformer|feature_map|nystrom|random_features", r"."),
    "attention with sinks": (r"^sinks?(_|$)|attn_?sink", r"."),
    "attention by a similarity of its own": (r"sim+(ilarity)?_att|(rbf|gauss\w*|euclid\w*|laplac\w*)_att", r"."),
    "additive attention": (r"additive_?(att|scor)(?!.*mask)|bahdanau", r"."),
    "attention that makes one vector of a sentence (pooling)": (r"att\w*_?pool|pool\w*_?att|attentive_pool", r"."),
    "differential attention": (r"lambda_(init|q|k)", r"."),
    "attention within a sliding window": (r"sliding|window(ed)?_?att|local_?att", r"window"),
    "a state space model": (r"mamba|selective_scan|^ssm", r"."),
    "another loss than cross-entropy": (
        r"^(focal|un_?likelihood|contrastive|triplet|dice|hinge|info_?nce|distill\w*|ranking)_loss(_?\dd)?$",
        r".",
    ),
    "cross-entropy with a penalty of log Σ exp (z-loss)": (r"z_?loss|log_?z$", r"logsumexp|log_?z"),
    "positions in rows and columns": (r"2_?d_?(learned|sin\w*)?_?pos|pos\w*_?2_?d(?![a-z])|sin_?cos_?2_?d", r"."),
    "linear layers with weights of few bits": (
        r"bit_?linear|ternar|(quant\w*|int_?[48]|(one|\d)_?bit)_?(linear|weight)|(linear|weights?)_?(quant|int_?[48])",
        r"round|sign$|clamp|clip|scale",
    ),
    BEFORE_AND_AFTER: (
        r"pre_?(feed_?forward|ffn?|mlp)_?(layer_?|rms_?)?norm",
        r"post_?(feed_?forward|ffn?|mlp)_?(layer_?|rms_?)?norm",
    ),
    "attention without queries and keys (Synthesizer)": (r"synthesi[sz]er", r"."),
    "attention between a context and a question (BiDAF)": (r"bidaf|bi_?directional_?att|c2q|context2query", r"."),
    "a model of states, actions and what they return (Decision Transformer)": (
        r"^returns?_to_go$|^rtgs?$",
        r"^actions?$",
    ),
    "norms that a condition scales and shifts (adaLN)": (
        r"^ada_?(ln|(layer_?|rms_?)?norm)|adaptive_?(layer_?|rms_?)?norm|^ada_?ln_?(zero|modulation)",
        r".",
    ),
    "embeddings of the steps of a diffusion": (r"^time_?(step)?s?_?emb|^diffusion_?step_?emb", r"freq|^sin$"),
    "scores that are capped by tanh (soft-capping)": (r"soft_?cap|logits?_?cap", r"^tanh$"),
    "residuals that learned numbers weigh": (r"resid(ual)?_?(lambda|scale|weight|alpha)s$|^x0_lambdas$", r"."),
    RECURRENT: (r"rwkv|^wkv|(time|channel)_mix|retention|ret_?net", r"."),
}
"""Words for each -> what its code has a name like, and a second one."""
SAID = "of a design that is not known here: {}"


def design_of(thing: Any) -> str:
    """What a class or a function is of, if it is of such a design, or made of a part that is; else ""."""
    off = _options_off(thing)
    for one in (thing, *leads_to(thing)):
        own = {getattr(one, "__name__", ""), *names_in(one)}
        words = {re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() for name in own}
        for design, patterns in DESIGNS.items():
            is_an_option = any(re.search(patterns[0], name) for name in off)
            if not is_an_option and all(any(re.search(pattern, word) for word in words) for pattern in patterns):
                return SAID.format(design)
    return ""


def of_parts(thing: Any) -> str:
    """That a class of modules whose name says nothing is a mixture of experts, or chooses those, or a linear layer of
    low rank, or with one beside it, or recurrent; "" of any other.
    """
    known = [SAID.format(design) for design in (OF_EXPERTS, OF_LOW_RANK, OF_ADAPTERS, RECURRENT)]
    return design if is_module_class(thing) and (design := design_of(thing)) in known else ""


def _options_off(thing: Any) -> list[str]:
    """What it may be told to do, and is not unless it is told: alibi=False; n_experts=None, where it asks for that."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return []
    code = source_of(thing)
    asked = [p.name for p in parameters if p.default is None and re.search(rf"\b{p.name} is (not )?None\b", code)]
    return [name.lower() for name in (*asked, *(p.name for p in parameters if p.default is False))]
