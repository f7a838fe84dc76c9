"""Started as `python /.../compile_source.py JOB`: see kerncap_triton/sanitize/from_source.py."""

import sys

if __name__ == "__main__":
    folder = __file__.rpartition("/")[0]
    sys.path[:] = [folder] + [entry for entry in sys.path if entry and entry != folder]

    from kerncap_triton.sanitize import from_source

    from_source.main(sys.argv[1])
