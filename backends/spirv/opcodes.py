"""Numbers of the SPIR-V specification that the emitter uses, named as there."""

from __future__ import annotations

from typing import Final


class Cap:
    """Capabilities."""

    SHADER: Final = 1
    FLOAT16: Final = 9
    FLOAT64: Final = 10
    INT64: Final = 11
    INT64_ATOMICS: Final = 12
    INT16: Final = 22
    INT8: Final = 39
    GROUP_NON_UNIFORM: Final = 61
    GROUP_NON_UNIFORM_VOTE: Final = 62
    GROUP_NON_UNIFORM_ARITHMETIC: Final = 63
    GROUP_NON_UNIFORM_BALLOT: Final = 64
    GROUP_NON_UNIFORM_SHUFFLE: Final = 65
    STORAGE_BUFFER_16BIT_ACCESS: Final = 4433
    STORAGE_BUFFER_8BIT_ACCESS: Final = 4448
    DENORM_PRESERVE: Final = 4464
    SIGNED_ZERO_INF_NAN_PRESERVE: Final = 4466
    ROUNDING_MODE_RTE: Final = 4467
    ATOMIC_FLOAT32_MIN_MAX: Final = 5612
    VULKAN_MEMORY_MODEL: Final = 5345
    VULKAN_MEMORY_MODEL_DEVICE_SCOPE: Final = 5346
    DOT_PRODUCT_INPUT_4X8BIT_PACKED: Final = 6018
    DOT_PRODUCT: Final = 6019
    BFLOAT16_TYPE: Final = 5116
    BFLOAT16_COOPERATIVE_MATRIX: Final = 5118
    COOPERATIVE_MATRIX: Final = 6022
    ATOMIC_FLOAT32_ADD: Final = 6033
    ATOMIC_FLOAT64_ADD: Final = 6034


class Op:
    """Instructions."""

    EXT_INST: Final = 12
    TYPE_VOID: Final = 19
    TYPE_BOOL: Final = 20
    TYPE_INT: Final = 21
    TYPE_FLOAT: Final = 22
    TYPE_VECTOR: Final = 23
    TYPE_ARRAY: Final = 28
    TYPE_RUNTIME_ARRAY: Final = 29
    TYPE_STRUCT: Final = 30
    TYPE_POINTER: Final = 32
    TYPE_FUNCTION: Final = 33
    CONSTANT_TRUE: Final = 41
    CONSTANT_FALSE: Final = 42
    CONSTANT: Final = 43
    CONSTANT_COMPOSITE: Final = 44
    CONSTANT_NULL: Final = 46
    FUNCTION: Final = 54
    FUNCTION_END: Final = 56
    VARIABLE: Final = 59
    LOAD: Final = 61
    STORE: Final = 62
    ACCESS_CHAIN: Final = 65
    DECORATE: Final = 71
    MEMBER_DECORATE: Final = 72
    VECTOR_SHUFFLE: Final = 79
    COMPOSITE_CONSTRUCT: Final = 80
    COMPOSITE_EXTRACT: Final = 81
    COMPOSITE_INSERT: Final = 82
    CONVERT_F_TO_U: Final = 109
    CONVERT_F_TO_S: Final = 110
    CONVERT_S_TO_F: Final = 111
    CONVERT_U_TO_F: Final = 112
    U_CONVERT: Final = 113
    S_CONVERT: Final = 114
    F_CONVERT: Final = 115
    BITCAST: Final = 124
    S_NEGATE: Final = 126
    F_NEGATE: Final = 127
    I_ADD: Final = 128
    F_ADD: Final = 129
    I_SUB: Final = 130
    F_SUB: Final = 131
    I_MUL: Final = 132
    F_MUL: Final = 133
    U_DIV: Final = 134
    S_DIV: Final = 135
    F_DIV: Final = 136
    U_MOD: Final = 137
    U_MUL_EXTENDED: Final = 151
    S_MUL_EXTENDED: Final = 152
    LOGICAL_EQUAL: Final = 164
    LOGICAL_NOT_EQUAL: Final = 165
    LOGICAL_OR: Final = 166
    LOGICAL_AND: Final = 167
    LOGICAL_NOT: Final = 168
    SELECT: Final = 169
    I_EQUAL: Final = 170
    I_NOT_EQUAL: Final = 171
    U_GREATER_THAN: Final = 172
    S_GREATER_THAN: Final = 173
    U_GREATER_THAN_EQUAL: Final = 174
    S_GREATER_THAN_EQUAL: Final = 175
    U_LESS_THAN: Final = 176
    S_LESS_THAN: Final = 177
    U_LESS_THAN_EQUAL: Final = 178
    S_LESS_THAN_EQUAL: Final = 179
    F_ORD_EQUAL: Final = 180
    F_UNORD_NOT_EQUAL: Final = 183
    F_ORD_LESS_THAN: Final = 184
    F_ORD_GREATER_THAN: Final = 186
    F_ORD_LESS_THAN_EQUAL: Final = 188
    F_ORD_GREATER_THAN_EQUAL: Final = 190
    SHIFT_RIGHT_LOGICAL: Final = 194
    SHIFT_RIGHT_ARITHMETIC: Final = 195
    SHIFT_LEFT_LOGICAL: Final = 196
    BITWISE_OR: Final = 197
    BITWISE_XOR: Final = 198
    BITWISE_AND: Final = 199
    NOT: Final = 200
    BIT_REVERSE: Final = 204
    BIT_COUNT: Final = 205
    CONTROL_BARRIER: Final = 224
    MEMORY_BARRIER: Final = 225
    ATOMIC_LOAD: Final = 227
    ATOMIC_EXCHANGE: Final = 229
    ATOMIC_COMPARE_EXCHANGE: Final = 230
    ATOMIC_I_ADD: Final = 234
    ATOMIC_S_MIN: Final = 236
    ATOMIC_U_MIN: Final = 237
    ATOMIC_S_MAX: Final = 238
    ATOMIC_U_MAX: Final = 239
    ATOMIC_AND: Final = 240
    ATOMIC_OR: Final = 241
    ATOMIC_XOR: Final = 242
    LOOP_MERGE: Final = 246
    SELECTION_MERGE: Final = 247
    LABEL: Final = 248
    BRANCH: Final = 249
    BRANCH_CONDITIONAL: Final = 250
    SWITCH: Final = 251
    RETURN: Final = 253
    UNREACHABLE: Final = 255
    GROUP_ALL: Final = 334
    GROUP_ANY: Final = 335
    GROUP_BROADCAST: Final = 337
    GROUP_BALLOT: Final = 339
    GROUP_SHUFFLE: Final = 345
    GROUP_I_ADD: Final = 349
    GROUP_F_ADD: Final = 350
    GROUP_I_MUL: Final = 351
    GROUP_F_MUL: Final = 352
    GROUP_S_MIN: Final = 353
    GROUP_U_MIN: Final = 354
    GROUP_S_MAX: Final = 356
    GROUP_U_MAX: Final = 357
    GROUP_AND: Final = 359
    GROUP_OR: Final = 360
    GROUP_XOR: Final = 361
    S_DOT: Final = 4450
    U_DOT: Final = 4451
    SU_DOT: Final = 4452
    TYPE_COOPERATIVE_MATRIX: Final = 4456
    COOPERATIVE_MATRIX_LOAD: Final = 4457
    COOPERATIVE_MATRIX_STORE: Final = 4458
    COOPERATIVE_MATRIX_MUL_ADD: Final = 4459
    ATOMIC_F_MIN_EXT: Final = 5614
    ATOMIC_F_MAX_EXT: Final = 5615
    ATOMIC_F_ADD_EXT: Final = 6035


