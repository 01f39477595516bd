"""What stops whatever it is given (B26), a file for each cause; and what else an exception tells (crashes.py)."""
