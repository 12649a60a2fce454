"""The tables of docs/ONNX.md, from a run of the node tests: `python tests/onnx_page.py BUNDLE`
renews them by the cpu device. A table stands between `<!-- table: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import onnx

from gristmill import runtime
from onnx_cases import Judged, cases, outcomes

PAGE = Path(__file__).parents[1] / "docs/ONNX.md"
BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

# The operators by kind, as the node tests name them; all others are "other".
KINDS: dict[str, str] = {
    "elementwise": """Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot
        BitwiseOr BitwiseXor Ceil Celu Clip Cos Cosh Div Dropout Elu Equal Erf Exp Floor Gelu
        Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Max
        Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign
        Sin Sinh
        Softplus Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh ThresholdedRelu Where Xor""",
    "cast": "BitCast Cast CastLike",
    "movement": """CenterCropPad Concat Constant ConstantOfShape DepthToSpace Expand EyeLike Flatten
        Identity Pad Range Reshape ReverseSequence Shape Size Slice SpaceToDepth Split Squeeze Tile
        Transpose Trilu Unsqueeze""",
    "reduction": """ArgMax ArgMin CumProd CumSum ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
        ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare""",
    "softmax and losses": """Hardmax LogSoftmax NegativeLogLikelihoodLoss Softmax
        SoftmaxCrossEntropyLoss""",
    "normalisation": """BatchNormalization GroupNormalization InstanceNormalization LRN
        LayerNormalization LpNormalization MeanVarianceNormalization RMSNormalization""",
    "matmul": "Einsum Gemm MatMul MatMulInteger QLinearMatMul",
    "gather and scatter": """ArrayFeatureExtractor Compress Gather GatherElements GatherND OneHot
        Scatter ScatterElements ScatterND TensorScatter""",
    "attention and rotary": "Attention FlexAttention LinearAttention RotaryEmbedding",
    "top-k": "TopK Unique",
    "quantization": "DequantizeLinear DynamicQuantizeLinear QuantizeLinear",
    "convolution and pooling": """AveragePool CausalConvWithState Col2Im Conv ConvInteger
        ConvTranspose DeformConv GlobalAveragePool GlobalMaxPool LpPool MaxPool MaxUnpool
        QLinearConv""",
}
_KIND_OF = {op: kind for kind, names in KINDS.items() for op in names.split()}


def kind_of(outcome: Judged) -> str:
    """Under which heading a case is counted."""
    return "graphs of several nodes" if outcome.expanded else _KIND_OF.get(outcome.op, "other")


def counts(found: Sequence[Judged]) -> dict[str, tuple[int, int]]:
    """Of each kind, how many cases pass and how many are refused."""
    table = {kind: [0, 0] for kind in (*KINDS, "other", "graphs of several nodes")}
    for outcome in found:
        table[kind_of(outcome)][not outcome.passed] += 1
    return {kind: (passed, refused) for kind, (passed, refused) in table.items()}


def _kinds(found: Sequence[Judged]) -> str:
    lines = ["| kind | pass | refused |", "|---|---|---|"]
    table = counts(found)
    lines += [f"| {kind} | {a} | {b} |" for kind, (a, b) in table.items()]
    singles = [o for o in found if not o.expanded]
    passed = sum(o.passed for o in singles)
    lines.append(f"| **single nodes** | **{passed}** | **{len(singles) - passed}** |")
    return "\n".join(lines) + "\n"


def _operators(found: Sequence[Judged]) -> str:
    lines = ["| operator | pass | refused, for want of |", "|---|---|---|"]
    passed: Counter[str] = Counter()
    reasons: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for outcome in found:
        if not outcome.expanded:
            passed[outcome.op] += outcome.passed
            reasons[outcome.op].update([outcome.reason] if outcome.reason else [])
    for op in sorted(passed):
        why = "; ".join(f"{n}: {reason}" for reason, n in sorted(reasons[op].items()))
        lines.append(f"| {op} | {passed[op]} | {why.replace('|', ' ')} |")
    return "\n".join(lines) + "\n"


def _refused(found: Sequence[Judged]) -> str:
    """Each reason with its cases, so that one that comes or goes shows."""
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for outcome in found:
        if not outcome.passed:
            reasons[outcome.reason].append(outcome.case)
    lines = [f"- {why}: {', '.join(f'`{c}`' for c in reasons[why])}" for why in sorted(reasons)]
    return "\n".join(lines) + "\n"


def tables(found: Sequence[Judged]) -> dict[str, str]:
    """Every table by name."""
    return {
        "version": f"onnx {onnx.__version__}, {len(found)} cases.\n",
        "kinds": _kinds(found),
        "operators": _operators(found),
        "refused": _refused(found),
    }


def renewed(page: str, found: Sequence[Judged]) -> str:
    """The page with its tables as these outcomes have them."""
    made = tables(found)
    return BLOCK.sub(lambda block: block[1] + made[block[2]] + block[4], page)


if __name__ == "__main__":
    with runtime.open_device("cpu") as device:
        ran = list(outcomes(cases(), device, runtime.open_bundle(sys.argv[1])))
    for one in ran:
        if one.wrong:
            sys.exit(f"{one.case}: {one.reason}")
    PAGE.write_text(renewed(PAGE.read_text(), ran))