class Glsl:
    """Instructions of the extended set GLSL.std.450."""

    ROUND_EVEN: Final = 2
    TRUNC: Final = 3
    F_ABS: Final = 4
    FLOOR: Final = 8
    CEIL: Final = 9
    SIN: Final = 13
    COS: Final = 14
    TAN: Final = 15
    ASIN: Final = 16
    ACOS: Final = 17
    ATAN: Final = 18
    SINH: Final = 19
    COSH: Final = 20
    TANH: Final = 21
    ASINH: Final = 22
    ACOSH: Final = 23
    ATANH: Final = 24
    ATAN2: Final = 25
    POW: Final = 26
    EXP: Final = 27
    LOG: Final = 28
    EXP2: Final = 29
    LOG2: Final = 30
    SQRT: Final = 31
    INVERSE_SQRT: Final = 32
    U_MIN: Final = 38
    S_MIN: Final = 39
    U_MAX: Final = 41
    S_MAX: Final = 42
    FMA: Final = 50
    UNPACK_HALF: Final = 62
    FIND_I_LSB: Final = 73
    FIND_U_MSB: Final = 75
    N_MIN: Final = 79
    N_MAX: Final = 80


class Storage:
    """Storage classes."""

    INPUT: Final = 1
    UNIFORM: Final = 2
    WORKGROUP: Final = 4
    FUNCTION: Final = 7
    STORAGE_BUFFER: Final = 12


class Deco:
    """Decorations."""

    BLOCK: Final = 2
    ARRAY_STRIDE: Final = 6
    BUILT_IN: Final = 11
    RESTRICT: Final = 19
    ALIASED: Final = 20
    COHERENT: Final = 23
    NON_WRITABLE: Final = 24
    NON_READABLE: Final = 25
    BINDING: Final = 33
    DESCRIPTOR_SET: Final = 34
    OFFSET: Final = 35
    NO_CONTRACTION: Final = 42


class BuiltIn:
    """Built-in variables of a compute shader."""

    NUM_WORKGROUPS: Final = 24
    WORKGROUP_ID: Final = 26
    LOCAL_INVOCATION_ID: Final = 27
    LOCAL_INVOCATION_INDEX: Final = 29
    SUBGROUP_ID: Final = 40
    SUBGROUP_LOCAL_INVOCATION_ID: Final = 41


class Scope:
    DEVICE: Final = 1
    WORKGROUP: Final = 2
    SUBGROUP: Final = 3


class Semantics:
    """Memory semantics."""

    ACQUIRE: Final = 0x2
    RELEASE: Final = 0x4
    ACQUIRE_RELEASE: Final = 0x8
    UNIFORM_MEMORY: Final = 0x40
    WORKGROUP_MEMORY: Final = 0x100
    MAKE_AVAILABLE: Final = 0x2000
    MAKE_VISIBLE: Final = 0x4000


class MemoryAccess:
    """Operands of loads and stores."""

    NON_PRIVATE: Final = 0x20


class Mode:
    """Execution modes."""

    LOCAL_SIZE: Final = 17
    DENORM_PRESERVE: Final = 4459
    SIGNED_ZERO_INF_NAN_PRESERVE: Final = 4461
    ROUNDING_MODE_RTE: Final = 4462
