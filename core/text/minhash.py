"""MinHash of a shingle set: 128 permutations, 32 bits each, the same numbers datasketch (scheme affine32) computes
from the lowest 32 bits of every shingle. Estimates only: verdicts are by exact Jaccard (`shingles.jaccard`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import inner, intrinsic, kernel
from dustream.core.kernels.native import cgutils, ir, types
from dustream.core.text.permutations import ADDENDS, MULTIPLIERS
from dustream.schemas.signature import PageSignature

if TYPE_CHECKING:
    from datasketch import MinHash

PERMUTATIONS = 128
LANES = 16  # permutations that are one vector
AT_ONCE = 16  # hashes permuted before the minima are written
DATASKETCH_SEED = 1
DATASKETCH_SCHEME = "affine32"

MULTIPLIERS_32 = np.array(MULTIPLIERS, dtype=np.uint32)
ADDENDS_32 = np.array(ADDENDS, dtype=np.uint32)


@inner
def _fmix32(h: np.uint32) -> np.uint32:
    """MurmurHash3's 32-bit finaliser, which datasketch applies before permuting."""
    h = np.uint32(h ^ (h >> np.uint32(16)))
    h = np.uint32(h * np.uint32(0x85EBCA6B))
    h = np.uint32(h ^ (h >> np.uint32(13)))
    h = np.uint32(h * np.uint32(0xC2B2AE35))
    return np.uint32(h ^ (h >> np.uint32(16)))


@intrinsic
def _lowered_in(
    typing_context: Any, mixed: Any, i: Any, multipliers: Any, addends: Any, lowest: Any, j: Any
) -> Any:  # fmt: skip
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def place(array: int, at: Any) -> Any:
            view = cgutils.create_struct_proxy(signature.args[array])(context, builder, value=args[array])  # type: ignore[no-untyped-call]
            return builder.gep(view.data, [at])

        vector = ir.VectorType(ir.IntType(32), LANES)

        def lanes(array: int) -> Any:
            return builder.bitcast(place(array, args[5]), vector.as_pointer())

        a, b, low = (builder.load(lanes(array), align=4) for array in (2, 3, 4))
        undefined, lane_numbers = ir.Constant(vector, ir.Undefined), ir.Constant(vector, [0] * LANES)
        for k in range(AT_ONCE):
            h = builder.load(place(0, builder.add(args[1], ir.Constant(ir.IntType(64), k))))
            first = builder.insert_element(undefined, h, ir.Constant(ir.IntType(32), 0))
            every = builder.shuffle_vector(first, undefined, lane_numbers)
            permuted = builder.add(builder.mul(a, every), b)
            low = builder.select(builder.icmp_unsigned("<", permuted, low), permuted, low)
        builder.store(low, lanes(4), align=4)
        return context.get_dummy_value()

    return types.void(mixed, types.uint64, multipliers, addends, lowest, types.uint64), codegen


_Hashes = NDArray[np.uint32]
# Lower 16 minima, from `j` on, by 16 hashes, from `i` on. Written for vectors of this width, which the compiler does
# not choose by itself: this takes two thirds of the time.
_lower = cast("Callable[[_Hashes, np.uint64, _Hashes, _Hashes, _Hashes, np.uint64], None]", _lowered_in)


@kernel
def minima_into(
    shingles: NDArray[np.uint64], mixed: _Hashes, multipliers: _Hashes, addends: _Hashes, lowest: _Hashes
) -> None:
    """The minima of all permutations. `mixed` has room for AT_ONCE hashes more than there are shingles."""
    for j in range(PERMUTATIONS):
        lowest[j] = 0xFFFFFFFF
    for i in range(shingles.size):
        mixed[i] = _fmix32(np.uint32(shingles[i]))
    for i in range(shingles.size, shingles.size + AT_ONCE if shingles.size else 0):
        mixed[i] = mixed[shingles.size - 1]  # repeats the last one, which does not change a minimum
    for i in range(0, shingles.size, AT_ONCE):
        for j in range(0, PERMUTATIONS, LANES):
            _lower(mixed, np.uint64(i), multipliers, addends, lowest, np.uint64(j))


def minhash(shingles: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The 128 minima; all ones for an empty set."""
    lowest, mixed = np.empty(PERMUTATIONS, dtype=np.uint32), np.empty(shingles.size + AT_ONCE, dtype=np.uint32)
    minima_into(shingles, mixed, MULTIPLIERS_32, ADDENDS_32, lowest)
    return lowest


def minhash_jaccard(a: NDArray[np.uint32], b: NDArray[np.uint32]) -> float:
    """The estimate: the share of permutations with equal minima (standard error about √(J(1−J)/128))."""
    return float(np.count_nonzero(a == b)) / PERMUTATIONS


def to_datasketch(signature: PageSignature) -> MinHash:
    """The same MinHash as a datasketch object.

    It compares with `MinHash(128, seed=1, hashfunc=lambda shingle: shingle & 0xFFFFFFFF)` updated with our shingles;
    a datasketch index whose owner hashed other shingles is not comparable, whatever the library.
    """
    from datasketch import MinHash  # only people who have datasketch indexes need it

    values = np.frombuffer(signature.minhash, dtype="<u4")
    return MinHash(
        num_perm=PERMUTATIONS,
        seed=DATASKETCH_SEED,
        hashfunc=lambda shingle: int(shingle) & 0xFFFFFFFF,
        hashvalues=values,
        permutations=np.array([MULTIPLIERS_32, ADDENDS_32]),
        scheme=DATASKETCH_SCHEME,
    )
