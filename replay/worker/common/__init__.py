"""What every backend uses: how operations fail, memory at captured addresses, poison, errors of numbers."""
