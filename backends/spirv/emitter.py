"""The state of one emission and the words that every lowering uses.

Values of kernel IR live in SPIR-V registers so: integers as unsigned integers of their width (an
instruction says where the sign matters; the few that SPIRV-Tools' optimizer, which some drivers
run, folds by the sign of the type instead get signed operands),
bool as OpTypeBool, f16/f32/f64 as themselves, and bf16 as an f32 that holds a bf16 exactly.
"""

from __future__ import annotations

from ...ir.core import Kernel, Loc, Op, Value, float_bits
from ...ir.dtypes import DTYPES, DType, FragmentType, Type, VectorType, element_of, lanes_of
from ..compile import CompileError
from ..usage import Usage, narrow_name
from .cooperative import matrix_type
from .module import Module
from .opcodes import Deco, Storage
from .opcodes import Op as S

_FLOATS = {16: DTYPES["f16"], 32: DTYPES["f32"], 64: DTYPES["f64"]}


# What of an instruction its op and types decide: first word, type id, words before the operands,
# and whether it must not be fused.
Form = tuple[int, int, tuple[int, ...], bool]


class Emitter:
    """Emits the words of one kernel. Lowerings are functions `(emitter, op) -> result id`."""

    def __init__(self, kernel: Kernel, arch: str, native: frozenset[str], usage: Usage) -> None:
        self.kernel = kernel
        self.arch = arch
        self.native = native  # features that the caller allows although a portable form exists
        self.usage = usage
        self.module = Module(arch, kernel.name)
        self.requires: set[str] = set()
        self.signed_sums = True  # of matrices of integers
        self.values: dict[int, int] = {}
        self.constants: dict[int, int] = {}  # bit patterns of values that are constants
        self.small: set[int] = set()  # values known to be below 2**31
        self.variables: list[int] = []
        self.prologue: list[int] = []  # loads that stand in the entry block, before the code
        self.code: list[int] = []
        # (offset in code, place of the op that follows), where somebody wants to know.
        self.marks: list[tuple[int, Loc]] | None = None
        self.first = self.module.id()
        self.block = self.first
        self.loc: Loc | None = None
        self.contract = "contract" in kernel.fast
        # By id(), as types hash slowly; the type itself is held so that its id stays its own.
        self._types: dict[int, tuple[int, Type]] = {}
        # Ops of one instruction, by name and (as id()) types of first operand and result.
        self.forms: dict[tuple[str, int, int], Form] = {}
        self._named: set[int] = set()
        self.zeros: frozenset[int] = frozenset()  # operands to hide: `backends.zeros`
        self.folds: frozenset[int] = frozenset()  # products and sums whose operands are hidden
        self.divisors: frozenset[int] = frozenset()  # to hide as well: `backends.divisors`
        self.nothing = 0  # a word that is 0, which no driver knows; 0: not needed

    def fail(self, message: str) -> CompileError:
        """The error for what cannot be emitted, at the op in hand."""
        return CompileError(self.kernel.name, f"spirv-{self.arch}", message, self.loc)

    # instructions

    def ins(self, opcode: int, type_: int, *operands: int) -> int:
        """An instruction with a result."""
        module = self.module
        result = module.bound
        module.bound = result + 1
        self.code += ((len(operands) + 3) << 16 | opcode, type_, result, *operands)
        return result

    def raw(self, opcode: int, *operands: int) -> None:
        """An instruction without a result."""
        self.code += ((len(operands) + 1) << 16 | opcode, *operands)

    def early(self, opcode: int, type_: int, *operands: int) -> int:
        """An instruction of the entry block: its result is known everywhere."""
        result = self.module.id()
        self.prologue += ((len(operands) + 3) << 16 | opcode, type_, result, *operands)
        return result

    def glsl(self, type_: int, function: int, *operands: int) -> int:
        """An instruction of GLSL.std.450."""
        return self.ins(S.EXT_INST, type_, self.module.glsl_set(), function, *operands)

    def rounded(self, opcode: int, type_: int, *operands: int) -> int:
        """A float operation that drivers must not fuse with another one."""
        result = self.ins(opcode, type_, *operands)
        if not self.contract:
            self.module.decorations += (3 << 16 | S.DECORATE, result, Deco.NO_CONTRACTION)
        return result

    def no_zero(self, value: Value) -> int:
        """A float operand which no driver knows to be 0."""
        result = self.values[value.id]
        if value.id not in self.zeros:
            return result
        dtype, lanes = element_of(value.type), lanes_of(value.type)
        bits = 32 if dtype.name == "bf16" else dtype.bits
        if bits == 32:
            words = self.ints(32, lanes)
            hidden = self.hidden(self.ins(S.BITCAST, words, result), lanes)
            return self.ins(S.BITCAST, self.floats(32, lanes), hidden)
        # By a selection: the device may lack integers of that width.
        zero = self.int_const(0)
        never = self.ins(S.I_NOT_EQUAL, self.module.bool_, self.nothing, zero)
        never = self.splat(never, self.module.bool_, lanes)
        # Not beside a constant: drivers draw what follows into both sides, and forget a -0.
        type_ = self.floats(bits, lanes)
        other = self.splat(self.nothing, self.module.u32, lanes)
        other = self.ins(S.CONVERT_U_TO_F, type_, other)
        return self.ins(S.SELECT, type_, never, other, result)

    def hidden(self, words: int, lanes: int) -> int:
        """Words that no driver knows. By bits: compilers draw what follows into the sides of a
        selection beside a constant."""
        nothing = self.splat(self.nothing, self.module.u32, lanes)
        return self.ins(S.BITWISE_OR, self.ints(32, lanes), words, nothing)

    def narrow_flag(self, flag: int, lanes: int) -> int:
        """The result of a comparison of 64 bits, which no driver can tell to be one. LLVM 15 with
        AVX2 ends where a selection of selections by such a mask, of narrower values, is widened."""
        zero, one = (self.int_const(n, 32, lanes) for n in (0, 1))
        word = self.ins(S.SELECT, self.ints(32, lanes), flag, one, zero)
        return self.ins(S.I_NOT_EQUAL, self.bools(lanes), self.hidden(word, lanes), zero)

    def plain(self, op: Op, opcode: int, type_: int, *words: int, exact: bool = False) -> int:
        """An op that is one instruction: `words`, then the operands of the op in their order.

        Only for ops where that holds for all of this name and these types (of the first operand
        and the result): those that follow are emitted by this form, and no lowering is asked.
        exact: as `rounded`.
        """
        head = (len(op.operands) + len(words) + 3) << 16 | opcode
        exact = exact and not self.contract
        key = op.name, id(op.operands[0].type), id(op.results[0].type)
        self.forms[key] = head, type_, words, exact
        emit = self.rounded if exact else self.ins
        return emit(opcode, type_, *words, *self.operands(op))

    def plain_glsl(self, op: Op, type_: int, function: int) -> int:
        """The same of an instruction of GLSL.std.450."""
        return self.plain(op, S.EXT_INST, type_, self.module.glsl_set(), function)

    def follow(self, op: Op, form: Form) -> None:
        """Emit an op whose form is known. Most ops of large kernels come by here."""
        head, type_, words, exact = form
        module, values, operands = self.module, self.values, op.operands
        if self.marks is not None:
            self.at(op.loc)
        result = module.bound
        module.bound = result + 1
        if len(operands) == 2 and not words:
            a, b = operands
            self.code += (head, type_, result, values[a.id], values[b.id])
        else:
            self.code += (head, type_, result, *words, *[values[v.id] for v in operands])
        if exact:
            module.decorations += (3 << 16 | S.DECORATE, result, Deco.NO_CONTRACTION)
        value = op.results[0]
        values[value.id] = result
        if value.hint:
            self.define(value, result)

    def at(self, loc: Loc | None) -> None:
        """Note where in the source the code from here on comes from."""
        if loc is not None:
            self.loc = loc
            if self.marks is not None:
                self.marks.append((len(self.code), loc))

    def variable(self, type_: int, initial: int | None = None) -> int:
        """A function-local variable; `initial` is a constant."""
        pointer, result = self.module.pointer(Storage.FUNCTION, type_), self.module.id()
        start = () if initial is None else (initial,)
        words = (S.VARIABLE, pointer, result, Storage.FUNCTION, *start)
        self.variables += (len(words) << 16 | words[0], *words[1:])
        return result

    # types

    def type(self, t: Type) -> int:
        """The register type of values of `t`."""
        known = self._types.get(id(t))
        if known is None:
            known = self._types[id(t)] = self._register_type(t), t
        return known[0]

    def _register_type(self, t: Type) -> int:
        if isinstance(t, FragmentType):
            return matrix_type(self, t)
        if isinstance(t, VectorType):
            if t.lanes > 4:
                raise self.fail(f"{t} has more than 4 lanes: legalize splits it first")
            return self.module.vector_type(self.type(t.element), t.lanes)
        if not isinstance(t, DType):
            raise self.fail(f"{t} is memory, not a value")
        if t.is_bool:
            return self.module.bool_
        if t.is_float:
            return self.module.float_type(32 if t.name == "bf16" else t.bits)
        return self.module.int_type(t.bits)

    def ints(self, bits: int, lanes: int = 1) -> int:
        return self.module.vector_type(self.module.int_type(bits), lanes)

    def floats(self, bits: int, lanes: int = 1) -> int:
        return self.module.vector_type(self.module.float_type(bits), lanes)

    def bools(self, lanes: int = 1) -> int:
        return self.module.vector_type(self.module.bool_, lanes)

    def signed_ints(self, bits: int, lanes: int) -> int:
        return self.module.vector_type(self.module.type(S.TYPE_INT, bits, 1), lanes)

    def through_signed(self, value: int, bits: int, lanes: int) -> int:
        """An integer as a signed one, for what optimizers fold by the sign of its type."""
        return self.ins(S.BITCAST, self.signed_ints(bits, lanes), value)

    def widen(self, value: int, dtype: DType, lanes: int = 1, bits: int = 32) -> int:
        """An integer of type `dtype` extended to more bits, by its sign."""
        wide = self.ints(bits, lanes)
        if not dtype.is_signed:
            return self.ins(S.U_CONVERT, wide, value)
        if bits == 64:
            return self._widen64(value, dtype, lanes)
        if dtype.bits < 32 and not {f"i{dtype.bits}", f"u{dtype.bits}"} & self.usage.arithmetic:
            return self.ins(S.S_CONVERT, wide, value)  # a loaded value: no other use is allowed
        signed = self.signed_ints(bits, lanes)
        value = self.through_signed(value, dtype.bits, lanes)
        return self.ins(S.BITCAST, wide, self.ins(S.S_CONVERT, signed, value))

    def _widen64(self, value: int, dtype: DType, lanes: int) -> int:
        """A signed integer as one of 64 bits, by a difference of unsigned ones.

        Mesa's compiler (22.3) takes an ordering of an i32 as an i64 with a constant for known,
        whatever it is; it finds constants that nobody sees before it, and orderings in minima.
        """
        word = value if dtype.bits == 32 else self.widen(value, dtype, lanes)
        flipped = self.ins(
            S.BITWISE_XOR, self.ints(32, lanes), word, self.int_const(1 << 31, 32, lanes)
        )
        wide = self.ints(64, lanes)
        moved = self.ins(S.U_CONVERT, wide, flipped)
        return self.ins(S.I_SUB, wide, moved, self.int_const(1 << 31, 64, lanes))

    def ordered(self, value: int, dtype: DType, lanes: int = 1) -> int:
        """An operand of an instruction that reads its sign: narrow constants fold wrongly else."""
        if dtype.is_signed and dtype.bits < 32:
            return self.through_signed(value, dtype.bits, lanes)
        return value

    def negative(self, value: int, dtype: DType, lanes: int = 1) -> int:
        """Whether a signed integer is below 0; of 64 bits, whether its upper word is."""
        bits = min(dtype.bits, 32)
        if dtype.bits == 64:
            upper = self.ins(
                S.SHIFT_RIGHT_LOGICAL, self.ints(64, lanes), value, self.int_const(32, 64, lanes)
            )
            value = self.ins(S.U_CONVERT, self.ints(32, lanes), upper)
        zero = self.int_const(0, bits, lanes)
        operands = (self.ordered(v, dtype, lanes) for v in (value, zero))
        return self.ins(S.S_LESS_THAN, self.bools(lanes), *operands)

    def signed_glsl(self, function: int, bits: int, lanes: int, *operands: int) -> int:
        """An instruction of GLSL.std.450 on signed integers."""
        signed = self.signed_ints(bits, lanes)
        values = [self.ins(S.BITCAST, signed, v) for v in operands]
        return self.ins(S.BITCAST, self.ints(bits, lanes), self.glsl(signed, function, *values))

    def signed_to_float(self, type_: int, value: int, bits: int, lanes: int) -> int:
        """OpConvertSToF."""
        return self.ins(S.CONVERT_S_TO_F, type_, self.through_signed(value, bits, lanes))

    def float_to_signed(self, value: int, bits: int, lanes: int) -> int:
        """OpConvertFToS."""
        signed = self.signed_ints(bits, lanes)
        return self.ins(
            S.BITCAST, self.ints(bits, lanes), self.ins(S.CONVERT_F_TO_S, signed, value)
        )

    # constants

    def int_const(self, value: int, bits: int = 32, lanes: int = 1) -> int:
        """An integer constant, wrapped to `bits`, in every lane."""
        scalar = self.module.int_type(bits)
        one = self.module.constant(scalar, value & ((1 << bits) - 1), bits)
        return one if lanes == 1 else self.module.splat(self.ints(bits, lanes), lanes, one)

    def float_const(self, value: float, bits: int = 32, lanes: int = 1) -> int:
        scalar = self.module.float_type(bits)
        one = self.module.constant(scalar, float_bits(value, _FLOATS[bits]), bits)
        return one if lanes == 1 else self.module.splat(self.floats(bits, lanes), lanes, one)

    def splat(self, value: int, scalar_type: int, lanes: int) -> int:
        """A vector with `value` in every lane; the value itself where lanes is 1."""
        if lanes == 1:
            return value
        vector = self.module.vector_type(scalar_type, lanes)
        return self.ins(S.COMPOSITE_CONSTRUCT, vector, *(value,) * lanes)

    # values

    def use(self, value: Value) -> int:
        """The id of an operand."""
        return self.values[value.id]

    def operands(self, op: Op) -> list[int]:
        """The ids of all operands."""
        values = self.values
        return [values[v.id] for v in op.operands]

    def define(self, value: Value, result: int, name: str = "") -> None:
        """Bind a value to an id, and give the id its name in the source."""
        self.values[value.id] = result
        name = name or value.hint
        if name and result not in self._named:
            self._name(value, result, name)

    def _name(self, value: Value, result: int, name: str) -> None:
        narrow = narrow_name(value.type)
        if narrow and narrow not in self.usage.arithmetic:
            return  # with storage features alone, SPIRV-Tools takes a name for a forbidden use
        self._named.add(result)
        self.module.name(result, name)

    def alias(self, value: Value, result: int) -> None:
        """Bind without naming: the id belongs to another value as well."""
        self.values[value.id] = result

    # blocks

    def label(self, block: int) -> None:
        self.code += (2 << 16 | S.LABEL, block)
        self.block = block

    def branch(self, block: int) -> None:
        self.code += (2 << 16 | S.BRANCH, block)

    def per_lane(self, value: int, scalar_type: int, lanes: int) -> list[int]:
        """The lanes of a value, one id each."""
        if lanes == 1:
            return [value]
        return [self.ins(S.COMPOSITE_EXTRACT, scalar_type, value, n) for n in range(lanes)]

    def gather(self, lanes: list[int], scalar_type: int) -> int:
        """A vector of these lanes; the scalar itself where there is one."""
        if len(lanes) == 1:
            return lanes[0]
        vector = self.module.vector_type(scalar_type, len(lanes))
        return self.ins(S.COMPOSITE_CONSTRUCT, vector, *lanes)
