"""Small wrong changes of the product, each of which the gate's tests must notice."""
