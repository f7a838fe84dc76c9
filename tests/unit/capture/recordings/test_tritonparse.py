"""A log of tritonparse as a reproducer: it is replayed; what it lacks is named; hostile ones are refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import pickle
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncap.api.from_recording import from_recording
from kerncap.capture.recordings import torch_file, tritonparse
from kerncap.cli import main
from kerncap.errors import KerncapError, UsageError
from kerncap.format import Reproducer
from tests.unit.replay.build import ADD, HEADER
from tests.unit.schemas.strict import check

torch = pytest.importorskip("torch")

HASH = "751adc2d5db591acd5d685476d2a0ac4f16c705a3f85b77146db4535cd91888b"
ADDRESS = 0x7F00_0000_0000


class Log:
    """What tritonparse 0.6 writes of one launch of `add`, on tensors that it saved."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "dedicated_log_triton_trace_me_.ndjson"
        self.source = ADD.strip()
        noise = torch.Generator().manual_seed(1)
        x, y = torch.randn(2, 600, generator=noise).T.contiguous().T
        self.tensors: dict[str, Any] = {"x_ptr": x, "y_ptr": y, "out_ptr": torch.full((600,), 7.0)}
        self.grid = [3]
        self.changes: Callable[[dict[str, Any]], None] = lambda arguments: None

    def write(self) -> Path:
        arguments = {name: self.tensor(name, number) for number, name in enumerate(self.tensors)}
        arguments |= {"n": {"type": "int", "value": 600}, "BLOCK": {"type": "int", "value": 256}}
        self.changes(arguments)
        facts = {"hash": HASH, "name": "add", "num_warps": 4, "num_stages": 3, "triton_version": "3.6.0"}
        facts["target"] = {"backend": "cuda", "arch": 90, "warp_size": 32}
        compilation = {
            "metadata": facts,
            "file_content": {"add.ttir": "module {}", "add.ptx": "<file too large>"},
            "python_source": {"file_path": "/app/kernels.py", "start_line": 12, "code": self.source},
        }
        events = [
            {"event_type": "compilation", "payload": compilation},
            {"event_type": "launch", "name": "add", "stream": 0, "grid": self.grid,
             "compilation_metadata": facts, "extracted_args": arguments},
        ]  # fmt: skip
        self.file.write_text("".join(json.dumps(event) + "\n" for event in events))
        return self.file

    def tensor(self, name: str, number: int) -> dict[str, Any]:
        one = self.tensors[name]
        buffer = io.BytesIO()
        torch.save(one, buffer)
        data = buffer.getvalue()
        return {
            "type": "tensor", "shape": list(one.shape), "dtype": str(one.dtype), "device": "cuda:0",
            "stride": list(one.stride()), "element_size": one.element_size(),
            "storage_offset": one.storage_offset(), "data_ptr": hex(ADDRESS + number * 0x10000),
            **self.save(data),
        }  # fmt: skip

    def save(self, data: bytes, packed: bool = False) -> dict[str, Any]:
        digest = hashlib.blake2b(data).hexdigest()
        suffix = ".bin.gz" if packed else ".bin"
        place = self.folder / "saved_tensors" / digest[:2] / f"{digest}{suffix}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(gzip.compress(data) if packed else data)
        return {"tensor_hash": digest, "blob_path": f"/elsewhere/saved_tensors/{digest[:2]}/{digest}{suffix}"}


@pytest.fixture
def log(tmp_path: Path) -> Log:
    (tmp_path / "logs").mkdir()
    return Log(tmp_path / "logs")


