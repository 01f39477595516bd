"""Settings in sections, each checked alone and all together: what the config.json of a run holds."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any, ClassVar, TypeVar, cast

from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.fields import check, read

Kind = TypeVar("Kind", bound="Settings")


class Settings:
    """The base of a dataclass whose fields are sections, dataclasses of `fields`. format: its name in JSON."""

    format: ClassVar[str]
    model: Any
    training: Any

    def __post_init__(self) -> None:
        for section in self.sections():
            for field in dataclasses.fields(getattr(self, section)):
                check(f"{section}.{field.name}", getattr(getattr(self, section), field.name), field)
        self.check_together()

    def check_together(self) -> None:
        """What no setting can say alone: raises InputError."""

    def replace(self: Kind, **settings: Any) -> Kind:
        """The same with other settings, named as in `replace(**{"training.steps": 50})`."""
        document = self.to_json()
        for name, value in settings.items():
            section, _, field = name.partition(".")
            if field not in document.get(section, {}):
                raise self._unknown(name)
            document[section][field] = value
        return self.from_json(document)

    @classmethod
    def sections(cls) -> dict[str, Any]:
        """The dataclass of every section, by name."""
        return {field.name: type(field.default) for field in dataclasses.fields(cast(Any, cls))}

    @classmethod
    def names(cls) -> list[str]:
        """Every setting as section.name."""
        return [f"{name}.{field.name}" for name, kind in cls.sections().items() for field in dataclasses.fields(kind)]

    def to_json(self) -> dict[str, Any]:
        """The settings as they are saved."""
        return {"format": self.format, **dataclasses.asdict(cast(Any, self))}

    @classmethod
    def from_json(cls: type[Kind], document: Any, where: str = "config") -> Kind:
        """The settings that `to_json` made; those that are missing have their defaults.

        Raises:
            InputError: this is something else, or a setting is unknown or has a value that makes no sense.
        """
        if not isinstance(document, dict) or document.get("format") != cls.format:
            raise InputError(
                f'{where}: is no configuration of this program: expected JSON with "format": "{cls.format}"'
            )
        sections, made = cls.sections(), {}
        for name, values in document.items():
            if name == "format":
                continue
            if name not in sections or not isinstance(values, dict):
                raise InputError(f"{where}: {name!r} is no section of a configuration: expected {', '.join(sections)}")
            for key in values:
                if f"{name}.{key}" not in cls.names():
                    raise InputError(f"{where}: {cls._unknown(f'{name}.{key}')}")
            made[name] = sections[name](**values)
        try:
            return cls(**made)
        except InputError as error:
            raise error if where == "config" else InputError(f"{where}: {error}") from None

    @classmethod
    def parse(cls, name: str, text: str) -> Any:
        """The value of a setting that was given as text: --set training.clip=0.5.

        Raises:
            InputError: there is no such setting, or the text is no value of its type.
        """
        if name not in cls.names():
            raise cls._unknown(name)
        section, _, key = name.partition(".")
        return read(name, text, next(f for f in dataclasses.fields(cls.sections()[section]) if f.name == key))

    @classmethod
    def _unknown(cls, name: str) -> InputError:
        close = difflib.get_close_matches(name, cls.names(), n=1, cutoff=0.4)
        return InputError(f"there is no setting {name!r}" + (f"; is it {close[0]}?" if close else ""))
