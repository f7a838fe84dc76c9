"""Runs exported scripts, or one with other kernels in its place, in one process: torch loads slowly."""

import importlib.util
import sys


def load(path):
    name = f"script{len(sys.modules)}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def main():
    at = sys.argv.index("--kernels")
    scripts, kernels = sys.argv[1:at], sys.argv[at + 1 :]
    for path in scripts:
        script = load(path)
        for kernel in [script.chosen(each) for each in kernels] or [script.KERNEL]:
            passed, text = script.run(kernel)
            word = {True: "PASS", False: "FAIL", None: "UNDECIDED"}[passed]
            print(f"Result: {word} ({text})")


main()