def test_its_launch_is_replayed(
    log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = log.tensors["x_ptr"]
    assert x.stride() == (2,)  # the two are rows of one matrix, stored by columns
    out = tmp_path / "out"
    assert main(["from-recording", str(log.write().parent), "-o", str(out)]) == 0
    [path] = out.iterdir()
    assert f"{path}: made of what tritonparse recorded" in capsys.readouterr().err
    with Reproducer.open(path) as made:
        manifest = made.manifest
        assert manifest.launch.grid == (3, 1, 1) and manifest.device.arch == "sm_90"
        assert [each.role for each in manifest.arguments] == ["runtime"] * 4 + ["constexpr"]
        assert manifest.oracle.kind == "suspect" and manifest.oracle.detail is not None
        assert [each.base for each in manifest.regions] == [ADDRESS, ADDRESS + 0x10000, ADDRESS + 0x20000]
        data = np.frombuffer(made.read("pre", 0, 0, manifest.regions[0].size), np.float32)
        assert np.array_equal(data[::2], x.numpy()) and not data[1::2].any()
        assert "memory between the elements of x_ptr was not saved: zeros" in manifest.notes
        assert [each.stage for each in manifest.code] == ["ttir"] and manifest.platform.packages == {
            "triton": "3.6.0"
        }
        made.verify()
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    status = main(["replay", str(path), "--trust", "--device", "cpu"])
    said = capsys.readouterr()
    assert status == 5 and "no result was recorded: the launch ran to its end" in said.out, said
    assert main(["verify", str(path), "--device", "cpu"]) == 0
    assert "there is no reference to be correct against" in capsys.readouterr().out
    wrong = tmp_path / "reference.py"
    wrong.write_text(f"import triton\nimport triton.language as tl\n{ADD.replace('+ tl.load', '- tl.load')}")
    assert main(["verify", str(path), "--device", "cpu", "--candidate", str(wrong)]) != 0


def test_as_a_document(log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["from-recording", "--json", str(log.write()), "-o", str(tmp_path / "out")]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    check("from-recording", document)
    assert [Path(each) for each in document["reproducers"]] == list((tmp_path / "out").iterdir())
    log.changes = lambda arguments: arguments["x_ptr"].pop("blob_path")
    log.write()
    assert main(words) == 1
    document = json.loads(capsys.readouterr().out)
    check("from-recording", document)
    assert (document["tool"], document["reproducers"]) == ("tritonparse", [])
    [left_out] = document["left_out"]
    assert "enable_tensor_blob_storage=True" in left_out["reason"]


def test_a_packed_log_and_packed_tensors(log: Log, tmp_path: Path) -> None:
    def pack(arguments: dict[str, Any]) -> None:
        buffer = io.BytesIO()
        torch.save(log.tensors["x_ptr"], buffer)
        arguments["x_ptr"] |= log.save(buffer.getvalue(), packed=True)

    log.changes = pack
    packed = log.write().with_suffix(".ndjson.gz")
    packed.write_bytes(gzip.compress(log.file.read_bytes()))
    made = from_recording(packed, tmp_path / "out")
    assert len(made.paths) == 1 and not made.left_out


def missing_blob(arguments: dict[str, Any]) -> None:
    arguments["y_ptr"] |= {"tensor_hash": None, "error": "Storage quota would be exceeded"}
    del arguments["y_ptr"]["blob_path"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (missing_blob, r"the contents of y_ptr were not saved \(Storage quota .*enable_tensor_blob_storage"),
        (lambda a: a["x_ptr"].update(shape=[601]), "x_ptr was saved with another shape"),
        (lambda a: a["x_ptr"].update(shape=[-1]), "x_ptr's shape is not a number"),
        (lambda a: a["x_ptr"].update(blob_path="../../../../etc/passwd"), "x_ptr are not next to the log"),
        (
            lambda a: a["x_ptr"].update(tensor_hash="0" * 128),
            "do not have the digest|are not next to the log",
        ),
        (lambda a: a["n"].update(type="TensorDescriptor"), "argument n is a TensorDescriptor"),
        (lambda a: a.update(_note="argument extraction skipped"), "its arguments were not recorded"),
    ],
)
def test_what_a_launch_lacks_is_named(log: Log, tmp_path: Path, change: Any, reason: str) -> None:
    log.changes = change
    made = from_recording(log.write(), tmp_path / "out")
    assert made.paths == () and made.left_out[0].launch == "launch 0 of add"
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(made.left_out[0].reason)
    assert not (tmp_path / "out").exists()


def test_a_helper_that_the_log_lacks_is_a_note(log: Log, tmp_path: Path) -> None:
    log.source = log.source.replace("tl.load(y_ptr + i, mask=mask)", "twice(tl.load(y_ptr + i, mask=mask))")
    [path] = from_recording(log.write(), tmp_path / "out").paths
    with Reproducer.open(path) as made:
        assert any("the source lacks twice" in note for note in made.manifest.notes)


def test_a_whole_file_is_cut_to_the_kernel(log: Log, tmp_path: Path) -> None:
    log.source = f"import os\n{HEADER}os.abort()\n\n\ndef main():\n    os.abort()\n\n\n{log.source}\n"
    [path] = from_recording(log.write(), tmp_path / "out").paths
    assert "abort" not in (path / "source/kernel.py").read_text()


def test_the_sum_of_memory_has_a_limit(log: Log, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="raise --max-size"):
        from_recording(log.write(), tmp_path / "out", max_size=6000)


def test_what_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a recording"):
        from_recording(tmp_path, tmp_path / "out")
    other = tmp_path / "other.ndjson"
    other.write_text('{"event_type": "compilation"}\n')
    with pytest.raises(UsageError, match="it has no launch, only compilations"):
        from_recording(other, tmp_path / "out")
    other.write_text("{\n")
    with pytest.raises(UsageError, match="other.ndjson:1: not JSON"):
        from_recording(other, tmp_path / "out")


class Evil:
    def __reduce__(self) -> Any:
        return (eval, ("__import__('os').abort()",))


@pytest.mark.parametrize("what", [Evil(), {"weights": torch.zeros(3)}, 3, [Evil()]])
def test_a_pickle_that_would_execute_something_is_refused(what: Any) -> None:
    buffer = io.BytesIO()
    torch.save(what, buffer)
    with pytest.raises(torch_file.TorchFileProblem):
        torch_file.read_tensor(buffer.getvalue(), 4, 1 << 20)
    with pytest.raises(torch_file.TorchFileProblem):
        torch_file.read_tensor(pickle.dumps(what), 4, 1 << 20)


@pytest.mark.parametrize("end", [b"}q\x01h\x00K\x01s.", b"X\x07\x00\x00\x00storageh\x00h\x00\x87Q."])
def test_a_pickle_that_would_take_for_ever_is_refused(end: bytes) -> None:
    """A tuple of two of the same tuple, 64 deep, as a key and as a storage: its hash visits 2^64."""
    deep = b"\x80\x02)" + b"q\x00h\x00\x86" * 64 + b"q\x00"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", deep + end)
    with pytest.raises(torch_file.TorchFileProblem):
        torch_file.read_tensor(buffer.getvalue(), 4, 1 << 20)


def test_what_is_repeated_is_copied_once(log: Log, tmp_path: Path) -> None:
    """2^40 elements with a stride of 0 are four bytes; of 2^20 times 2^20 that overlap nothing is made."""
    buffer = io.BytesIO()
    torch.save(torch.ones(1).expand(1 << 40), buffer)
    log.changes = lambda a: a["x_ptr"].update(log.save(buffer.getvalue()), shape=[1 << 40], stride=[0])
    [path] = from_recording(log.write(), tmp_path / "out").paths
    with Reproducer.open(path) as reproducer:
        assert reproducer.manifest.regions[0].size == 4
    buffer = io.BytesIO()
    torch.save(torch.ones(1 << 21).as_strided((1 << 20, 1 << 20), (1, 1)), buffer)
    both = [1 << 20, 1 << 20]
    log.changes = lambda a: a["x_ptr"].update(log.save(buffer.getvalue()), shape=both, stride=[1, 1])
    [left_out] = from_recording(log.write(), tmp_path / "other").left_out
    assert left_out.reason == "elements of x_ptr overlap"


def test_compilations_have_a_limit_in_bytes(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tritonparse, "MAX_COMPILATION_BYTES", 100)
    made = from_recording(log.write(), tmp_path / "out")
    assert made.paths == () and "its compilation is not in the log" in made.left_out[0].reason


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float8_e4m3fn]
)
def test_tensors_of_torch(dtype: Any) -> None:
    whole = torch.randint(0, 2, (5, 6)).to(dtype)
    for one in (
        whole,
        whole[1:, ::2],
        whole.T,
        whole[0, 0],
        whole[:0],
        torch.nn.Parameter(whole.float(), False),
    ):
        buffer = io.BytesIO()
        torch.save(one, buffer)
        found = torch_file.read_tensor(buffer.getvalue(), one.element_size(), 1 << 20)
        assert found.shape == tuple(one.shape)
        flat = one.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
        assert found.elements.tobytes() == flat.tobytes()


def test_damaged_logs_end_in_one_line(log: Log, tmp_path: Path) -> None:
    whole = log.write().read_bytes()
    blobs = list(log.folder.rglob("*.bin"))
    saved = {path: path.read_bytes() for path in blobs}
    for seed in range(60):
        choose = random.Random(seed)
        target = choose.choice([log.file, log.file, *blobs])
        data = bytearray(whole if target is log.file else saved[target])
        for _ in range(choose.randint(1, 6)):
            data[choose.randrange(len(data))] = choose.randrange(256)
        target.write_bytes(data[: choose.choice([len(data), len(data) // 2])])
        try:
            made = from_recording(log.file, tmp_path / f"out-{seed}")
            assert all(len(each.reason.splitlines()) == 1 for each in made.left_out)
        except KerncapError as error:
            assert len(str(error).splitlines()) == 1
        log.file.write_bytes(whole)
        for path, data_ in saved.items():
            path.write_bytes(data_)
