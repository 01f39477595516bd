"""Greedy and beam search, and the functions that build masks."""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer.kit.canonical.decoding import Beam, Greedy, NextLogits
from scratch_transformer.kit.canonical.masks import CausalMask, CombinedMask, PaddingMask
from scratch_transformer.kit.kind import Extra, Kind, Probe, Settings
from scratch_transformer.kit.kinds.choices import combined
from scratch_transformer.kit.kinds.inputs import B, Draw, S, T

VOCABULARY, BOS, EOS, MAX_LEN = 9, 1, 2, 10
OTHER_BOS = 4
"""Where a model says it: another one than the usual, which may be the end of a text that has it written in."""
SOURCE = "Vaswani et al. 2017, section 6.1"


def toy_model(seed: int, eos_from: int, shift: float = 0.0, longest: int | None = None) -> NextLogits:
    """A model whose logits depend on the last two ids and the position; eos is likely from length `eos_from` on.

    shift: added to all logits at odd positions, which changes no probability. longest: how many ids it says it takes.
    """
    generator = torch.Generator().manual_seed(seed)
    V = VOCABULARY
    table = torch.randn(V, V, V, generator=generator, dtype=torch.float64) * 2.0

    def next_logits(ids: Tensor) -> Tensor:
        before = torch.cat([ids.new_full((ids.shape[0], 1), BOS), ids[:, :-1]], dim=1)
        logits = table[before, ids].clone()  # (B, T, V)
        length = torch.arange(1, ids.shape[1] + 1)
        logits[..., EOS] += torch.where(length >= eos_from, 3.0, -3.0)
        logits[..., BOS] -= 20.0
        return logits + shift * (length % 2)[:, None]

    next_logits.longest = longest  # type: ignore[attr-defined]
    return next_logits


def search_inputs(seed: int, eos_from: int, shift: float = 0.0, longest: int | None = None) -> dict[str, object]:
    return {"next_logits": toy_model(seed, eos_from, shift, longest), "bos": BOS, "eos": EOS, "max_len": MAX_LEN}


def greedy_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    never = Probe("never ends", search_inputs(5, 99), shows="a model that never says eos")
    if not settings["knows_eos"]:
        return (never,)
    return Probe("ends", search_inputs(4, 4), shows="a model that says eos after a few words"), never


def longer(settings: Settings) -> Probe:
    """Texts that grow longer than the model takes: it knows the next word by the last two, so the last are enough."""
    inputs = search_inputs(10, 99, longest=4)
    return Probe("longer", inputs, shows="texts that grow longer than the model takes")


def at_once(settings: Settings) -> Probe:
    """The end before any other word, where the end is known; what stops at a later one may still miss it."""
    return Probe(
        "ends at once", search_inputs(7, 1 if settings["knows_eos"] else 99), shows="a model that says eos first"
    )


def begins_again(settings: Settings) -> Probe:
    """Of what knows no end, a text in which the model says again what texts begin with: a word as any other."""
    if settings["knows_eos"]:
        return greedy_probes(settings, 0)[0]
    model = toy_model(5, 99)

    def next_logits(ids: Tensor) -> Tensor:
        logits = model(ids)
        logits[:, 3:4, OTHER_BOS] += 30.0
        for place in range(MAX_LEN + 1, ids.shape[1]):  # then all words in turn: what has an end of its own finds it
            logits[:, place, place % VOCABULARY] += 60.0
        return logits

    inputs = {"next_logits": next_logits, "bos": OTHER_BOS, "eos": EOS, "max_len": MAX_LEN}
    return Probe("begins again", inputs, shows="a model that says again what texts begin with")


def beam_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    return tuple(
        Probe(
            f"model {i}",
            {**search_inputs(20 + i, 2 + i % 3, 5.0 * (i % 2)), "beam_size": settings["beam_size"]},
            shows="models that end after a few words",
        )
        for i in range(8)
    )


ENDS = {
    "": {"ends": "bos, eos"},
    "without eos": {"ends": "bos"},
    "without bos": {"ends": "eos"},
    "without bos and eos": {"ends": ""},
}
LENGTHS = {"": {"decoding": "right"}}
PENALTY = {"": {"length_penalty": 0.0}, "divided by the length": {"length_penalty": 1.0}}
ONE_MORE = {"": {}, "one more": {"writes": "one more"}}
"""max_len may be how many words are written behind the first one."""

