"""AMD code objects: LLVM IR to a relocatable object, linked and checked without ROCm."""
