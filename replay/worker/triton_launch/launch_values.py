"""Values of the manifest as the Python objects that a launch passes, or that a compiler is shown.

torch and Triton are imported only for values of their own types.
"""

from __future__ import annotations

import collections
from typing import Any

from ..common.failures import Refused
from ..job import Job
from . import gluon_layouts


class Pointer:
    """A bare address with a dtype: what Triton's JIT takes in place of a tensor."""

    def __init__(self, address: int, dtype: Any) -> None:
        self.dtype = dtype
        self._address = address

    def data_ptr(self) -> int:
        return self._address


class Values:
    """Builds the arguments of a job; what stands for its memory is a subclass's."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def view(self, index: int) -> Any:
        """What stands for the tensor of a view. Raises Refused for a dtype that there is not."""
        raise NotImplementedError

    def pointer(self, value: dict[str, Any], name: str) -> Any:
        """What stands for a bare address with a dtype."""
        raise NotImplementedError

    def torch_dtype(self, dtype: str, name: str) -> Any:
        """torch's dtype of that name, passed as argument ``name``: what is compiled in needs none."""
        raise Refused(f"argument {name} is torch's {dtype}, and there is no torch")

    def descriptor(self, value: dict[str, Any]) -> Any:
        """A host-side tensor descriptor, as Triton has it."""
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor(
            self.view(value["view"]), list(value["shape"]), list(value["strides"]),
            list(value["block_shape"]), value.get("padding", "zero"),
        )  # fmt: skip

    def build(self, value: dict[str, Any], name: str, module: Any) -> Any:
        """The object of an encoded value; ``module`` is where function names are looked up.

        Raises Refused, naming the argument, for what can't be rebuilt.
        """
        try:
            return self._build(value, name, module)
        except (ArithmeticError, AttributeError, RuntimeError, TypeError, ValueError) as error:
            if isinstance(error, Refused):
                raise
            raise Refused(f"argument {name} can't be rebuilt: {error}") from error

    def _build(self, value: dict[str, Any], name: str, module: Any) -> Any:
        kind = value["kind"]
        if kind == "none":
            return None
        if kind in ("bool", "str"):
            return value["value"]
        if kind == "int":
            return int(value["value"])
        if kind == "float":
            text = value["value"]
            return float(text) if text.lstrip("-") in ("inf", "nan") else float.fromhex(text)
        if kind == "dtype":
            return self._dtype(value, name)
        if kind == "sequence":
            return self._sequence(value, name, module)
        if kind == "tensor":
            tensor = self.view(value["view"])
            if value.get("wrapped_dtype"):
                import triton

                return triton.reinterpret(tensor, self._triton_dtype(value["wrapped_dtype"], name))
            return tensor
        if kind == "descriptor":
            return self.descriptor(value)
        if kind == "function":
            function = getattr(module, value["name"], None)
            if function is None:
                raise Refused(f"argument {name}: the source module has no function {value['name']}")
            return function
        if kind == "pointer":
            return self.pointer(value, name)
        if kind == "opaque":
            layout = gluon_layouts.layout_of(value)
            if layout is not None:
                return layout
        raise Refused(
            f"argument {name} holds a {value.get('type_name', kind)}, which a reproducer can't rebuild"
        )

    def _sequence(self, value: dict[str, Any], name: str, module: Any) -> Any:
        items = [self.build(item, f"{name}[{i}]", module) for i, item in enumerate(value["items"])]
        kind = value.get("type", "tuple")
        if kind == "list":
            return items
        if kind == "namedtuple":
            return collections.namedtuple(value["type_name"], list(value["fields"]), rename=True)(*items)
        return tuple(items)

    def _dtype(self, value: dict[str, Any], name: str) -> Any:
        if value["library"] == "torch":
            return self.torch_dtype(value["name"].removeprefix("torch."), name)
        return self._triton_dtype(value["name"], name)

    def _triton_dtype(self, text: str, name: str) -> Any:
        import triton.language as tl

        short = text.rpartition(".")[2]
        found = getattr(tl, short, None)
        if isinstance(found, tl.dtype):
            return found
        try:
            return tl.dtype(short)  # the compiler's own spelling: "fp32"
        except Exception as error:
            raise Refused(f"argument {name}: Triton here has no dtype {text}") from error
