"""``kerncap replay``: run a reproducer's launch, once or after every save of its source."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import click

from kerncap import whole_files
from kerncap.answer import Answer
from kerncap.cli.number_types import COUNT, COUNT_OR_NONE, RATIO
from kerncap.cli.paths import PATH
from kerncap.cli.replay_options import replay_options
from kerncap.cli.several import of_each
from kerncap.cli.strict import strict_option
from kerncap.errors import KerncapError, UsageError
from kerncap.exit_status import exit_status

_STAGES = ("source", "ttir", "ttgir", "llir", "ptx", "cubin")
_WORKING_COPY = ""  # --watch without a FILE
_STDOUT = Path("-")


@click.command("replay")
@functools.partial(of_each, required=False)
@replay_options
@strict_option
@click.option(
    "-n", "timed_runs", type=COUNT_OR_NONE, metavar="N",
    help="Time N runs. Default: 20 on a GPU, else 0.",
)  # fmt: skip
@click.option(
    "--until-fail", type=COUNT, is_flag=False, flag_value=10_000, metavar="[MAX]",
    help="Repeat until a run disagrees, at most MAX times (10000), and report the rate.",
)  # fmt: skip
@click.option(
    "--only", type=COUNT_OR_NONE, metavar="K", help="For a range: run only launch K, on its captured memory."
)
@click.option("--until", type=COUNT_OR_NONE, metavar="K", help="For a range: run up to launch K.")
@click.option("--edit", is_flag=True, help="Open $VISUAL or $EDITOR on a working copy; verify every save.")
@click.option(
    "--watch", "watched", multiple=True, is_flag=False, flag_value=_WORKING_COPY, metavar="[FILE]",
    help="Verify every save of the working copy, or of FILE. Repeatable, for more files of a unit.",
)  # fmt: skip
@click.option(
    "--stage", type=click.Choice(_STAGES), default="source", show_default=True,
    help="Stage to edit: the source, or a compiled stage.",
)  # fmt: skip
@click.option(
    "--copy", "copy_folder", type=PATH, metavar="DIR",
    help="Folder of the working copy. Default: ./<kernel>-edit.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Verify the working copy, or the file of --watch, once.")
@click.option(
    "--apply", "apply_to", type=click.Path(path_type=Path, allow_dash=True), is_flag=False, flag_value="-",
    metavar="[FILE]", help="Write the edits as a patch against the application's files. Default: to stdout.",
)  # fmt: skip
@click.option(
    "--compare", "compared", metavar="LIST",
    help="Compare variants: captured, rebuilt, candidate, separated by commas.",
)  # fmt: skip
@click.option(
    "--max-ratio", type=RATIO, metavar="R",
    help="With --compare: fail a variant that takes more than R times as long as the first.",
)  # fmt: skip
@click.option(
    "--bisect", is_flag=True,
    help="With --compare: exit status for `git bisect run`: 0 good, 1 bad, 125 can't be tested.",
)  # fmt: skip
@click.option(
    "--limits",
    is_flag=True,
    help="Compare the launch with the device's ceilings; for a range, show what fusion saves.",
)
@click.option("--ceilings", metavar="FILE|NAME", help="With --limits: use the ceilings of another device.")
@click.option("--measure-again", is_flag=True, help="With --limits: measure this device's ceilings again.")
@click.option(
    "--counters", type=click.Choice(["auto", "ncu", "none"]), default="auto", show_default=True,
    help="With --limits: count with Nsight Compute; auto if it is installed and allowed.",
)  # fmt: skip
def command(
    reproducer: Path | None, as_json: bool, edit: bool, watched: tuple[str, ...], stage: str,
    copy_folder: Path | None, once: bool, apply_to: Path | None, compared: str | None,
    max_ratio: float | None, bisect: bool, limits: bool, ceilings: str | None, measure_again: bool,
    counters: str, only: int | None, until: int | None, **options: Any,
) -> int:  # fmt: skip
    """Run the launch of each REPRO without its application, and compare with the application's result.

    The launches of a range run in order, each on the memory that the launches before it left.

    The last line is "Result: PASS ...", "Result: FAIL ..." or "Result: UNDECIDED ...". Exit status: 0 pass,
    1 fail, 2 usage, 3 the reproducer is damaged, 4 something is missing here, 5 undecided. With --edit and
    --watch, it is that of the last verdict.
    """
    from kerncap.replay import nursery

    repro = reproducer
    if repro is None:
        repro, watched, apply_to = _given_to_an_option(watched, apply_to)
    judging = edit or once or bool(watched)
    editing = judging or apply_to is not None
    _refuse_together(editing, compared is not None, limits)
    if options["until_fail"] is not None and (editing or compared is not None or limits):
        raise UsageError(
            "--until-fail runs one thing many times: leave out --edit, --watch, --once, --apply, --compare "
            "and --limits"
        )
    if compared is None and (bisect or max_ratio is not None):
        raise UsageError("--bisect, --max-ratio: only for a comparison; add --compare")
    if not limits and (ceilings is not None or measure_again or counters != "auto"):
        raise UsageError("--ceilings, --measure-again, --counters: only for limits; add --limits")
    if (only is not None or until is not None) and (editing or compared is not None or limits):
        raise UsageError("--only, --until: for a plain replay of a range; leave the other options out")
    if not (editing or stage != "source" or copy_folder is not None or compared is not None or limits):
        with nursery.ahead() as begun:  # while the rest is loaded
            return _replay(repro, options, as_json, only, until, begun)
    from kerncap.api.replay import ReplayOptions

    replay_as = ReplayOptions(**options)
    if editing:
        status = _edit(repro, replay_as, as_json, edit, watched, stage, copy_folder, once) if judging else 0
        if apply_to is None:
            return status
        return _apply(repro, watched, stage, copy_folder, apply_to, replay_as) or status
    if stage != "source" or copy_folder is not None:
        raise UsageError("--stage, --copy: only for a working copy; add --edit, --watch, --once or --apply")
    if compared is not None:
        return _compare(repro, compared, replay_as, as_json, bisect, max_ratio)
    return _limits(repro, replay_as, as_json, ceilings, measure_again, counters)


def _given_to_an_option(
    watched: tuple[str, ...], apply_to: Path | None
) -> tuple[Path, tuple[str, ...], Path | None]:
    """``--watch REPRO``: the folder was taken for the option's FILE, which no folder can be."""
    for number, each in enumerate(watched):
        if each != _WORKING_COPY and Path(each).is_dir():
            return Path(each), (*watched[:number], _WORKING_COPY, *watched[number + 1 :]), apply_to
    if apply_to is not None and apply_to.is_dir():
        return apply_to, watched, _STDOUT
    raise click.MissingParameter(param_hint="'REPRO...'", param_type="argument")


