"""ONNX models as graphs of tensor ops (`gristmill.ir.graph`).

    found = import_model("bert.onnx", dims={"batch": 1, "sequence": 128})
    if isinstance(found, Imported):
        run(found.graph, found.weights)
    else:
        print(*found, sep="\\n")  # everything that is missing, found in one pass

`ops` holds a function for each operator; `walk` takes the nodes in their order; operators that none
of them knows are imported by their definition in ONNX, where they have one (`definitions`).
"""

from .model import Imported, import_model
from .refusal import ImportRefusal, Reason

__all__ = ["ImportRefusal", "Imported", "Reason", "import_model"]
