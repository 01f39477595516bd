"""Language models that others trained: the Hugging Face folder of one becomes a `LanguageModel`.

GPT-2, Llama, Mistral without a window, Qwen 2, Qwen 3.

| file                                | holds                                                 |
|-------------------------------------|-------------------------------------------------------|
| `config.json`                       | sizes and variants, checked in `causal_config.py`     |
| `model.safetensors`, or             | the weights, plain tensors                            |
| `model.safetensors.index.json`      | which of several such files holds which weight        |
| `generation_config.json`            | the tokens that end a text, if `config.json` does not |
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from scratch_transformer.language_model import LanguageModel
from scratch_transformer.pretrained.causal_config import read_causal_config
from scratch_transformer.pretrained.causal_names import renamed
from scratch_transformer.pretrained.config import read_json
from scratch_transformer.pretrained.files import read_tensors

INDEX = "model.safetensors.index.json"


def from_pretrained(
    folder: str | Path, dtype: torch.dtype | None = torch.float32, device: torch.device | str | None = None
) -> LanguageModel:
    """The model in a Hugging Face folder, in evaluation mode.

    dtype: of the parameters, whatever that of the file; None: as in the file. device: the CPU unless given.

    Raises:
        ModuleNotFoundError: safetensors is not installed.
        FileNotFoundError: the folder or one of its files is missing.
        ValueError: a file does not hold what its name says, or asks for what this model cannot do.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder}; expected one with config.json and model.safetensors")
    family, config = read_causal_config(folder)
    with torch.device("meta"):  # no memory, and no time to draw what is overwritten
        model = LanguageModel(config)
    state = _read_state(folder)
    try:
        found = {name: tensor.to(device, dtype).contiguous() for name, tensor in renamed(family, config, state).items()}
        model.load_state_dict(found, strict=True, assign=True)
    except (ValueError, RuntimeError) as error:  # RuntimeError: load_state_dict lists the shapes that differ
        raise ValueError(f"the weights in {folder} do not fit its config.json: {error}") from error
    return model.eval()


def stop_ids(folder: str | Path) -> tuple[int, ...]:
    """The tokens that end a text, as `generation_config.json` says, or else `config.json`: none, one or several."""
    for name in ("generation_config.json", "config.json"):
        path = Path(folder) / name
        found = (read_json(path) if path.exists() else {}).get("eos_token_id")
        if found is not None:
            ids = found if isinstance(found, list) else [found]
            if not all(type(i) is int for i in ids):
                raise ValueError(f"{path}: eos_token_id is {found!r}; expected a token's number, or several")
            return tuple(ids)
    return ()


def _read_state(folder: Path) -> dict[str, Tensor]:
    """Every tensor of the folder's one safetensors file, or of all that its index names."""
    index = folder / INDEX
    if not index.is_file():
        return read_tensors(folder / "model.safetensors")
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise ValueError(f"{index}: weight_map is {type(places).__name__}; expected a table of tensors and their files")
    state: dict[str, Tensor] = {}
    for name in sorted(set(places.values())):
        if Path(name).name != name:
            raise ValueError(f"{index}: names the file {name!r}; expected one beside it")
        state |= read_tensors(folder / name)
    if lost := sorted(set(places) - set(state)):
        raise ValueError(f"{index}: {lost[0]} is not in {places[lost[0]]}")
    return state
