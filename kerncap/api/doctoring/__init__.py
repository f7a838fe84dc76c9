"""What `doctor` asks: of this machine, of its vendors' GPUs, of a program, of a self-test."""