def _refuse_together(*asked: bool) -> None:
    if sum(asked) > 1:
        raise UsageError(
            "--edit (or --watch, --once, --apply), --compare, --limits: one at a time; leave the others out"
        )


def _replay(
    repro: Path, options: dict[str, Any], as_json: bool, only: int | None, until: int | None, begun: Any
) -> int:
    """``begun``: what was started ahead, for a pool."""
    from kerncap.api.replay import ReplayOptions, replay
    from kerncap.format.folder import is_range
    from kerncap.replay.pool import Pool
    from kerncap.report.verdict_text import render

    if is_range(repro):
        if begun is not None:  # its context takes memory of the device
            begun.close()
        return _replay_range(repro, ReplayOptions(**options), as_json, only, until)
    if only is not None or until is not None:
        raise UsageError(f"--only, --until: {repro} is not a range of launches; leave them out")
    with Pool(begun=begun) as pool:
        result = replay(repro, ReplayOptions(**options), pool)
    click.echo(json.dumps(result.as_dict(), indent=2) if as_json else render(result))
    return exit_status(result.answer)


def _replay_range(repro: Path, options: Any, as_json: bool, only: int | None, until: int | None) -> int:
    from kerncap.api.range_replay import replay_launch, replay_range
    from kerncap.report import range_text, verdict_text

    if only is not None:
        if until is not None:
            raise UsageError("--only and --until exclude each other: one launch, or all up to one")
        launch = replay_launch(repro, only, options)
        click.echo(json.dumps(launch.as_dict(), indent=2) if as_json else verdict_text.render(launch))
        return exit_status(launch.answer)
    result = replay_range(repro, options, until)
    click.echo(json.dumps(result.as_dict(), indent=2) if as_json else range_text.render(result))
    return exit_status(result.answer)


