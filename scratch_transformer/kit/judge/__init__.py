"""What is right and wrong about a candidate: diagnose.py is the whole way, the other files its steps."""
