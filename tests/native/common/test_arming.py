"""A selection that comes while the program runs."""

from __future__ import annotations

import json
import threading
import time

from kerncap.format.records import RecordKind
from tests.native.common.captured import TOKEN, Run
from tests.session_options import session_json


def test_armed_twice(capture: Run) -> None:
    """Dormant at first; each generation has a selection of its own, counted from where it came."""
    (capture.folder / "arm").write_bytes(bytes(4096))

    def arm() -> None:
        for generation, launch in ((1, [1, 2]), (2, None)):
            while not (capture.folder / f"ready-{generation - 1}").exists():
                time.sleep(0.005)
            told = json.loads((capture.folder / "session.json").read_text())
            told.update(dormant=False, generation=generation)
            told["selection"]["launch"] = launch
            (capture.folder / f"session-{generation}.json").write_text(json.dumps(told))
            with (capture.folder / "arm").open("r+b") as page:
                page.write(generation.to_bytes(8, "little"))

    arming = threading.Thread(target=arm)
    arming.start()
    capture(
        {"dormant": True},
        case="capture_when_armed",
        READY=f"{capture.folder}/ready-",
        GENERATIONS=2,
        LAUNCHES=5,
    )
    arming.join()
    launches = capture.of(RecordKind.LAUNCH)
    assert [(launch["generation"], launch["ordinal"]) for launch in launches] == [(1, 1), (2, 0)]
    counts = capture.counts()
    assert (counts["launches"], counts["captured"]) == (15, 2)
    assert counts["filtered"] == {"dormant": 5, "ordinal": 8}
    matches = [question["generation"] for question in capture.asked if question["ask"] == "match"]
    assert matches == [1, 2] and len(capture.of(RecordKind.SEEN)) == 1


def test_armed_before_the_process_started(capture: Run) -> None:
    (capture.folder / "arm").write_bytes((3).to_bytes(8, "little") + bytes(4088))
    told = session_json(token=TOKEN, backend="cuda", generation=3)
    (capture.folder / "session-3.json").write_text(json.dumps(told))
    capture({"dormant": True})
    # No socket in that file: nobody could be asked.
    assert capture.counts()["filtered"] == {"no answer": 3}


def test_a_generation_that_cannot_be_read(capture: Run) -> None:
    (capture.folder / "arm").write_bytes((1).to_bytes(8, "little") + bytes(4088))
    capture({"dormant": True})
    assert capture.counts()["filtered"] == {"dormant": 3}