def _edit_options(watched: tuple[str, ...], stage: str, folder: Path | None, replay_as: Any) -> Any:
    from kerncap.api.edit import EditOptions

    files = tuple(Path(each) for each in watched if each != _WORKING_COPY)
    if files and folder is not None:
        raise UsageError("--watch FILE: the file itself is verified; leave --copy out")
    return EditOptions(replay=replay_as, stage=stage, folder=folder, files=files)


def _edit(
    repro: Path, replay_as: Any, as_json: bool, opens: bool, watched: tuple[str, ...], stage: str,
    folder: Path | None, once: bool,
) -> int:  # fmt: skip
    from kerncap.api.edit import edit
    from kerncap.report.edit_screens import screen

    options = _edit_options(watched, stage, folder, replay_as)
    return edit(repro, options, screen(as_json), opens, once)


def _apply(
    repro: Path, watched: tuple[str, ...], stage: str, folder: Path | None, to: Path, replay_as: Any
) -> int:
    from kerncap import log, streams
    from kerncap.api.edit import apply, apply_words

    patch = apply(repro, _edit_options(watched, stage, folder, replay_as))
    for line in (*(f"not in the patch: {each}" for each in patch.unmapped), *patch.notes):
        log.line(line)
    if not patch.text:
        log.line("nothing to apply: no line of the application's files is changed")
        return 1
    if to == _STDOUT:
        streams.write_data(patch.text)
    else:
        whole_files.write(to, patch.text)
        log.line(f"apply it: {apply_words(patch, to)}")
    return 1 if patch.unmapped else 0


def _compare(
    repro: Path, compared: str, options: Any, as_json: bool, bisect: bool, max_ratio: float | None
) -> int:
    from kerncap import log
    from kerncap.api.compare import bisect_status, compare
    from kerncap.report.compare_text import render

    which = [each.strip() for each in compared.split(",") if each.strip()]
    try:
        result = compare(repro, which, options, max_ratio)
    except KerncapError as error:
        if not bisect:
            raise
        log.line(" ".join(str(error).split("\n")))
        return bisect_status(error)
    click.echo(json.dumps(result.as_dict(), indent=2) if as_json else render(result))
    if bisect:
        return bisect_status(result, click.get_current_context().params["strict"])
    return exit_status(result.answer)


def _limits(
    repro: Path, options: Any, as_json: bool, ceilings: str | None, again: bool, counters: str
) -> int:
    from kerncap.format.folder import is_range

    if is_range(repro):
        return _range_limits(repro, options, as_json, ceilings, again, counters)
    from kerncap.api.limits import limits
    from kerncap.report.limits_text import render

    report = limits(repro, options, ceilings_of=ceilings, measure_again=again, counters=counters)
    click.echo(json.dumps(report.as_dict(), indent=2) if as_json else render(report))
    return exit_status(Answer.YES if report.too_fast is None else Answer.UNDECIDED)


def _range_limits(
    repro: Path, options: Any, as_json: bool, ceilings: str | None, again: bool, counters: str
) -> int:
    from kerncap.api.range_limits import range_limits
    from kerncap.report.range_text import render_limits

    if again or counters != "auto" or options.candidate is not None:
        raise UsageError(
            "--measure-again, --counters, --candidate: for one launch; `kerncap slice` makes a reproducer"
        )
    found = range_limits(repro, ceilings)
    click.echo(json.dumps(found.as_dict(), indent=2) if as_json else render_limits(found))
    return exit_status(Answer.YES)
