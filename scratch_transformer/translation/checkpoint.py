"""A run's folder: what is in it, and a trained model out of it.

RUN/config.json                 every setting
RUN/tokenizer.json              the shared vocabulary, or source_tokenizer.json and target_tokenizer.json
RUN/held_out.jsonl              the held-out pairs, one ["source", "target"] a line
RUN/checkpoints/step-00000200/  model.safetensors, optimizer.safetensors, state.json; whole, or not there
RUN/model.safetensors           instead of checkpoints, in a folder that `scratch-transformer average` wrote,
RUN/sha256.json                 and the checksums, which a checkpoint has in its state.json
RUN/log.jsonl, RUN/tensorboard/ the curves
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scratch_transformer.translation import config as settings
from scratch_transformer.translation.config import Config
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.files import check_digest, read_bytes, read_json, read_tensors
from scratch_transformer.translation.tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from scratch_transformer.model import Transformer
    from scratch_transformer.translation.decoding import MergedDecoder


@dataclass(frozen=True)
class Run:
    """A trained model, ready to translate: in evaluation mode, with its vocabularies and settings.

    weights: the folder that the weights are from.
    """

    folder: Path
    weights: Path
    config: Config
    model: Transformer
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    _merged: dict[bool, MergedDecoder] = field(default_factory=dict, init=False, repr=False, compare=False)

    def merged(self, eight_bits: bool = False) -> MergedDecoder:
        """The decoder's weights as steps need them: made at the first call, of the model as it is then."""
        from scratch_transformer.translation.decoding import MergedDecoder

        if (kept := self._merged.get(eight_bits)) is None:
            kept = self._merged[eight_bits] = MergedDecoder(self.model, eight_bits)
        return kept

    def held_out(self) -> list[tuple[str, str]]:
        """The pairs that were kept from the training and from the choice of the best checkpoint."""
        return read_pairs(self.folder / "held_out.jsonl")


def load_run(path: str | Path, device: str = "cpu") -> Run:
    """The best model of a run, or that of one checkpoint: RUN/checkpoints/step-00000200.

    Raises:
        InputError: there is no run, or one of its files is missing, damaged, or of another kind.
    """
    given = Path(path)
    folder = run_of(given)
    config = read_config(folder)
    weights = given if given != folder or (given / "model.safetensors").is_file() else best(folder)
    source, target = read_tokenizers(folder, config, read_checksums(weights))
    model = build_model(config, source.vocab_size, target.vocab_size)
    load_weights(model, weights)
    return Run(folder, weights, config, model.to(device).eval(), source, target)


def run_of(given: Path) -> Path:
    """The run's folder, of itself or of one of its checkpoints."""
    return given.parent.parent if given.parent.name == "checkpoints" else given


def build_model(config: Config, source_vocab_size: int, target_vocab_size: int) -> Transformer:
    """The model of a configuration, freshly drawn.

    Raises:
        InputError: there is no memory for it.
    """
    from scratch_transformer.model import build_transformer

    m, length = config.model, config.data.max_length
    try:
        return build_transformer(
            source_vocab_size, target_vocab_size, length, length,
            m.d_model, m.num_layers, m.num_heads, m.dropout, m.d_ff, decoder_N=m.decoder_layers,
            norm=m.norm, positions=m.positions, share_embeddings=m.share_embeddings, attention_bias=m.attention_bias,
        )  # fmt: skip
    except (MemoryError, RuntimeError) as error:  # torch's for the same, on CPU and GPU
        if "memory" not in str(error):
            raise
        sizes = f"model.d_model={m.d_model}, model.d_ff={m.d_ff} and model.num_layers={m.num_layers}"
        raise InputError(f"there is no memory for a model with {sizes}: expected less") from None


def tensors_of(model: Module) -> dict[str, Tensor]:
    """The model's parameters, each once, also where two modules share one."""
    return dict(model.named_parameters())


def load_weights(model: Module, folder: Path) -> None:
    """Give a model the weights of a folder that holds model.safetensors, and perhaps its checksum.

    Raises:
        InputError: the file is missing or damaged, or holds another model, or one that diverged.
    """
    import torch

    path = folder / "model.safetensors"
    saved, own = read_weights(folder), tensors_of(model)
    for name in sorted(own.keys() ^ saved.keys()):
        raise InputError(f"{path}: {'lacks' if name in own else 'has an unknown'} {name}: it is of another model")
    with torch.no_grad():
        for name, parameter in own.items():
            if saved[name].shape != parameter.shape:
                shapes = f"{tuple(saved[name].shape)}, not {tuple(parameter.shape)}"
                raise InputError(f"{path}: {name} has shape {shapes}: it is of another model")
            parameter.copy_(saved[name])


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of model.safetensors in a folder, which may have its checksum.

    Raises:
        InputError: the file is missing or damaged, or is of a model that diverged.
    """
    path = folder / "model.safetensors"
    saved = read_tensors(path, read_checksums(folder).get(path.name))
    for name, tensor in saved.items():
        if not tensor.isfinite().all():
            raise InputError(f"{path}: {name} has values that are no finite numbers: the model is of no use")
    return saved


# ---- What a run's folder holds ----


def read_config(folder: Path) -> Config:
    """The settings of the run in `folder`."""
    check_is_run(folder)
    return Config.from_json(read_json(folder / "config.json"), where=str(folder / "config.json"))


def check_is_run(folder: Path) -> None:
    """Raises InputError unless `folder` is a run's, whatever was learned in it."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}: expected one that `scratch-transformer train` wrote")
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder} is no run: it has no config.json")


