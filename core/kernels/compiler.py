"""From a function to machine code, by numba. Imported when something is to be compiled."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from inspect import getclosurevars
from types import CodeType
from typing import Any, Final

from dustream.core.kernels.compile import Compiled, Intrinsic, Kernel
from dustream.core.kernels.linked_code import InnerCompiler, KernelCompiler, LoadedLibrary
from dustream.core.kernels.loading import OBJECT_PREFIX, environment, object_of
from dustream.core.kernels.machine_code import MachineCode, Sources, sources_now
from dustream.core.kernels.native import add_symbol, cpu_target, intrinsic, njit, rtsys, typeof, types
from dustream.core.kernels.object_file import image_of

_KERNEL: Final[dict[str, Any]] = {"no_cfunc_wrapper": True, "pipeline_class": KernelCompiler}
_INNER: Final[dict[str, Any]] = {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": InnerCompiler,
}


def compiled(kernel: Kernel, arguments: tuple[Any, ...], argument_types: str) -> MachineCode:
    """The machine code for arguments of the types of these."""
    dispatcher: Any = njit(**_KERNEL, nogil=kernel.releases_gil)(kernel.py_func)
    numba_types = tuple(map(typeof, arguments))
    dispatcher.compile(numba_types)
    result = dispatcher.overloads[numba_types]
    if result.reload_init:
        raise NotImplementedError(f"{kernel.py_func.__qualname__} needs code to run before it is loaded")
    library, entry = result.library, result.fndesc.llvm_cpython_wrapper_name
    image = image_of(library.object_file, entry)
    return MachineCode(
        types=argument_types,
        name=result.fndesc.qualname,
        entry=entry,
        image=image,
        object_file=b"" if image else library.object_file,
        objects=library.global_names(OBJECT_PREFIX),
        environments=library.environments,
    )


def loaded_by_llvm(code: MachineCode) -> int:
    """The address of the function for Python, where `loading` does not know the form of machine code."""
    context = cpu_target.target_context
    rtsys.initialize(context)
    for symbol in code.objects:
        add_symbol(symbol, id(object_of(symbol)))
    library = LoadedLibrary.of(context.codegen(), code.name, code.object_file)
    for name, constants in code.environments.items():
        made = environment(constants)
        _kept.append((library, made))
        library.codegen.set_env(name, made)
    address: int = library.get_pointer_to_function(code.entry)
    return address


_kept: list[Any] = []  # what loaded code refers to: it is never unloaded


def dispatcher_of(function: Compiled) -> Any:
    """What numba makes of a function that compiled code calls."""
    options = function.targetoptions
    if "inline" in options:
        return njit(**options)(function.py_func)
    return _for_all_numbers(njit(**options, **_INNER)(function.py_func))


def _for_all_numbers(dispatcher: Any) -> Any:
    """numba compiles a function once more for each constant that is passed to it."""
    find = dispatcher.get_call_template

    def get_call_template(positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        unliteral: Any = types.unliteral
        return find(tuple(map(unliteral, positional)), {name: unliteral(value) for name, value in named.items()})

    dispatcher.get_call_template = get_call_template
    return dispatcher


def type_of_intrinsic(function: Intrinsic) -> Any:
    made = intrinsic(**function.options)(function.py_func) if function.options else intrinsic(function.py_func)
    typing = cpu_target.typing_context
    typing.refresh()
    return typing.resolve_value_type(made)


def sources_of(kernel: Kernel, code: MachineCode) -> Sources | None:
    """The files of all functions that the code contains, and of the classes that it takes, uses and returns. Constants
    of other files are not followed."""
    functions: set[Callable[..., Any]] = set()
    classes = set(map(object_of, code.objects))
    waiting = [kernel.py_func]
    while waiting:
        function = waiting.pop()
        if function not in functions:
            functions.add(function)
            named = list(_named_in(function))
            classes.update(each for each in named if isinstance(each, type))
            waiting += [each.py_func for each in named if isinstance(each, Compiled | Intrinsic)]
    files = {function.__code__.co_filename for function in functions}
    modules = {getattr(sys.modules[each.__module__], "__file__", None) for each in classes}
    return sources_now(files.union(filter(None, modules)))


def _named_in(function: Callable[..., Any]) -> Iterator[Any]:
    """The values of all global and enclosing variables that a function names."""
    yield from getclosurevars(function).nonlocals.values()
    waiting: list[CodeType] = [function.__code__]
    while waiting:
        code = waiting.pop()
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
        yield from (function.__globals__[name] for name in code.co_names if name in function.__globals__)
