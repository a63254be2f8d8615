"""What is replaced within numba while it compiles our functions.

Half of a compilation is numba's own work in Python. Some of it has no effect on functions like ours, or computes what
nobody reads: that is cut short. Code that takes arguments and returns results is made by `argument_checks` and
`embedded_objects`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from dustream.core.kernels.argument_checks import add_checked_argument
from dustream.core.kernels.embedded_objects import serialize_object, unserialize
from dustream.core.kernels.native import (
    Compiler,
    DefaultPassBuilder,
    NRTContext,
    PassManager,
    PostProcessor,
    PythonAPI,
    TargetConfig,
    callwrapper,
    canonicalize_cfg,
    event,
    inline_closurecall,
)

UNUSED_PASSES: Final = frozenset(
    {
        "AnnotateTypes",
        "DumpParforDiagnostics",
        "FindLiterallyCalls",
        "LiteralUnroll",
        "NoPythonSupportedFeatureValidation",
        "WithLifting",
    }
)
"""Passes for what no function of ours has (`with`, `literally`, `literal_unroll`, parallel loops), and for reports."""


@contextmanager
def shortcuts() -> Iterator[None]:
    """Replaces parts of numba in this block."""
    originals = [(owner, name, getattr(owner, name)) for owner, name in _REPLACEMENTS]
    for (owner, name), replacement in _REPLACEMENTS.items():
        setattr(owner, name, replacement)
    try:
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


class _Passes(PassManager):
    """Runs passes without an event, timers and texts about each."""

    def _runPass(self, index: int, pss: Any, internal_state: Any) -> None:
        pss.analysis = self._analysis
        pss.run_initialization(internal_state)
        pss.run_pass(internal_state)
        pss.run_finalizer(internal_state)


_all_passes: list[_Passes] = []  # one, once it is known


def _define_pipelines(compiler: Any) -> list[PassManager]:
    """Functions of numba, such as `np.zeros`, get no wrapper by which Python could call them."""
    if not getattr(compiler, "makes_kernels", False):
        compiler.state.flags.no_cpython_wrapper = compiler.state.flags.no_cfunc_wrapper = True
    if not _all_passes:
        defaults = DefaultPassBuilder.define_nopython_pipeline(compiler.state)  # type: ignore[no-untyped-call]
        passes = _Passes(defaults.pipeline_name)  # type: ignore[no-untyped-call]
        passes.passes = [(each, why) for each, why in defaults.passes if each.__name__ not in UNUSED_PASSES]
        passes.finalize()  # type: ignore[no-untyped-call]
        _all_passes.append(passes)
    return list(_all_passes)


def _meminfos(runtime: Any, builder: Any, type_: Any, value: Any) -> list[tuple[Any, Any]]:
    """The reference counts in a value. numba reads every member, those that have none, too: a fifth of all
    instructions."""
    models = runtime._context.data_model_manager
    model = models[type_]
    found = [(type_, model.get_nrt_meminfo(builder, value))] if model.has_nrt_meminfo() else []
    for member, getter in model.traverse(builder):
        if models[member].contains_nrt_meminfo():
            found += _meminfos(runtime, builder, member, getter(value))
    return found


_post_process = PostProcessor.run


def _post_process_at_last(processor: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """numba computes after most passes how long each variable lives. Only the last, which deletes them, needs it."""
    function = processor.func_ir
    if emit_dels or function.is_generator:
        _post_process(processor, emit_dels, extend_lifetimes)
    else:
        function.blocks = canonicalize_cfg(function.blocks)  # type: ignore[no-untyped-call]
        function.generator_info = None


def _same_options(options: Any, other: Any) -> bool:
    """numba makes dictionaries of all options to compare them, at every call that it resolves."""
    if type(options) is not type(other):
        return False
    ours, theirs = options._values, other._values
    return ours == theirs or all(getattr(options, name) == getattr(other, name) for name in {*ours, *theirs})


class _NoCopies:
    """numba copies a function twice before it writes its code where it is called: once to leave the original as it is,
    which is made anew for every call anyway, and once to return it, which nobody reads."""

    @staticmethod
    def deepcopy(value: Any) -> Any:
        return value


def _unless_of_locks(tell: Callable[..., None]) -> Callable[..., None]:
    """Events of numba's locks, at every call of LLVM, are for nobody."""

    def tell_others(kind: str, *details: Any, **more_details: Any) -> None:
        if kind not in ("numba:llvm_lock", "numba:compiler_lock"):
            tell(kind, *details, **more_details)

    return tell_others


_REPLACEMENTS: Final[dict[tuple[Any, str], Any]] = {
    (Compiler, "define_pipelines"): _define_pipelines,
    (NRTContext, "get_meminfos"): _meminfos,
    (PostProcessor, "run"): _post_process_at_last,
    (TargetConfig, "__eq__"): _same_options,
    (TargetConfig, "__hash__"): lambda options: 0,  # numba's is one number, too: that of all names of options
    (PythonAPI, "serialize_object"): serialize_object,
    (PythonAPI, "unserialize"): unserialize,
    (callwrapper._ArgManager, "add_arg"): add_checked_argument,
    (event, "start_event"): _unless_of_locks(event.start_event),
    (inline_closurecall, "copy"): _NoCopies,
    (event, "end_event"): _unless_of_locks(event.end_event),
}