def tokenizer_names(config: Config) -> list[str]:
    """The file of the shared vocabulary, or those of source and target."""
    return ["tokenizer.json"] if config.tokens.shared else ["source_tokenizer.json", "target_tokenizer.json"]


def read_tokenizers(
    folder: Path, config: Config, checksums: dict[str, str] | None = None
) -> tuple[Tokenizer, Tokenizer]:
    """The vocabularies of source and target; one and the same if they are shared. checksums: those that are known.

    Raises:
        InputError: a file is missing or damaged, or is not the one that the model was trained with.
    """
    for name in tokenizer_names(config):
        check_digest(folder / name, (checksums or {}).get(name))
    if config.tokens.shared:
        shared = Tokenizer.load(folder / "tokenizer.json")
        return shared, shared
    return Tokenizer.load(folder / "source_tokenizer.json"), Tokenizer.load(folder / "target_tokenizer.json")


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """Pairs that were written one ["source", "target"] a line."""
    pairs = []
    for number, line in enumerate(read_bytes(path).splitlines(), start=1):
        try:
            pair = json.loads(line)
        except (ValueError, RecursionError):
            pair = None
        if not isinstance(pair, list) or list(map(type, pair)) != [str, str]:
            raise InputError(f'{path}, line {number}: expected ["source", "target"]')
        pairs.append((pair[0], pair[1]))
    return pairs


def read_checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of the files that belong to the weights in a folder: of none, where nobody wrote them down."""
    if (folder / "state.json").exists():
        return dict(read_state(folder)["sha256"])
    if not (folder / "sha256.json").exists():
        return {}
    checksums = read_json(folder / "sha256.json")
    if not isinstance(checksums, dict):
        raise InputError(f"{folder / 'sha256.json'}: expected the checksums of files by their names")
    return checksums


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run, the oldest first; a copy that somebody put beside them is none."""
    found = (folder / "checkpoints").glob("step-*")
    return sorted(path for path in found if path.is_dir() and re.fullmatch(r"step-\d{8}", path.name))


def best(folder: Path) -> Path:
    """The checkpoint that validated best, by `training.best`.

    Raises:
        InputError: there is none.
    """
    found = checkpoints(folder)
    if not found:
        raise InputError(f"{folder} has no checkpoint yet: the training has not come that far")
    return folder / "checkpoints" / step_name(read_state(found[-1])["best_step"])


def step_name(step: int) -> str:
    """The folder of a checkpoint: names sort as numbers."""
    return f"step-{step:08d}"


def read_state(folder: Path) -> dict[str, Any]:
    """What a checkpoint says about itself and the training so far.

    Raises:
        InputError: it is missing, damaged, or of another kind.
    """
    path = folder / "state.json"
    state = read_json(path)
    if not isinstance(state, dict) or state.get("format") != settings.FORMAT:
        raise InputError(f'{path}: is no checkpoint of this program: expected "format": "{settings.FORMAT}"')
    kinds: dict[str, type] = {"step": int, "epoch": int, "epoch_start": int, "best_step": int, "waited": int}
    kinds |= {"best_score": float, "data": str, "sha256": dict}
    for name, kind in kinds.items():
        if type(state.get(name)) is not kind:
            raise InputError(f"{path}: {name} is {state.get(name)!r}: expected a JSON {kind.__name__}")
    if folder.parent.name == "checkpoints" and step_name(state["step"]) != folder.name:
        raise InputError(f"{path}: step is {state['step']}: expected that of the folder, {folder.name}")
    if not 0 <= state["epoch"] <= state["epoch_start"] <= state["step"]:
        raise InputError(f"{path}: epoch and epoch_start: expected 0 ≤ epoch ≤ epoch_start ≤ step")
    if not 0 < state["best_step"] <= state["step"] or state["waited"] < 0:
        best_step, waited = state["best_step"], state["waited"]
        raise InputError(f"{path}: {best_step=} and {waited=}: expected a step up to {state['step']}, and at least 0")
    return state
