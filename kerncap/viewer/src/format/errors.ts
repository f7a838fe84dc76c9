/** A file that is damaged, hostile or not a reproducer: always one line, `<file>: <problem>`. */
export class FormatError extends Error {
  constructor(where: string, problem: string) {
    super(`${visible(where)}: ${visible(problem)}`);
    this.name = "FormatError";
  }
}

// Control characters, and those that turn the direction of text around or can't be seen.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu;

/** The text with each unseen character written out, so that nothing in it can pretend. */
export function visible(text: string, keep = ""): string {
  return text.replace(UNSEEN, (each) => (keep.includes(each) ? each : `\\u{${each.codePointAt(0)!.toString(16)}}`));
}
