"""Shared and tensor memory in TTGIR: who may use it while an asynchronous operation does."""