GREEDY = Kind(
    name="GreedyDecoding",
    what="Writes the most probable next word, again and again, until the end token.",
    synonyms=("greedydecode", "greedysearch", "greedy", "generate", "translate", "greedydecoding"),
    source=SOURCE,
    inputs=("next_logits", "bos", "eos", "max_len"),
    defaults={"knows_eos": True},
    build=lambda settings, recipe: Greedy(recipe),
    probes=greedy_probes,
    mistakes=("D4", "D6", "D8", "D9", "D10", "D11", "B32"),
    extras=(Extra(("D9",), longer), Extra(("D4",), at_once), Extra(("D4",), begins_again)),
    designs=combined(ENDS, ONE_MORE | {"one less": {"writes": "one less"}}),
)
BEAM = Kind(
    name="BeamSearch",
    what="Keeps the few best beginnings of a translation, and writes each of them on.",
    synonyms=("beamsearch", "beamdecode", "beamsearchdecode", "beam", "beamdecoding"),
    source=SOURCE,
    inputs=("next_logits", "bos", "eos", "max_len", "beam_size"),
    defaults={"beam_size": 3},
    build=lambda settings, recipe: Beam(recipe),
    probes=beam_probes,
    mistakes=("D1", "D2", "D3", "D12", "B32"),
    designs=combined(ENDS, PENALTY, ONE_MORE),
)


# ---- Masks ----


def causal_mask_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    return (Probe("5", {"length": 5}, shows="5 tokens"), Probe("1", {"length": 1}, shows="one token"))


def padding_mask_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    ids, pad = Draw(seed).ids(B, S, below=6), settings["pad"]
    right = ids.masked_fill(torch.arange(S) >= torch.tensor([[S], [4]]), pad)
    left = ids.masked_fill(torch.arange(S) < torch.tensor([[0], [2]]), pad)
    return (Probe("right", {"ids": right}, shows="right padding"), Probe("left", {"ids": left}, shows="left padding"))


def combined_mask_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    return tuple(
        Probe(p.name, {"ids": p.inputs["ids"][:, :T]}, shows=p.shows) for p in padding_mask_probes(settings, 1)
    )


POLARITY = {"True = may attend": {"blocked_is": "False"}, "True = blocked": {"blocked_is": "True"}}
ROWS = {"": {}, "rows of padding blocked too": {"padding": "both"}}
SHAPES = {2: "(length, length)", 3: "(1, length, length)", 4: "(1, 1, length, length)"}
MASK_SOURCE = "Vaswani et al. 2017, section 3.2.3"

CAUSAL_MASK = Kind(
    name="CausalMask",
    what="Says which tokens each token may attend to: itself and those before it.",
    synonyms=(
        *("causalmask", "subsequentmask", "lookaheadmask", "trianglemask", "triangularmask"),
        *("generatesquaresubsequentmask", "nopeakmask", "subsequencemask", "futuremask", "autoregressivemask"),
    ),
    source=MASK_SOURCE,
    inputs=("length",),
    defaults={},
    build=lambda settings, recipe: CausalMask(recipe),
    probes=causal_mask_probes,
    mistakes=("A6", "A5", "A25:", "A10", "A16:"),
    designs=combined({f"shape {shape}": {"mask_shape": str(n)} for n, shape in SHAPES.items()}, POLARITY),
)
PADDING_MASK = Kind(
    name="PaddingMask",
    what="Says which tokens are padding, so that nothing attends to them.",
    synonyms=(
        *("paddingmask", "padmask", "createpaddingmask", "makepadmask", "makesrcmask", "getpadmask", "srcmask"),
        *("extendattentionmask", "extendedattentionmask", "expandattentionmask", "expandmask", "invertattentionmask"),
    ),
    source=MASK_SOURCE,
    inputs=("ids",),
    defaults={"pad": 0},
    build=lambda settings, recipe: PaddingMask(dict(settings), recipe),
    probes=padding_mask_probes,
    mistakes=("A7:queries instead of keys", "T5", "A10", "A11:", "A16:", "B32"),
    designs=combined({f"{n} axes": {"mask_shape": str(n)} for n in (2, 3, 4)}, POLARITY, ROWS),
)
TARGET_MASK = Kind(
    name="TargetMask",
    what="Hides padding and the future from every token of the decoder.",
    synonyms=("targetmask", "makestdmask", "maketrgmask", "maketgtmask", "createtargetmask", "decodermask", "tgtmask"),
    source=MASK_SOURCE,
    inputs=("ids",),
    defaults={"pad": 0},
    build=lambda settings, recipe: CombinedMask(dict(settings), recipe),
    probes=combined_mask_probes,
    mistakes=(
        *("A5", "A6", "A7:queries instead of keys", "A24:padding is ignored", "A25:"),
        *("T5", "A10", "A11:", "A16:", "B32"),
    ),
    designs=combined({f"{n} axes": {"mask_shape": str(n)} for n in (3, 4)}, POLARITY, ROWS),
)
