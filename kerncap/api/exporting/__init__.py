"""Projects that run one launch without kerncap: a Triton script, a CMake project, a pytest file."""
