"""The worker's loop: one JSON request a line in, one reply a line out, over its own descriptors."""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from . import protocol, typed_json
from .common.failures import Fault, KernelError, Killed, Refused, TimedOut
from .job import Job, JobRegion
from .protocol import Failure, Hello


class Session(protocol.Backend, Protocol):
    """A backend with its job open."""

    def handle(self, request: protocol.Request) -> Any:
        """Carry out one request. Raises Refused, KernelError, Killed, Fault or TimedOut."""


def serve(job_path: str, read_fd: int, write_fd: int, relocate: bool) -> None:
    """Place the job's regions, say hello, then answer requests until the pipe closes.

    A worker that could not place every region and was not told to relocate ends after its hello, and a fresh
    process tries again.
    """
    # Nothing that maps much memory (numpy, torch) is loaded before this, but in a process that was started
    # ahead of its job.
    job: Job = json.loads(Path(job_path).read_text())
    requests = open(read_fd, encoding="utf-8")  # noqa: SIM115

    def answer(line: bytes) -> None:
        typed_json.send(write_fd, line)

    try:
        if job["version"] != protocol.VERSION:
            raise Refused("kerncap was replaced by another version while it ran: start the command again")
        memory = _memory(job)
        taken = memory.reserve(relocate)
    except Refused as error:
        answer(typed_json.line(Hello(refused=str(error))))
        return
    answer(typed_json.line(Hello(taken)))
    if taken and not relocate:
        _end(memory)
        return
    try:
        _answer_all(job, Path(job_path).parent, memory, requests, answer)
    finally:
        if memory.kind == "hip" and sys.exc_info()[0] is not None:
            os._exit(1)  # the process that asked is gone, and ROCr would wait at its end for what still runs


def _answer_all(job: Job, folder: Path, memory: Any, requests: Any, answer: Callable[[bytes], None]) -> None:
    session = None
    for line in requests:
        result: Any
        try:
            if session is None:
                session = _session(job, folder, memory)
                gc.freeze()
                gc.enable()
            result = session.handle(protocol.read_request(line))
        except Refused as error:
            result = Failure("refused", str(error))
        except Killed:
            result = Failure("killed", "its process was killed")
        except KernelError as error:
            result = Failure("error", str(error), error.detail, error.place)
        except Fault as error:
            answer(protocol.reply(Failure("fault", str(error))))
            if memory.kind == "hip":
                os._exit(0)  # an orderly end needs the device: ROCr would wait for it
            return
        except TimedOut as error:
            answer(protocol.reply(Failure("timeout", str(error))))
            os._exit(0)  # an orderly end would wait for what the device still runs
        except Exception as error:  # the engine must learn of it, whatever it is
            traceback.print_exc()
            sys.stderr.flush()
            result = Failure("internal", repr(error), traceback.format_exc())
        answer(protocol.reply(result))
    _end(memory, session)


def _end(memory: Any, session: Any = None) -> None:
    """Give back what does not go with the process by itself: ROCr crashes at its end over mapped memory."""
    if memory.kind != "hip":
        return
    if session is not None:
        session.device.close()
    memory.close()


def _memory(job: Job) -> Any:
    if job["memory"] == "hip":
        if job["zeros"]:
            raise Refused("ranges of zeros around the captured memory are placed on CUDA devices only")
        from .hip.placement import Placement as HipPlacement

        return HipPlacement(job["regions"], job["device"], job["captured_device"])
    if job["launcher"] == "native":
        from .cuda.placement import Placement

        return Placement(
            job["regions"], job["device"], job["captured_device"], peers=True, zeros=job["zeros"],
            ranks=job["ranks"],
        )  # fmt: skip
    if job["memory"] == "cuda":
        from .torch_backend.placed_tensors import CudaMemory

        regions: list[JobRegion] = job["regions"]
        if job["launch"]["mode"] == "interpreter":  # what was the host's there is the device's here
            regions = [{**region, "kind": "device", "device": -1} for region in regions]
        return CudaMemory(regions, job["device"], job["captured_device"], job["zeros"])
    from .common.host_memory import HostMemory

    return HostMemory(job["regions"])


def _vendor(memory: str) -> Any:
    if memory == "hip":
        from .hip import hip_vendor as hip

        return hip
    from .native import cuda_vendor

    return cuda_vendor


def _session(job: Job, folder: Path, memory: Any) -> Session:
    if job["launcher"] == "native":
        from .native import operations as native

        native.check(job)
        return native.NativeBackend(job, folder, memory, _vendor(job["memory"]))
    from .torch_backend.operations import TorchBackend  # loads torch

    return TorchBackend(job, folder, memory)
