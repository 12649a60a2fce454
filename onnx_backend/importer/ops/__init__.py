"""What each operator becomes in a graph; a module for each group of them."""
