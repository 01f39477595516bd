"""The keys and values of the tokens so far."""

from __future__ import annotations

from torch import Tensor

from scratch_transformer import checks


class KeyValueCache:
    """Keys and values of all tokens so far in every layer of one model, so that a new token is computed alone.

    Each layer has room for `capacity` tokens in one piece of memory, of as many heads as its keys have: where queries
    share keys, so much less. It doubles when it is used up. For generating, under `torch.no_grad()` or
    `torch.inference_mode()`. Source: Shazeer 2019, section 2.4.

        cache = KeyValueCache(num_layers)
        logits = model(prompt, cache=cache)    # (B, L)
        logits = model(newest, cache=cache)    # (B, 1)

    Shapes: B batch, G heads of keys and values, S tokens so far, D width of a head.

    Raises:
        ValueError: num_layers or capacity is not positive.
    """

    def __init__(self, num_layers: int, capacity: int = 64) -> None:
        if num_layers < 1 or capacity < 1:
            raise ValueError(
                f"KeyValueCache: num_layers and capacity must be positive, but are {num_layers} and {capacity}"
            )
        self.capacity = capacity
        self._stored: list[Tensor | None] = [None] * num_layers  # (2, B, G, room, D) each
        self._lengths = [0] * num_layers

    @property
    def length(self) -> int:
        """Tokens so far: those that the last layer has seen."""
        return self._lengths[-1]

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of new tokens, (B, G, L, D) -> of all so far, (B, G, S, D): views of the cache's memory.

        Raises:
            IndexError: there is no such layer.
            RuntimeError: key or value have other shapes, dtypes or devices than what is stored, or need gradients.
        """
        checks.check_cached(layer, len(self._stored), self._stored[layer % len(self._stored)], key, value)
        before, after = self._lengths[layer], self._lengths[layer] + key.shape[-2]
        stored = self._with_room(layer, key, after)
        stored[0, :, :, before:after] = key
        stored[1, :, :, before:after] = value
        self._lengths[layer] = after
        return stored[0, :, :, :after], stored[1, :, :, :after]

    def _with_room(self, layer: int, key: Tensor, length: int) -> Tensor:
        stored = self._stored[layer]
        room = self.capacity if stored is None else stored.shape[-2]
        if stored is None or length > room:
            while room < length:
                room *= 2
            B, G, _, D = key.shape
            larger = key.new_empty(2, B, G, room, D)
            if stored is not None:
                larger[..., : self._lengths[layer], :] = stored[..., : self._lengths[layer], :]
            self._stored[layer] = stored = larger
        return stored

    def reorder(self, rows: Tensor) -> None:
        """Row r continues what was row rows[r]; rows (B',), where B' may differ from B."""
        self._stored = [None if stored is None else stored.index_select(1, rows) for stored in self._stored]

    def layer(self, layer: int) -> Tensor:
        """What a layer has stored, keys, then values: (2, B, G, room, D), of which `length` tokens count.

        Raises:
            RuntimeError: the layer has seen no token yet.
        """
        stored = self._stored[layer]
        if stored is None:
            raise RuntimeError(f"KeyValueCache: layer {layer} has seen no token yet")
        return stored

    def crop(self, length: int) -> None:
        """Forget all tokens but the first `length`.

        Raises:
            ValueError: there are fewer.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"KeyValueCache: length must be from 0 to {self.length}, the tokens so far, not {length}")
        self._lengths = [length] * len(self._lengths)

    @property
    def memory(self) -> int:
        """Bytes that keys and values take, with the room for tokens to come."""
        return sum(stored.numel() * stored.element_size() for stored in self._stored if stored is not None)
