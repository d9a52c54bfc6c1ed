"""The parts of the gate, the program that guards the NodePort of a notebook or TensorBoard."""
