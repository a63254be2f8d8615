"""Arrays without reference counts, for compiled code that passes them on at every tag."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, cast

from dustream.core.kernels.compile import intrinsic
from dustream.core.kernels.native import cgutils

Array = TypeVar("Array")


class _Borrow(Protocol):
    def __call__(self, array: Array) -> Array: ...


@intrinsic
def _borrowed(typing_context: Any, array: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = cgutils.create_struct_proxy(signature.args[0])(context, builder, value=args[0])  # type: ignore[no-untyped-call]
        view.meminfo = cgutils.get_null_value(view.meminfo.type)  # type: ignore[no-untyped-call]
        return view._getvalue()

    return array(array), codegen


# The same array without reference counting: an atomic increment per array and call costs more than reading a tag. For
# arguments only: the caller keeps the array alive during the call.
borrowed = cast("_Borrow", _borrowed)
