"""A store in a cache that speaks the Remote Execution API (gRPC)."""
