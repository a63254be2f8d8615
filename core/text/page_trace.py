"""A page's trace: a number that is quickly had, and that another page might have, too. It says which pages may be the
same, to the byte; a digest says whether they are (`read_before`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from dustream.core.text.compiled import inner
from dustream.core.text.scan_tables import WORD_PRIME, mix_word
from dustream.core.text.scan_vectors import WORD_BYTES, Bytes, word_at

LANES = 8  # words that are one vector
STEP_BYTES = 4 * LANES * WORD_BYTES
_WORD = ir.IntType(64)
_WORDS = ir.VectorType(_WORD, LANES)
_LANE_KEYS = [lane * 0xD6E8FEB86659FD93 & 0xFFFFFFFFFFFFFFFF for lane in range(1, LANES + 1)]


@intrinsic
def _added_in(typing_context: Any, page: Any, at: Any, sums: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def place(array: int, offset: Any) -> Any:
            view = cgutils.create_struct_proxy(signature.args[array])(context, builder, value=args[array])  # type: ignore[no-untyped-call]
            first = builder.bitcast(view.data, ir.IntType(8).as_pointer())
            return builder.bitcast(builder.gep(first, [offset]), _WORDS.as_pointer())

        def splat(value: Any) -> Any:
            first = builder.insert_element(ir.Constant(_WORDS, ir.Undefined), value, ir.IntType(32)(0))
            lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
            return builder.shuffle_vector(first, ir.Constant(_WORDS, ir.Undefined), lanes)

        total = builder.load(place(2, _WORD(0)), align=8)
        for k in range(0, STEP_BYTES, LANES * WORD_BYTES):
            at = builder.add(args[1], _WORD(k))
            key = builder.add(splat(builder.mul(at, _WORD(WORD_PRIME))), ir.Constant(_WORDS, _LANE_KEYS))
            words = builder.xor(builder.load(place(0, at), align=1), key)
            low = builder.and_(words, ir.Constant(_WORDS, [0xFFFFFFFF] * LANES))
            high = builder.lshr(words, ir.Constant(_WORDS, [32] * LANES))
            total = builder.add(total, builder.add(builder.mul(low, high), words))
        builder.store(total, place(2, _WORD(0)), align=8)
        return context.get_dummy_value()

    return types.void(page, types.uint64, sums), codegen


_add = cast("Callable[[Bytes, np.uint64, NDArray[np.uint64]], None]", _added_in)


@inner
def trace(page: Bytes, sums: NDArray[np.uint64]) -> np.uint64:
    """Of sums of words and of products of their halves, by place: each word changes them, and so does its place."""
    for lane in range(LANES):
        sums[lane] = 0
    whole = page.size // STEP_BYTES * STEP_BYTES
    for at in range(0, whole, STEP_BYTES):
        _add(page, np.uint64(at), sums)
    h = np.uint64(page.size)
    for lane in range(LANES):
        h = mix_word(h, sums[lane])
    words_end = page.size // WORD_BYTES * WORD_BYTES
    for at in range(whole, words_end, WORD_BYTES):
        h = mix_word(h, word_at(page, np.uint64(at)))
    for at in range(words_end, page.size):
        h = mix_word(h, np.uint64(page[at]))
    return h
