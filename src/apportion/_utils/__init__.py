"""Threads, memory, hashing and progress."""
